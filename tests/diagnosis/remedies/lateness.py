"""Jobs whose cause is a late rank: for each remedy one that it must come first in, and a near miss."""

from __future__ import annotations

from builders.remedies.remedy_jobs import Job

LOADER = (
    "poll (selectors.py:415)",
    "_try_get_data (torch/utils/data/dataloader.py:1251)",
    "_next_data (torch/utils/data/dataloader.py:1413)",
)
REDUCE = ("all_reduce (torch/distributed/distributed_c10d.py:2800)", "train_step (train.py:91)")
SPOOL = "stacks/stack_rank_5.txt"


def uploads(child: str) -> Job:
    """Rank 5 waits for a child, and a table of processes lists one."""
    job = late(5).stack(5, "_wait (subprocess.py:2046)", "wait (subprocess.py:1264)", "upload (up.py:5)")
    return job.raw("ps.txt", "PID PPID STAT WCHAN COMMAND", "4005 1 S do_wait python train.py", child)


BACKWARD = ("run_backward (torch/autograd/graph.py:824)", "backward (torch/_tensor.py:626)", "train_step (train.py:92)")


def late(*ranks: int, **call: object) -> Job:
    return Job().late(*(ranks or (5,)), **call)


def tokenizer(rank: int, **call: object) -> Job:
    return Job(steps=0).say(rank, "Running tokenizer on dataset").late(rank, seq=1, numel=1, **call)


def slow(rank: int, **call: object) -> Job:
    """A rank whose work goes on after the others gave up."""
    return late(rank, **call).raw(f"node{rank // 4}/rank_{rank}.log", "2026-11-20 10:12:30,000 INFO step 501 loss 2.01")


def throttle(state: str) -> tuple[str, str]:
    return "node1/nvidia-smi.txt", f"            HW Thermal Slowdown                   : {state}"


CASES = {
    "horovod-stall": (
        lambda: Job(steps=0).raw("horovod.log", "WARNING: waiting for remainder of ranks for more than 60 seconds.", "Stalled ops:", "grads_dense_1 [missing ranks: 5]"),
        lambda: Job(steps=0).raw("horovod.log", "grads_dense_1 [tensors: 5]"),
    ),
    "dataloader-stall": (
        lambda: late(5).stack(5, *LOADER),
        lambda: late(5).stack(5, *BACKWARD).stack(0, *REDUCE),
    ),
    "checkpoint-save-slow": (
        lambda: Job().say(5, "Saving checkpoint to /data/ckpt/step_500").late(5),
        lambda: Job().say(5, "Saving checkpoint to /data/ckpt/step_400", "Saved checkpoint to /data/ckpt/step_400", "step 501 loss 1.9").late(5),
    ),
    "compile-skew": (
        lambda: Job(steps=3).late(5, seq=40).stack(5, "wait (subprocess.py:1264)", "compile_fx (torch/_inductor/compile_fx.py:1505)", "_compile (torch/_dynamo/convert_frame.py:1000)"),
        lambda: Job(steps=3).say(5, "Compiling model", "Compilation took 41 s", "step 4 loss 2.0").late(5, seq=40),
    ),
    "autotune-skew": (
        lambda: Job(steps=3).late(5, seq=40).stack(5, "synchronize (torch/cuda/__init__.py:985)", "do_bench (triton/testing.py:160)", "_bench (triton/runtime/autotuner.py:150)"),
        lambda: Job(steps=3).late(5, seq=40).stack(5, "matmul_kernel (model.py:77)"),
    ),
    "compile-divergence": (
        lambda: late(5).stack(0, "all_gather_object (torch/distributed/distributed_c10d.py:2900)", "all_gather_object (torch/_dynamo/distributed.py:40)").stack(5, "forward (model.py:7)"),
        lambda: late(5).stack(0, *REDUCE).stack(5, "forward (model.py:8)"),
    ),
    "dataloader-fork-deadlock": (
        lambda: Job().raw(
            "node1/rank_5.log",
            "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
        ).late(5),
        lambda: Job().say(5, "tokenizers ready").late(5),
    ),
    "child-process-stuck": (
        lambda: uploads("4800 4005 S pipe_write zstd -o a.zst"),
        lambda: uploads("4800 4003 S pipe_write zstd -o a.zst"),
    ),
    "deadlock-in-process": (
        lambda: late(5).stack(5, "put (queue.py:140)", "hand_over (spool.py:12)").raw(SPOOL, "", 'Thread 4712 (idle): "spool"', "    acquire (logging/__init__.py:927)", "    empty (spool.py:40)"),
        lambda: late(5).stack(5, "put (queue.py:140)", "hand_over (spool.py:13)").raw(SPOOL, "", 'Thread 4712 (idle): "spool"', "    get (queue.py:171)", "    empty (spool.py:38)"),
    ),
    "dataloader-worker-killed": (
        lambda: late(5).raises(5, "RuntimeError: DataLoader worker (pid 9120) is killed by signal: Killed. ", "_try_get_data").ends({5: 1}, 1),
        lambda: late(5).raises(5, "RuntimeError: could not open sample 9120", "fetch").ends({5: 1}, 1),
    ),
    "eval-uneven": (
        lambda: Job().say(0, "Running evaluation").say(5, "Running evaluation", "Finished evaluation").late(5, op="ALLGATHER", numel=256),
        lambda: Job().say(5, "Saving checkpoint to /data/c").late(5, op="ALLREDUCE", numel=257),
    ),
    "fd-exhaustion": (
        lambda: late(5).raises(5, "OSError: [Errno 24] Too many open files: '/data/shard-00017.tar'", "fetch").ends({5: 1}, 1),
        lambda: late(5).raises(5, "OSError: [Errno 5] Input/output error: '/data/shard-00017.tar'", "fetch").ends({5: 1}, 1),
    ),
    "file-lock-wait": (
        lambda: late(5).stack(5, "acquire (filelock/_api.py:303)", "load (torch/utils/cpp_extension.py:1314)"),
        lambda: late(5).stack(5, "acquire (pool.py:30)", "run (pool.py:9)"),
    ),
    "filesystem-stall": (
        lambda: late(5).kernel(1, "nfs: server storage3 not responding, still trying", "INFO: task python:4005 blocked for more than 120 seconds."),
        lambda: late(5).kernel(0, "nfs: server storage3 not responding, still trying").kernel(1, "systemd[1]: Started Session 12 of user train."),
    ),
    "gc-pause": (
        lambda: late(5).stack(5, "collect (gc.py:1)", "step (train.py:77)"),
        lambda: late(5).stack(5, "collect (ppo.py:10)", "train (ppo.py:33)"),
    ),
    "left-in-debugger": (
        lambda: late(5).stack(5, "readline (codeop.py:2)", "cmdloop (cmd.py:126)", "interaction (pdb.py:360)", "user_line (pdb.py:262)", "train_step (train.py:9)"),
        lambda: late(5).stack(5, "interact (train.py:10)"),
    ),
    "rank0-data-prep": (
        lambda: tokenizer(0),
        lambda: Job().say(0, "Running tokenizer on dataset", "Finished tokenizing", "step 501 loss 2.0").late(0, seq=4322),
    ),
    "rank0-network-logging": (
        lambda: late(0).stack(0, "read (ssl.py:1134)", "urlopen (urllib3/connectionpool.py:789)", "log (wandb/sdk/wandb_run.py:1700)"),
        lambda: Job().say(0, "wandb: run synced").late(0).stack(0, "update (metrics.py:3)"),
    ),
    "rank0-only-work-at-barrier": (
        lambda: Job().say(0, "Generating sample images").late(0, numel=1),
        lambda: Job().say(3, "Generating sample images").late(3, numel=2).stack(3, "upsample (model.py:5)"),
    ),
    "shm-too-small": (
        lambda: Job(steps=0).nccl(5, "include/shmutils.h:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a1b2 to 9637892 bytes").raises(
            5, "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:77, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5"
        ).ends({5: 1}, 1),
        lambda: Job(steps=0).nccl(5, "NCCL INFO Channel 00 : 5[1] -> 6[2] via SHM/direct/direct").raises(5, "ValueError: shm is no backend").ends({5: 1}, 1),
    ),
    "slow-logging-or-scalar-sync": (
        lambda: late(5, numel=1).stack(5, "clip_grad_norm_ (torch/nn/utils/clip_grad.py:80)", "train_step (train.py:20)"),
        lambda: late(5, numel=1).stack(5, "build_optimizer (train.py:21)"),
    ),
    "straggler-gpu-throttle": (
        lambda: slow(5).raw(*throttle("Active")),
        lambda: slow(5).raw(*throttle("Not Active")),
    ),
    "straggler-host": (
        lambda: late(4, 5, 6, 7).kernel(1, "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python:4005]"),
        lambda: late(5).kernel(0, "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python:4001]").kernel(1, "eth0: link becomes ready"),
    ),
    "uneven-inputs-ddp": (
        lambda: Job().say(5, "epoch 3 finished in 812.3 s").late(5, seq=4000),
        lambda: Job().say(5, "step 502 loss 2.2").late(5, seq=4001),
    ),
    "busy-elsewhere": (
        lambda: late(5).stack(5, "solve (assignment.py:40)", "match (losses.py:12)"),
        lambda: late(5).stack(5, *REDUCE),
    ),
}  # fmt: skip
