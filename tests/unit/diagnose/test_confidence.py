"""Which ranks it is may be sure where the class is not: every other rank of the job is proven to wait."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path

from builders.jobs.cases import RecordedRank, Team, facts, world
from builders.logs.lines import watchdog

import nccldoctor
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.signs.absence import are_only_ones_left
from nccldoctor.model import CauseClass, Confidence, Finding
from nccldoctor.model.ranks import Ranks

STACK = "Traceback (most recent call last):\n  File \"/srv/train.py\", line 61, in main\n    step()\nKeyError: 'x'\n"


def waiting(*ranks: int) -> list[RecordedRank]:
    return [RecordedRank(rank).calls(4).call(done=False) for rank in ranks]


def unsigned_failure(tmp_path: Path, complaining: Iterable[int]) -> Finding:
    lines = "".join(watchdog(r, at=f"E202 03:20:0{r % 8}.050510987") for r in complaining)
    (tmp_path / "job.log").write_text("export WORLD_SIZE=8\n" + STACK + lines)
    return nccldoctor.analyze(tmp_path).verdict


def test_the_only_rank_that_does_not_wait_is_the_one() -> None:
    aligned = facts(*waiting(0, 1, 2))
    assert are_only_ones_left(aligned, Ranks([3]))
    assert not are_only_ones_left(aligned, Ranks()), "nobody is nobody"
    assert not are_only_ones_left(facts(*waiting(0, 1)), Ranks([3])), "rank 2 may be it as well"


def test_a_failure_that_only_one_rank_can_have_had(tmp_path: Path) -> None:
    found = unsigned_failure(tmp_path, [r for r in range(8) if r != 5])
    assert (found.cause, str(found.ranks)) == (CauseClass.RAISED, "5")
    assert (found.confidence_in.ranks, found.confidence_in.cause) == (Confidence.HIGH, Confidence.MEDIUM)


def test_a_failure_that_two_ranks_can_have_had(tmp_path: Path) -> None:
    found = unsigned_failure(tmp_path, [r for r in range(8) if r not in (4, 5)])
    assert found.confidence_in.ranks is not Confidence.HIGH


def test_that_nobody_gave_up_leaves_open_whether_it_hangs_not_who_is_missing() -> None:
    found = diagnose(facts(*waiting(0, 1, 2, 3))).findings[0]
    assert (found.cause, found.ranks) == (CauseClass.UNFINISHED, Ranks())
    assert (found.confidence_in.ranks, found.confidence_in.cause) == (Confidence.HIGH, Confidence.MEDIUM)


def test_an_exception_of_no_rank_leaves_open_why_a_rank_did_not_arrive(tmp_path: Path) -> None:
    """Logs were joined to one file: the traceback stands below the complaints and names no rank."""
    for rank in range(4):
        content = RecordedRank(rank).calls(4)
        content = content if rank == 3 else content.call(done=False)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content.content(), protocol=2))
    lines = "".join(watchdog(r, at=f"E202 03:20:0{r}.050510987") for r in range(3))
    (tmp_path / "all.log").write_text(lines)
    before = nccldoctor.analyze(tmp_path).verdict
    (tmp_path / "all.log").write_text(lines + STACK)
    found = nccldoctor.analyze(tmp_path).verdict
    assert (str(before.ranks), before.cause) == (str(found.ranks), found.cause) == ("3", CauseClass.NOT_ARRIVED)
    assert found.confidence_in.cause is Confidence.MEDIUM
    assert any("names no rank" in doubt.says for doubt in found.doubts)
    assert not any("names no rank" in doubt.says for doubt in before.doubts)


def in_pairs(*ranks: int) -> Finding:
    """Ranks 0 and 2 wait for their partner in call 4 of their own pair; these ranks left a dump."""
    pairs = (Team("1", "dp", (0, 1)), Team("2", "dp", (2, 3)))
    dumps = [RecordedRank(rank, world(4), *pairs).calls(3, team=pairs[rank // 2]) for rank in ranks]
    for dump in dumps:
        if dump.rank in (0, 2):
            dump.call(team=pairs[dump.rank // 2], done=False)
    return diagnose(facts(*dumps)).findings[0]


def test_a_stall_that_stays_open_leaves_the_ranks_open() -> None:
    """With the dump of rank 3 both are named; without it rank 1 alone is, and rank 3 may be a second culprit."""
    both, first = in_pairs(0, 1, 2, 3), in_pairs(0, 1, 2)
    assert (str(both.ranks), both.confidence_in.ranks) == ("1,3", Confidence.HIGH)
    assert (str(first.ranks), first.confidence_in.ranks) == ("1", Confidence.MEDIUM)
    assert any("rank 3" in doubt.says for doubt in first.doubts)


def test_a_wait_for_nobody_knows_whom_leaves_the_ranks_open() -> None:
    """Ranks 0 and 2 wait for their partners. The dump of rank 2 lists no pair, and rank 3 left nothing."""
    pairs = (Team("1", "dp", (0, 1)), Team("2", "dp", (2, 3)))
    dumps = [RecordedRank(rank, world(4), *pairs).calls(3, team=pairs[rank // 2]) for rank in range(3)]
    for dump in (dumps[0], dumps[2]):
        dump.call(team=pairs[dump.rank // 2], done=False)
    dumps[2].other(pg_config={"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}})
    found = diagnose(facts(*dumps)).findings[0]
    assert (str(found.ranks), found.confidence_in.ranks) == ("1", Confidence.MEDIUM)
    assert any("whom rank 2 waits for" in doubt.says for doubt in found.doubts)
