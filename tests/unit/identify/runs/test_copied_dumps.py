"""A dump that lies there twice counts once, and so does a process that wrote two."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.jobs.cases import RecordedRank, world

import nccldoctor
from nccldoctor.discover.discover import discover
from nccldoctor.identify.runs.separate_dumps import without_copied_dumps, without_other_moments
from nccldoctor.ingest.ingest import Ingested, ingest

STUCK = RecordedRank(0).calls(3).call(done=False)


def read(folder: Path, files: dict[str, RecordedRank]) -> Ingested:
    for name, recorded in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(recorded.data())
    return without_copied_dumps(ingest(discover([folder])))


def test_a_copy_in_another_folder_is_left_out_and_said(tmp_path: Path) -> None:
    ranks = {rank: RecordedRank(rank).calls(3 + rank) for rank in range(2)}
    found = read(tmp_path, {f"{top}/fr_{rank}": of for top in ("capture", "saved") for rank, of in ranks.items()})
    assert [dump.path for dump in found.batch.dumps] == ["capture/fr_0", "capture/fr_1"]
    assert len(found.batch.calls) == 7
    assert [(gap.what, gap.why) for gap in found.gaps] == [
        (f"saved/fr_{rank}: a copy", f"its calls are those of capture/fr_{rank}") for rank in range(2)
    ]


def test_a_later_dump_of_the_same_rank_is_no_copy(tmp_path: Path) -> None:
    first = RecordedRank(0).calls(3).call(done=False)
    found = read(tmp_path, {"first/fr_0": first, "later/fr_0": RecordedRank(0).calls(4)})
    assert len(found.batch.calls) == 8
    assert not found.gaps


def test_ranks_that_recorded_no_time_are_not_compared(tmp_path: Path) -> None:
    blank = RecordedRank(0).calls(2, time_created_ns=0)
    found = read(tmp_path, {"node0/fr_0": blank, "node1/fr_0": blank})
    assert len(found.batch.dumps) == 2


@pytest.mark.parametrize(
    ("early", "late", "kept"),
    [
        (STUCK, RecordedRank(0).calls(3).call(done=False).call(done=False), "at-stall/fr_0"),
        (STUCK, RecordedRank(0).calls(5), "fr_0"),
        (RecordedRank(0).calls(3), RecordedRank(0).calls(3).call(done=False), "fr_0"),
    ],
    ids=["it failed, and others came", "it went on", "it was late"],
)
def test_of_two_moments_that_of_the_call_that_never_ended_is_taken(
    early: RecordedRank, late: RecordedRank, kept: str, tmp_path: Path
) -> None:
    found = without_other_moments(read(tmp_path, {"at-stall/fr_0": early, "fr_0": late}))
    assert [dump.path for dump in found.batch.dumps] == [kept]
    left = {"at-stall/fr_0", "fr_0"} - {kept}
    assert [gap.what for gap in found.gaps] == [f"{path}: other moments" for path in left]


@pytest.mark.parametrize(("peer", "kept"), [(3, "at-stall/fr_0"), (4, "fr_0")], ids=["it never came", "it came late"])
def test_a_call_that_a_peer_never_made_failed_though_the_recorder_let_go_of_it(
    peer: int, kept: str, tmp_path: Path
) -> None:
    let_go = RecordedRank(0).calls(3).call(done=False, retired=True).call(done=False, retired=True)
    files = {"at-stall/fr_0": STUCK, "fr_0": let_go, "fr_1": RecordedRank(1).calls(peer)}
    found = without_other_moments(read(tmp_path, files))
    assert [dump.path for dump in found.batch.dumps if dump.path.endswith("_0")] == [kept]


def test_dumps_of_other_times_and_other_jobs_are_no_moments(tmp_path: Path) -> None:
    later = RecordedRank(0)
    later.second = 90.0
    for number, other in enumerate((later, RecordedRank(0, world(2)))):
        found = read(tmp_path / str(number), {"a/fr_0": STUCK, "b/fr_0": other.calls(5)})
        assert len(without_other_moments(found).batch.dumps) == 2


def test_the_stall_is_told_from_the_dump_of_the_stall(tmp_path: Path) -> None:
    """Ranks 0, 1 and 3 wait for rank 2 in #4. It dies, their call fails, and they meet in a barrier on the way out."""

    def gloo(rank: int) -> RecordedRank:
        return RecordedRank(rank, backend="gloo")

    files = {"capture/stall/fr_trace_2": gloo(2).calls(3, retired=True)}
    for rank in (0, 1, 3):
        files[f"capture/stall/fr_trace_{rank}"] = gloo(rank).calls(3, retired=True).call(done=False)
        failed = gloo(rank).calls(3, retired=True).call(done=False, retired=True)
        failed.second += 28
        files[f"capture/later/fr_trace_{rank}"] = failed.call("barrier", done=False)
    read(tmp_path, files)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert verdict.ranks == {2}
    assert verdict.stalled is not None
    assert (verdict.stalled.op, verdict.stalled.seq) == ("ALLREDUCE", 4)
