"""The line that one rank printed and no other: it is told where it explains, and nothing is told where nothing does.

``python tests/unit/questions/test_lone_lines.py`` prints the figures over 60 jobs of each kind, half of them with 10,000 lines of noise.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the folder tests/, also when run as a script

from builders.logs.lone_line_jobs import write_job

import nccldoctor as nd
from nccldoctor.model import Finding

TELLING, QUIET = range(16), range(1_000, 1_016)


def verdict(folder: Path, seed: int, *, tells: bool, noise: int) -> tuple[Finding, bool]:
    """The verdict about a job, and whether the telling line of the missing rank stands first among what only it printed."""
    job = write_job(folder, seed, tells=tells, noise=noise)
    found = nd.analyze(folder).verdict
    return found, any(job.telling in one.quote and one.rank == job.culprit for one in found.only_here[:1])


def test_the_telling_line_is_evidence(tmp_path: Path) -> None:
    told = 0
    for seed in TELLING:
        (tmp_path / str(seed)).mkdir()
        found, is_told = verdict(tmp_path / str(seed), seed, tells=True, noise=120)
        told += is_told
        for one in found.only_here if is_told else ():
            assert one.where in {item.where for item in found.evidence}
            assert f"Only rank {one.rank} printed" in found.headline or len(found.headline) + len(one.quote) > 60
    assert told >= 0.85 * len(TELLING)


def test_nothing_is_told_where_all_print_the_like(tmp_path: Path) -> None:
    for seed in QUIET:
        (tmp_path / str(seed)).mkdir()
        assert verdict(tmp_path / str(seed), seed, tells=False, noise=120)[0].only_here == ()


STEP = "[rank{rank}]: 2026-05-04 08:{minute:02d}:00,000 - fit - INFO - step {minute} loss {loss}"
ALARM = (
    "[rank{rank}]:[E504 08:45:00.100000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=31, OpType=ALLREDUCE, NumelIn=640, NumelOut=640, Timeout(ms)=1200000) ran for 1200017 milliseconds before timing out."
)


def job(folder: Path, culprit: int, **more: list[str]) -> Finding:
    """Four ranks train for 25 steps, then all but one time out; ``more`` are lines of ``rank0`` to ``rank3`` behind their steps."""
    for rank in range(4):
        lines = [STEP.format(rank=rank, minute=minute, loss=f"1.{minute}{rank}") for minute in range(25)]
        lines += [
            f"[rank{rank}]: 2026-05-04 08:25:00,000 - fit - INFO - {text}" for text in more.get(f"rank{rank}", [])
        ]
        lines += [ALARM.format(rank=rank)] if rank != culprit else []
        (folder / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    return nd.analyze(folder).verdict


@pytest.mark.parametrize(
    ("usual", "odd", "token"),
    [
        ("grad norm 0.52 in layer 3", "grad norm inf in layer 3", "inf"),
        ("crop of item: (3, 224, 224)", "crop of item: (1, 224, 224)", "(1, 224, 224)"),
        ("opened /lake/b/0007.idx", "opened /lake/b/0099.idx", "/lake/b/0099.idx"),
    ],
)
def test_a_value_that_no_peer_has_is_named(tmp_path: Path, usual: str, odd: str, token: str) -> None:
    before = ["grad norm 0.51 in layer 2", "crop of item: (3, 224, 224)", "opened /lake/b/0006.idx"]
    lines = {f"rank{rank}": [*before, odd if rank == 2 else usual] for rank in range(4)}
    found = job(tmp_path, 2, **lines)
    assert found.ranks == {2}
    assert [(one.rank, one.token, [peer.quote for peer in one.peers]) for one in found.only_here] == [
        (2, token, [usual])
    ]
    assert found.headline.endswith(f"Only rank 2 printed {found.only_here[0].word}.")
    assert token.split()[0] in found.only_here[0].word


def test_the_habit_of_rank_0_is_no_sign_but_its_phase_before_the_wait_is(tmp_path: Path) -> None:
    habit = [
        "board: 12 scalars saved",
        "step 25 loss 1.1",
        "board: 14 scalars saved",
        "step 26 loss 1.1",
        "board: 9 scalars saved",
    ]
    (tmp_path / "habit").mkdir()
    (tmp_path / "phase").mkdir()
    assert job(tmp_path / "habit", 0, rank0=habit).only_here == ()
    found = job(tmp_path / "phase", 0, rank0=[*habit, "Saving the checkpoint of step 26"])
    assert "Saving the checkpoint of step 26" in found.only_here[0].quote


@pytest.mark.parametrize(
    "other",
    [
        "shard 8 is broken, skipping what is left of it",
        "WARNING:shards:shard 7 is broken, skipping what is left of it",
        "shard 9 is broken, skipping",
    ],
)
def test_what_another_rank_printed_too_is_not_of_one_alone(tmp_path: Path, other: str) -> None:
    """Also where its numbers differ, it has a prefix more, or it is cut."""
    told = job(tmp_path, 1, rank1=["shard 3 is broken, skipping what is left of it"], rank3=[other])
    assert (told.ranks, told.only_here) == ({1}, ())


def test_a_warning_about_an_interface_is_no_sign_of_the_work(tmp_path: Path) -> None:
    """Nor is a path in it: *checkpoint.py* saves no checkpoint."""
    for name, text in (
        ("path", "/opt/torch/utils/checkpoint.py:87: UserWarning: use_reentrant should be passed"),
        ("deprecation", "/opt/app/loop.py:3: FutureWarning: skipping of batches will change"),
    ):
        (tmp_path / name).mkdir()
        assert job(tmp_path / name, 1, rank1=[text]).only_here == ()


def test_a_lone_line_blames_nobody(tmp_path: Path) -> None:
    with_line, without = tmp_path / "with", tmp_path / "without"
    with_line.mkdir()
    without.mkdir()
    told = job(with_line, 1, rank3=["shard is empty, skipping the rest"])
    same = job(without, 1)
    assert (told.ranks, told.confidence_in, told.only_here) == (same.ranks, same.confidence_in, ())


def main() -> None:
    """Print the figures."""
    for tells, first in ((True, 0), (False, 1_000)):
        told = 0
        for seed in range(first, first + 60):
            with TemporaryDirectory() as folder:
                found, is_told = verdict(Path(folder), seed, tells=tells, noise=10_000 if seed % 2 else 200)
                told += is_told if tells else not found.only_here
        print(f"{told} of 60 {'tell the line' if tells else 'tell nothing'}")


if __name__ == "__main__":
    main()
