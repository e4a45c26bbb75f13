"""A dump that lies there twice counts once; two dumps of one rank that differ are both kept."""

from __future__ import annotations

from pathlib import Path

from builders.jobs.cases import RecordedRank

from nccldoctor.discover.discover import discover
from nccldoctor.identify.runs.separate_dumps import without_copied_dumps
from nccldoctor.ingest.ingest import Ingested, ingest


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
