"""Where a rank stands in the framework that it uses: stacks as py-spy prints them, innermost first."""

from __future__ import annotations

import pytest

from nccldoctor.align.stack_activity import activity_of, hooks_of, place_in_framework

TRAINER = (
    "call_event (transformers/trainer_callback.py:545)",
    "on_step_end (transformers/trainer_callback.py:520)",
    "_run_epoch (transformers/trainer.py:1949)",
    "_inner_training_loop (transformers/trainer.py:1660)",
    "train (transformers/trainer.py:1576)",
    "main (/opt/train/finetune.py:70)",
)
STACKS = {
    "a callback of the Trainer": (
        ("score (/opt/train/metrics.py:8)", "on_step_end (/opt/train/finetune.py:34)", *TRAINER),
        ", called by on_step_end of the Trainer",
    ),
    "evaluation in a callback of the Trainer": (
        (
            "forward (torch/nn/modules/linear.py:125)",
            "prediction_step (transformers/trainer.py:3100)",
            "evaluation_loop (transformers/trainer.py:2999)",
            "evaluate (transformers/trainer.py:2863)",
            "on_step_end (/opt/train/finetune.py:34)",
            *TRAINER,
        ),
        " of the Trainer, inside evaluate",
    ),
    "the Trainer saves": (
        (
            "save (torch/serialization.py:965)",
            "_save_checkpoint (transformers/trainer.py:3300)",
            "_maybe_log_save_evaluate (transformers/trainer.py:3200)",
            *TRAINER[3:],
        ),
        ", inside _maybe_log_save_evaluate of the Trainer",
    ),
    "a hook of a Lightning module": (
        (
            "plot (/opt/train/plots.py:4)",
            "on_validation_epoch_end (/opt/train/lit.py:61)",
            "_call_lightning_module_hook (lightning/pytorch/trainer/call.py:177)",
            "_on_evaluation_epoch_end (lightning/pytorch/loops/evaluation_loop.py:333)",
            "run (lightning/pytorch/loops/evaluation_loop.py:160)",
            "main (/opt/train/lit.py:90)",
        ),
        ", called by on_validation_epoch_end of Lightning",
    ),
    "a hook of a Lightning module itself": (
        (
            "sleep_a_while (numpy/random.py:4)",
            "validation_step (/opt/train/lit.py:40)",
            "_call_strategy_hook (pytorch_lightning/trainer/call.py:309)",
        ),
        " of Lightning",
    ),
    "Lightning before 1.8": (
        (
            "score (/opt/train/m.py:8)",
            "on_train_batch_end (/opt/train/cb.py:9)",
            "_call_callback_hooks (pytorch_lightning/trainer/trainer.py:1600)",
        ),
        ", called by on_train_batch_end of Lightning",
    ),
    "NeMo": (
        (
            "wait (multiprocessing/popen_fork.py:43)",
            "_finalize_if_async_save (nemo/lightning/pytorch/callbacks/model_checkpoint.py:701)",
            "fit (/opt/train/gpt.py:12)",
        ),
        ", inside _finalize_if_async_save of NeMo",
    ),
    "Accelerate": (
        (
            "save (torch/serialization.py:965)",
            "save_accelerator_state (accelerate/checkpointing.py:110)",
            "save_state (accelerate/accelerator.py:3490)",
            "main (/opt/train/a.py:81)",
        ),
        ", inside save_state of Accelerate",
    ),
    "DeepSpeed": (
        (
            "_save (torch/serialization.py:1200)",
            "save (deepspeed/runtime/checkpoint_engine/torch_checkpoint_engine.py:22)",
            "_save_zero_checkpoint (deepspeed/runtime/engine.py:3600)",
            "save_checkpoint (deepspeed/runtime/engine.py:3080)",
            "main (/opt/train/ds.py:81)",
        ),
        ", inside save_checkpoint of DeepSpeed",
    ),
    "Megatron": (
        (
            "join (multiprocessing/process.py:149)",
            "maybe_finalize_async_save (megatron/training/async_utils.py:48)",
            "train (megatron/training/training.py:1500)",
            "<module> (/opt/train/pretrain_gpt.py:300)",
        ),
        ", inside maybe_finalize_async_save of Megatron",
    ),
    "a checkpoint written behind the training": (
        (
            "result (concurrent/futures/_base.py:451)",
            "async_save (torch/distributed/checkpoint/state_dict_saver.py:260)",
            "train (/opt/train/titan.py:71)",
        ),
        ", inside async_save of torch.distributed.checkpoint",
    ),
    "FSDP": (
        (
            "_all_gather_optim_state (torch/distributed/fsdp/_optim_utils.py:1500)",
            "optim_state_dict (torch/distributed/fsdp/fully_sharded_data_parallel.py:1800)",
            "save (/opt/train/fsdp.py:31)",
        ),
        ", inside optim_state_dict of FSDP",
    ),
    "Ray Train": (
        ("get (queue.py:171)", "report (ray/train/_internal/session.py:652)", "train_loop (/opt/train/loop.py:20)"),
        ", inside report of Ray Train",
    ),
}
OTHERS = {
    "a callback of another library": (
        "score (/opt/train/m.py:8)",
        "on_step_end (/opt/train/cb.py:34)",
        "fire (fastai/callback/core.py:60)",
    ),
    "a function of that name in own code": (
        "on_validation_epoch_end (/opt/train/loop.py:61)",
        "main (/opt/train/loop.py:90)",
    ),
    "a checkpoint of own code": (
        "write (/opt/train/io.py:6)",
        "save_checkpoint (/opt/train/loop.py:61)",
        "main (/opt/train/loop.py:90)",
    ),
    "evaluate of a package for metrics": (
        "compute (evaluate/module.py:455)",
        "evaluate (evaluate/evaluator/base.py:255)",
        "main (/opt/train/loop.py:90)",
    ),
    "a folder of the user that is called like a framework": (
        "report (/opt/xray/training/report.py:3)",
        "main (/opt/train/loop.py:90)",
    ),
    "an ordinary step of the Trainer": ("main (/opt/train/finetune.py:70)",),
}


@pytest.mark.parametrize("name", STACKS)
def test_the_part_of_the_framework_is_named(name: str) -> None:
    frames, words = STACKS[name]
    assert place_in_framework(frames) == words


@pytest.mark.parametrize("name", OTHERS)
def test_the_same_name_elsewhere_is_no_part_of_a_framework(name: str) -> None:
    assert (place_in_framework(OTHERS[name]), hooks_of(OTHERS[name])) == ("", [])


def test_the_code_that_an_optimizer_calls_is_not_the_optimizer() -> None:
    closure = ("step (torch/optim/adam.py:227)", "main (/opt/train/lit.py:90)")
    assert activity_of(closure) == "runs the optimizer"
    assert activity_of(("training_step (/opt/train/lit.py:32)", *closure)) is None


def test_a_graph_that_is_captured_is_named() -> None:
    assert (
        activity_of(("capture_begin (torch/cuda/graphs.py:66)", "warm_up (/opt/train/g.py:3)"))
        == "captures a CUDA graph"
    )
    assert activity_of(("capture_begin (/opt/train/camera.py:66)",)) is None


def test_a_tokenizer_prepares_data() -> None:
    assert activity_of(("_batch_encode_plus (transformers/tokenization_utils_fast.py:500)",)) == "prepares data"
    assert activity_of(("_batch_encode_plus (/opt/train/codec.py:5)",)) is None


def test_a_stack_of_which_no_frame_has_a_name_of_its_own_holds_no_hook() -> None:
    assert hooks_of([]) == []
    assert hooks_of(["_bootstrap (threading.py:1002)"]) == []
