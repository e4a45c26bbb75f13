"""Popular advice, through the public call: each piece is answered where the input holds it, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.remedies.remedy_jobs import Job

from nccldoctor.pipeline import analyze
from nccldoctor.prescribe.catalogue.load import load_catalogue

NOTE, SCRIPT, CODE = "notes.md", "launch.sh", "train.py"
CASES: dict[str, tuple[str, str, str]] = {
    # the file, a line that holds the advice, a line near it that does not
    "add-a-barrier": (
        NOTE,
        "- Added explicit synchronization barriers at key points",
        "- The barrier of the bridge was closed",
    ),
    "async-error-handling": (SCRIPT, "export NCCL_ASYNC_ERROR_HANDLING=1", "export TORCH_NCCL_ASYNC_ERROR_HANDLING=3"),
    "blocking-wait": (SCRIPT, "export TORCH_NCCL_BLOCKING_WAIT=1", "export TORCH_NCCL_BLOCKING_WAIT=0"),
    "change-nccl-version": (NOTE, "3. Downgrade NCCL to 2.18 and see", "3. The grade of the road is 2.18"),
    "copy-against-hangs": (
        NOTE,
        "Changed `.expand()` to `.repeat()` in the encoder:",
        "The team will expand next year",
    ),
    "ddp-defaults-restated": (CODE, "model = DDP(model, bucket_cap_mb=25)", "model = DDP(model, bucket_cap_mb=200)"),
    "debug-everything": (SCRIPT, "export NCCL_DEBUG_SUBSYS=ALL", "export NCCL_DEBUG_SUBSYS=INIT,NET"),
    "default-restated": (SCRIPT, "export NCCL_SHM_DISABLE=0", "export NCCL_SHM_USE_CUDA_MEMCPY=0"),
    "default-timeout-patched": (
        CODE,
        "torch.distributed.distributed_c10d._DEFAULT_PG_TIMEOUT = timedelta(minutes=30)",
        "print(torch.distributed.constants.default_pg_timeout)",
    ),
    "find-unused-as-cure": (
        CODE,
        "model = DDP(model, find_unused_parameters=True)",
        "model = DDP(model, find_unused_parameters=False)",
    ),
    "gid-index-copied": (SCRIPT, "export NCCL_IB_GID_INDEX=3", "export NCCL_IB_HCA=mlx5"),
    "ib-timeout": (SCRIPT, "export NCCL_IB_TIMEOUT=23", "export NCCL_IB_TIMEOUT=20"),
    "launch-blocking-for-hangs": (SCRIPT, "export CUDA_LAUNCH_BLOCKING=1", "export CUDA_LAUNCH_BLOCKING=0"),
    "long-timeout": (
        CODE,
        'dist.init_process_group("nccl", timeout=timedelta(seconds=7200))',
        'dist.init_process_group("nccl", timeout=timedelta(seconds=300))',
    ),
    "monitoring-off": (SCRIPT, "export TORCH_NCCL_ENABLE_MONITORING=0", "export TORCH_NCCL_ENABLE_MONITORING=1"),
    "nccl-hint-lines": (
        "nccl.log",
        "node0:4000:4900 [0] transport/net.cc:12 NCCL WARN HINT: the remote peer may have crashed",
        "node0:4000:4900 [0] transport/net.cc:12 NCCL INFO Connected all rings",
    ),
    "nccl-timeout-variable": (SCRIPT, "export NCCL_TIMEOUT=1200000", "export NCCL_RAS_TIMEOUT_FACTOR=2"),
    "smaller-batch-or-fewer-workers": (
        NOTE,
        "- Reduce batch size and the number of workers",
        "- The workers had a good year",
    ),
    "socket-ifname-copied": (SCRIPT, "export NCCL_SOCKET_IFNAME=^docker0,lo", "export NCCL_SOCKET_FAMILY=AF_INET"),
    "socket-ifname-one-host": (SCRIPT, "export NCCL_SOCKET_IFNAME=eth0", "export NCCL_SOCKET_NTHREADS=4"),
    "transport-switches": (SCRIPT, "export NCCL_P2P_DISABLE=1", "export NCCL_P2P_LEVEL=NVL"),
    "try-around-collectives": (
        NOTE,
        "- Added try-except blocks around all collectives",
        "- We will try everything except that",
    ),
}
DISCOURAGED = {entry.remedy.id: entry.remedy for entry in load_catalogue().entries if entry.is_discouraged}


def job(name: str) -> Job:
    """Most entries need no more than a job that hung; one piece is about jobs that did not come up."""
    if name == "socket-ifname-one-host":
        return (
            Job(steps=0)
            .nccl(
                5,
                "misc/socket.cc:477 NCCL WARN socketStartConnect: Connect to 10.0.0.4<4401> failed : No route to host",
            )
            .stuck(seq=1)
        )
    return Job().late(5)


def said(name: str, line: str, folder: Path) -> list[tuple[str, str]]:
    file = CASES[name][0]
    diagnosis = analyze(job(name).raw(file, line).write(folder / "logs")).diagnosis
    return [(avoid.why, avoid.where or "") for avoid in diagnosis.avoid]


def test_every_piece_has_a_case() -> None:
    assert sorted(CASES) == sorted(DISCOURAGED)
    assert len({text for _, *texts in CASES.values() for text in texts}) == 2 * len(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_discouraged_advice_is_answered_with_its_place(name: str, tmp_path: Path) -> None:
    found = said(name, CASES[name][1], tmp_path)
    reasons = {warn.why for warn in DISCOURAGED[name].avoid}
    assert any(why in reasons and where.startswith(CASES[name][0]) for why, where in found), found


@pytest.mark.parametrize("name", sorted(CASES))
def test_discouraged_advice_is_silent_otherwise(name: str, tmp_path: Path) -> None:
    found = said(name, CASES[name][2], tmp_path)
    assert not {warn.why for warn in DISCOURAGED[name].avoid} & {why for why, _ in found}


HARMLESS = {
    "letter.txt": "Dear all,\nthe meeting about the checkpoint at the border is at 10.\nBring all your data.\n",
    "README.md": "# A trainer\n\nSaves a checkpoint each epoch. Uses NCCL. Runs validation after training.\n",
    "train.py": "import torch\n\ndef save_checkpoint(path):\n    torch.save({}, path)\n\ndef evaluate():\n    pass\n",
    "numbers.csv": "step,loss\n1,2.0\n2,1.9\n",
    "empty.log": "\n\n\n",
    "access.log": '10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET /timeout HTTP/1.1" 200 12\n',
}


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_text_gets_no_remedy(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(HARMLESS[name])
    diagnosis = analyze(tmp_path / name).diagnosis
    assert diagnosis.remedies == (), [advice.id for advice in diagnosis.remedies]
    assert diagnosis.avoid == ()
    assert diagnosis.action.restart == "unknown"
