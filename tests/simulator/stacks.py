"""Python stacks: what a recorded call or a sampled thread shows of the program."""

from __future__ import annotations

from functools import cache

_TORCH = "/usr/local/lib/python3.11/site-packages/torch/"
_APP = "/srv/trainer/"
_ROOT = (("fit", _APP + "loop.py", 118), ("main", _APP + "run.py", 64), ("<module>", _APP + "run.py", 71))
_AUTOGRAD = (
    ("_engine_run_backward", _TORCH + "autograd/graph.py", 823),
    ("backward", _TORCH + "autograd/__init__.py", 347),
    ("backward", _TORCH + "_tensor.py", 581),
    ("run_step", _APP + "loop.py", 92),
)
_STEP = (("run_step", _APP + "loop.py", 88),)

# user frames of every site that issues a call, innermost first
_SITES: dict[str, tuple[tuple[str, str, int], ...]] = {
    "ddp_bucket": _AUTOGRAD,
    "expert_bucket": (("reduce_experts", _APP + "moe.py", 140), *_AUTOGRAD),
    "average_loss": (("average_loss", _APP + "metrics.py", 22), ("run_step", _APP + "loop.py", 97)),
    "clip_grads": (("clip_grads", _APP + "optim.py", 37), ("run_step", _APP + "loop.py", 94)),
    "checkpoint_barrier": (("save_checkpoint", _APP + "ckpt.py", 58),),
    "start_barrier": (("setup", _APP + "run.py", 41),),
    "sync_params": (
        ("_sync_module_states", _TORCH + "distributed/utils.py", 322),
        ("__init__", _TORCH + "nn/parallel/distributed.py", 834),
        ("build", _APP + "run.py", 36),
    ),
    "fsdp_unshard": (
        ("_unshard", _TORCH + "distributed/fsdp/_runtime_utils.py", 301),
        ("forward", _APP + "model.py", 77),
        *_STEP,
    ),
    "fsdp_prefetch": (("_prefetch_handle", _TORCH + "distributed/fsdp/_runtime_utils.py", 1228), *_AUTOGRAD),
    "fsdp_reduce": (("_reduce_grad", _TORCH + "distributed/fsdp/_runtime_utils.py", 865), *_AUTOGRAD),
    "tp_forward": (("row_parallel", _APP + "tensor.py", 51), ("forward", _APP + "model.py", 83), *_STEP),
    "tp_backward": (("column_parallel_grad", _APP + "tensor.py", 69), *_AUTOGRAD),
    "reduce_grads": (("reduce_grads", _APP + "optim.py", 74), ("run_step", _APP + "loop.py", 93)),
    "gather_params": (("gather_params", _APP + "optim.py", 102), ("run_step", _APP + "loop.py", 95)),
    "evaluate": (("gather_scores", _APP + "evaluate.py", 33), ("evaluate", _APP + "evaluate.py", 47)),
    "extra_metric": (("log_extra", _APP + "metrics.py", 61), ("run_step", _APP + "loop.py", 98)),
}
for _site in ("send_forward", "recv_forward", "send_backward", "recv_backward"):
    _SITES[_site] = ((_site, _APP + "pipeline.py", 40 + len(_site)), ("schedule", _APP + "pipeline.py", 131), *_STEP)
for _site in ("send_forward_recv_backward", "send_backward_recv_forward"):
    _SITES[_site] = ((_site, _APP + "pipeline.py", 60 + len(_site)), ("schedule", _APP + "pipeline.py", 144), *_STEP)
for _k, _site in enumerate(("dispatch", "combine", "combine_backward", "dispatch_backward")):
    _SITES[_site] = ((_site, _APP + "moe.py", 61 + 9 * _k), ("forward", _APP + "moe.py", 90 + _k), *_STEP)

_WRAPPERS = {
    "all_reduce": ("all_reduce", 2791),
    "barrier": ("barrier", 4164),
    "broadcast": ("broadcast", 2421),
    "reduce": ("reduce", 2888),
    "all_gather": ("all_gather", 3340),
    "all_gather_base": ("all_gather_into_tensor", 3466),
    "reduce_scatter_base": ("reduce_scatter_tensor", 3885),
    "all_to_all": ("all_to_all_single", 4009),
    "send": ("isend", 2071),
    "recv": ("irecv", 2119),
    "coalesced": ("batch_isend_irecv", 2372),
}

# what the main thread is in when it does not issue calls, innermost first
DOING: dict[str, tuple[tuple[str, str, int], ...]] = {
    "log_step": (
        ("item", _TORCH + "_tensor.py", 1),
        ("average_loss", _APP + "metrics.py", 24),
        ("run_step", _APP + "loop.py", 97),
    ),
    "save_checkpoint": (("synchronize", _TORCH + "cuda/__init__.py", 954), ("save_checkpoint", _APP + "ckpt.py", 44)),
    "checkpoint_barrier": (
        ("barrier", _TORCH + "distributed/distributed_c10d.py", 4164),
        ("save_checkpoint", _APP + "ckpt.py", 58),
    ),
    "start_barrier": (("barrier", _TORCH + "distributed/distributed_c10d.py", 4164), ("setup", _APP + "run.py", 41)),
    "save": (
        ("_save", _TORCH + "serialization.py", 1128),
        ("save", _TORCH + "serialization.py", 943),
        ("write_state", _APP + "ckpt.py", 31),
        ("save_checkpoint", _APP + "ckpt.py", 49),
    ),
    "next_batch": (
        ("select", "/usr/lib/python3.11/selectors.py", 415),
        ("_try_get_data", _TORCH + "utils/data/dataloader.py", 1251),
        ("_get_data", _TORCH + "utils/data/dataloader.py", 1410),
        ("__next__", _TORCH + "utils/data/dataloader.py", 733),
    ),
    "evaluate": (("score", _APP + "evaluate.py", 21), ("evaluate", _APP + "evaluate.py", 44)),
    "file_lock": (
        ("acquire", "/usr/local/lib/python3.11/site-packages/filelock/_api.py", 303),
        ("load_shard", _APP + "data.py", 88),
    ),
    "compile": (("_compile", _TORCH + "_dynamo/convert_frame.py", 739), ("run_step", _APP + "loop.py", 86)),
    "upload": (("read", "/usr/lib/python3.11/ssl.py", 1167), ("push_metrics", _APP + "metrics.py", 77)),
    "garbage": (("collect_garbage", _APP + "loop.py", 57),),
    "after_error": (("sleep_forever", _APP + "run.py", 55),),
    "configure": (("read_config", _APP + "config.py", 19), ("setup", _APP + "run.py", 29)),
    "setup": (("init_process_group", _TORCH + "distributed/distributed_c10d.py", 1361), ("setup", _APP + "run.py", 33)),
    "step": (("run_step", _APP + "loop.py", 90),),
}


@cache
def frames_of(site: str, op: str, release: tuple[int, ...]) -> list[dict[str, object]]:
    """The recorded stack of a call (shared: a pickle keeps one copy), innermost frame first."""
    name, line = _WRAPPERS[op]
    shift = release[-1] * 7
    head = (
        (name, _TORCH + "distributed/distributed_c10d.py", line + shift),
        ("wrapper", _TORCH + "distributed/c10d_logger.py", 81),
    )
    return [{"name": n, "filename": f, "line": k} for n, f, k in (*head, *_SITES[site], *_ROOT)]


def stack_of(doing: str) -> tuple[tuple[str, str, int], ...]:
    """The stack of a sampled main thread, innermost frame first."""
    root = _ROOT[1:] if doing in ("configure", "setup", "start_barrier") else _ROOT
    return (*DOING.get(doing, DOING["step"]), *root)
