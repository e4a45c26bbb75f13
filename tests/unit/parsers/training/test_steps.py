"""Where a rank is: bars, step lines, heartbeats, and what it does outside the step."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events, parsed

from nccldoctor.events import Heartbeat, Phase, Progress

PROGRESS = [
    (
        "Epoch 0:   6%|██ | 32040/500150 [6:28:43<94:39:17,  1.37it/s, loss=2.6, v_num=95nc, global_step=3.2e+4]",
        (32040, 500150, 1.37, 0),
    ),
    ("  2%|▏         | 12/604 [01:02<49:27,  4.00s/it]", (12, 604, 0.25, None)),
    (" 46%|████▉ | 1588000/3452118 [30:06<35:21, 878.72 examples/s]", (1588000, 3452118, 878.72, None)),
    ("  0%|          | 0/7416 [00:00<?, ?it/s]", (0, 7416, None, None)),
    ("mAP@.5 mAP@.5:.95:  70% 22/32 [01:03<00:27,  2.00s/it]", (22, 32, 0.5, None)),
    ("Loading checkpoint shards: 100%|██████████| 38/38 [00:34<00:00,  1.66it/s]", (38, 38, 1.66, None)),
    (" 10%|█| 1.50k/15.0k [00:10<01:30, 150it/s]", (1500, 15000, 150.0, None)),
    (
        " iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms): 2000.0 | "
        "learning rate: 9.150E-06 |",
        (122, 250000, 0.5, None),
    ),
    ("[2025-01-01 12:00:00.123456] iteration      122/  250000 | consumed samples: 1 |", (122, 250000, None, None)),
    (
        "Training epoch 1, iteration 12/99 | lr: 0.1 | global_batch_size: 8 | global_step: 111 | reduced_train_loss: "
        "2.1",
        (111, None, None, 1),
    ),
    ("{'loss': '3.5534', 'grad_norm': '1.4', 'learning_rate': '2e-06', 'epoch': '4.01'}", (None, None, None, 4)),
    (
        "Epoch: [7]  [ 100/1251]  eta: 0:15:17  lr: 0.00  loss: 5.2 (4.7)  time: 0.77  data: 0.0005  max mem: 19285",
        (100, 1251, None, 7),
    ),
    (
        "[rank0]:[titan] 2025-01-01 12:00:00,123 - root - INFO - step: 10  loss:  7.1  memory: 1.3GiB(2%)  tps: 3  "
        "mfu: 3%",
        (10, None, None, None),
    ),
    ("[rank5]: 2026-11-20 09:30:45,313 INFO node0 step=4 loss=0.8000 step_time=0.029s", (4, None, None, None)),
    (
        "[2024-01-01 12:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=100, skipped=0, lr=[0.1], mom=[0.9]",
        (100, None, None, None),
    ),
    ("2026-04-05 15:48:34,242 - train - INFO - step=1910 loss=2.31 lr=1e-4", (1910, None, None, None)),
    ("[2026-04-05 15:49:25] INFO train: epoch 2 step 1910/2000 loss 2.31", (1910, 2000, None, 2)),
    ("Step 40 | loss 3.1 | tokens/s 100", (40, None, None, None)),
    ("finish 861000, taken 18820.442 seconds", (861000, None, None, None)),
]


@pytest.mark.parametrize(("line", "expected"), PROGRESS, ids=[p[0][:25] for p in PROGRESS])
def test_every_shape_of_progress(line: str, expected: tuple[object, ...]) -> None:
    (e,) = [x for x in parsed(line + "\n").events if isinstance(x, Progress)]
    assert (e.step, e.total, e.rate, e.epoch) == expected


@pytest.mark.parametrize(
    "line",
    [
        "[Rank 0] Step 1: Loading raw data with basic cleaning...",
        "Step 1/10 : FROM nvidia/cuda:12.4",
        "Step 2",
        "steps=100, num_epochs=3",
        "total steps: 1000",
        "save every step 100",
        "Resuming from step 500",
        "warmup step 500",
        "batch 64",
        "rank 0 of 4",
        "rank 2 stopped at step 12",
    ],
)
def test_a_heading_a_setting_and_a_plan_are_no_step(line: str) -> None:
    assert not [e for e in parsed(line + "\n").events if isinstance(e, Progress) and e.is_step]


def test_the_rank_of_a_step_is_the_global_one() -> None:
    lines = "Rank 2, Epoch 1, Batch 20\nlocal rank 3, step 20, loss 0.3\n"
    assert [e.rank for e in parsed(lines).events if isinstance(e, Progress)] == [2, None]


def test_a_long_line_of_pairs_costs_no_more_than_its_length() -> None:
    """A match that tries all ways to split them would never end."""
    line = "rank 0 step 1" + " a=1.1e" * 30 + " !"
    assert not [e for e in parsed(line + "\n").events if isinstance(e, Progress)]


@pytest.mark.parametrize(
    "line",
    [
        "torch.optim.lr_scheduler: call optimizer.step() before lr_scheduler.step()",
        "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`",
        "batch size 32",
        "This is step by step",
        "[rank0]:[E ProcessGroupNCCL.cpp:9] [Rank 0] step=3 loss",
        "Step 3: install the package",
        "100% sure",
        "1/2 [3",
        "iteration over dataset failed",
    ],
)
def test_ordinary_text_is_no_progress(line: str) -> None:
    assert events(line + "\n", "progress") == []


def test_of_several_bars_on_a_line_the_last_counts() -> None:
    text = "a:  1%| | 1/100 [00:01<00:02, 1.00it/s]b:  2%| | 2/100 [00:02<00:02, 1.00it/s]\n"
    (e,) = [x for x in parsed(text).events if isinstance(x, Progress)]
    assert (e.step, e.label) == (2, "b")


def test_deepspeeds_rank_is_global() -> None:
    (e,) = events(
        "[2024-01-01 12:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 9] step=100, skipped=0, lr=[0.1]\n", "progress"
    )
    assert e.rank == 9


HEARTBEATS = [
    ("[rank 0] Heartbeat: epoch=1 iter=50 global_step=350", (0, 350, 1)),
    ("[rank: 4] heartbeat step 7", (4, 7, None)),
    ("[rank3]: heartbeat epoch 2 batch 9", (3, 9, 2)),
    ("heartbeat rank=7 step: 12/100", (7, 12, None)),
    ("2026-04-05 15:49:25,001 - hb - INFO - rank 11 still alive at iteration=5", (11, 5, None)),
    ("HEARTBEAT | rank 2 | step 44", (2, 44, None)),
]


@pytest.mark.parametrize(("line", "expected"), HEARTBEATS)
def test_heartbeats(line: str, expected: tuple[object, ...]) -> None:
    (e,) = [x for x in parsed(line + "\n").events if isinstance(x, Heartbeat)]
    assert (e.rank, e.step, e.epoch) == expected
    assert events(line + "\n", "progress") == []


@pytest.mark.parametrize(
    "line",
    [
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600",
        "[rank1]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 1] Heartbeat monitor timed out! step=3",
        "HeartbeatMonitor environments: TORCH_NCCL_ENABLE_MONITORING: 1",
        "failed to send a keep-alive heartbeat to the rendezvous step 3",
        "heartbeat interval 30 step 3",
    ],
)
def test_other_talk_of_heartbeats_is_none(line: str) -> None:
    assert events(line + "\n", "heartbeat") == []


PHASES = [
    ("Saving model checkpoint to ./out/checkpoint-500", "checkpoint", False),
    ("saving the full checkpoint at step 5", "checkpoint", False),
    ("Successfully saved checkpoint from iteration 500", "checkpoint", True),
    ("checkpoint saved in 31.2 s", "checkpoint", True),
    ("Generating sample images...", "sampling", False),
    ("***** Running Evaluation *****", "evaluation", False),
    ("[2024-12-11 10:27:36,118][root][INFO] - Validate epoch: 1, rank: 1", "evaluation", False),
    ("evaluation finished after 120 s", "evaluation", True),
    ("Running tokenizer on dataset: starts", "data", False),
    ("Compiling model with torch.compile", "compile", False),
    ("AUTOTUNE mm(64x64, 64x64)", "compile", False),
    ("Epoch 3 finished", "epoch-end", False),
    ("Training completed. Do not forget to share your model", "finished", False),
    ("training loop done after 8 steps, waiting at the final barrier", "finished", False),
    ("destroying process group", "finished", False),
    ("[rank 2] starting on node17 local_rank=2", "starting", False),
    ("process groups ready world_size=8 topology=3d", "ready", False),
]


@pytest.mark.parametrize(("line", "what", "done"), PHASES)
def test_phases(line: str, what: str, done: bool) -> None:
    (e,) = [x for x in parsed(line + "\n").events if isinstance(x, Phase)]
    assert (e.what, e.detail.startswith("done: ")) == (what, done)


@pytest.mark.parametrize(
    "line",
    [
        "/opt/torch/utils/checkpoint.py:86: UserWarning: None of the inputs have requires_grad=True",
        '  File "/opt/train.py", line 3, in save_checkpoint',
        "WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
        "    def save_checkpoint(self):",
        "[rank0]:[E ProcessGroupNCCL.cpp:9] [Rank 0] Saving checkpoint",
        "loading shard 5",
    ],
)
def test_what_only_mentions_a_phase_is_none(line: str) -> None:
    assert events(line + "\n", "phase") == []


COUNTS = {
    "Epoch 0:   6%|6 | 32/500 [06:28<94:39,  1.37it/s, loss=2.6, v_num=1]": "steps",
    "Training DataLoader 0:   6%|6 | 32/500 [06:28<94:39,  1.37it/s]": "steps",
    "train:  45%|####5     | 450/1000 [15:00<18:20,  2.00s/it]": "steps",
    "Steps:  45%|####5     | 450/1000 [15:00<18:20,  2.00s/it, lr=1e-5, step_loss=0.1]": "steps",
    "distill:  45%|####5     | 450/1000 [15:00<18:20,  2.00s/it, kl_loss=0.1]": "steps",
    "  2%|2         | 12/604 [01:02<49:27,  4.00s/it]": "",
    "12it [00:31,  2.60s/it]": "",
    "Loading checkpoint shards: 100%|##########| 38/38 [00:34<00:00,  1.66it/s]": "work",
    "Training set, tokenizing: 100%|##########| 38/38 [00:34<00:00,  1.66it/s]": "work",
    "Validation, loss=2.1:  10%|# | 1/10 [00:00<00:09,  1.00it/s]": "work",
    "Test:  [ 10/125]  eta: 0:15:17  loss: 5.2 (4.7)  time: 0.77": "work",
    "Epoch: [7]  [ 100/1251]  eta: 0:15:17  loss: 5.2 (4.7)  time: 0.77": "steps",
    "epoch 3: train loss 0.912  val acc 0.701": "steps",
}


@pytest.mark.parametrize(("line", "counts"), COUNTS.items(), ids=[line[:25] for line in COUNTS])
def test_what_a_bar_counts(line: str, counts: str) -> None:
    (e,) = [x for x in parsed(line + "\n").events if isinstance(x, Progress)]
    assert e.counts == counts


def test_what_stands_behind_a_bar_on_its_line_is_a_line_of_its_own() -> None:
    bar = " 48%|####8     | 19/40 [00:01<00:01, 19.16it/s]"
    for behind in ("11/22/2026 08:03:29 - INFO - run - epoch 0: loss 0.64", "{'loss': 0.64, 'epoch': 0.4}"):
        assert [(e.step, e.epoch) for e in parsed(bar + behind + "\n").events if isinstance(e, Progress)] == [
            (19, None),
            (None, 0),
        ]
