"""A damaged or odd file accuses nobody, and no high confidence rests on one."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from builders.jobs.cases import RecordedRank, ingested, world
from msgspec.structs import replace

import nccldoctor
from nccldoctor.align.facts import align
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.missing_input import doubted_by_damage
from nccldoctor.identify.identify import identify
from nccldoctor.model import Confidence, Gap
from nccldoctor.model.ranks import Ranks


def dumps(folder: Path, ranks: int, change: dict[int, str]) -> Path:
    """Dumps of a job whose ranks are all in call 9; ``change`` gives some ranks another state of their entries 6 and on."""
    for rank in range(ranks):
        content = RecordedRank(rank, world(ranks)).calls(8).call(done=False).content()
        for entry in content["entries"][6:] if rank in change else ():
            entry["state"] = change[rank]
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, protocol=2))
    return folder


@pytest.mark.parametrize("ranks", [4, 8])
def test_a_state_of_unknown_name_accuses_nobody(tmp_path: Path, ranks: int) -> None:
    found = nccldoctor.analyze(dumps(tmp_path, ranks, {2: "exploded"}))
    assert not found.verdict.ranks
    assert found.verdict.confidence is not Confidence.HIGH


def test_the_same_dumps_with_known_states_show_who_is_behind(tmp_path: Path) -> None:
    """The near miss: in a state that PyTorch writes, the same entries stand still on rank 2."""
    content = RecordedRank(2, world(4)).calls(8).content()
    dumps(tmp_path, 4, {})
    (tmp_path / "nccl_trace_rank_2").write_bytes(pickle.dumps(content, protocol=2))
    assert str(nccldoctor.analyze(tmp_path).verdict.ranks) == "2"


def test_a_high_confidence_does_not_rest_on_a_cut_dump(tmp_path: Path) -> None:
    """Ranks 0-3 are in call 9, the dump of rank 3 holds another size and is cut behind it."""
    dumps(tmp_path, 4, {})
    content = RecordedRank(3, world(4)).calls(8).call(done=False, n=7).content()
    whole = tmp_path / "nccl_trace_rank_3"
    whole.write_bytes(pickle.dumps(content, protocol=2))
    sure = nccldoctor.analyze(tmp_path).verdict
    whole.write_bytes(whole.read_bytes()[:-3])
    cut = nccldoctor.analyze(tmp_path).verdict
    assert (str(sure.ranks), sure.cause.value) == ("3", "size-mismatch")
    assert cut.confidence_in.ranks is not Confidence.HIGH
    assert any("nccl_trace_rank_3" in doubt.says for doubt in cut.doubts)


def in_one_file_each(folder: Path, contents: dict[int, object]) -> Path:
    for rank, content in contents.items():
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, protocol=2))
    return folder


def recorded(rank: int) -> dict[str, Any]:
    return RecordedRank(rank, world(4)).calls(8).call(done=False).content()


@pytest.mark.parametrize("number", [True, -5, 3])
def test_numbers_that_go_back_make_a_dump_odd(tmp_path: Path, number: object) -> None:
    """In one dump the seventh call has a number that no recorder writes there."""
    contents = {rank: recorded(rank) for rank in range(4)}
    contents[2]["entries"][6]["collective_seq_id"] = number
    found = nccldoctor.analyze(in_one_file_each(tmp_path, contents))
    assert not found.verdict.ranks
    assert [gap.what for gap in found.case.gaps if gap.odd] == ["nccl_trace_rank_2"]


def test_a_group_that_was_made_anew_counts_from_one(tmp_path: Path) -> None:
    """The near miss: after a shrink the group of the same name begins at 1, which is in order."""
    contents = {rank: recorded(rank) for rank in range(4)}
    for content in contents.values():
        for number, entry in enumerate(content["entries"][4:], start=1):
            entry["collective_seq_id"] = number
        content["pg_status"]["0"] |= {"last_enqueued_collective": 5, "last_completed_collective": 4}
    found = nccldoctor.analyze(in_one_file_each(tmp_path, contents))
    assert not [gap for gap in found.case.gaps if gap.odd]


def test_lists_of_entries_without_a_group_break_nothing(tmp_path: Path) -> None:
    contents = {rank: recorded(rank)["entries"] for rank in range(4)}
    for entries in contents.values():
        for entry in entries:
            del entry["pg_id"]
    found = nccldoctor.analyze(in_one_file_each(tmp_path, contents))
    assert not found.verdict.ranks
    assert not [gap for gap in found.case.gaps if "broke" in gap.why]


def test_a_dump_with_a_hole_names_a_rank_with_low_confidence_at_most(tmp_path: Path) -> None:
    """The call that rank 2 is said to have skipped is one of those that its dump lost."""
    contents = {rank: recorded(rank) for rank in range(4)}
    del contents[2]["entries"][5]
    for content in contents.values():
        content.pop("pg_status")
    found = nccldoctor.analyze(in_one_file_each(tmp_path, contents)).verdict
    assert not found.ranks or found.confidence is Confidence.LOW


def test_whole_files_that_point_elsewhere_leave_low_confidence() -> None:
    """With its odd dump the job accuses rank 1; the other dumps alone accuse rank 3."""
    read = ingested(*(RecordedRank(rank).calls(8).call(done=False) for rank in range(3)), RecordedRank(3).calls(8))
    made = identify(read)
    said = diagnose(align(made)).findings[0]
    first = replace(said, ranks=Ranks([1]))
    odd = replace(made, gaps=(Gap("dumps/nccl_trace_rank_0", "odd", source=0, odd=True),))
    assert (str(said.ranks), said.confidence_in.ranks) == ("3", Confidence.HIGH)
    assert doubted_by_damage(first, odd, read, lambda _: said).confidence_in.ranks is Confidence.LOW
    assert doubted_by_damage(first, odd, read, lambda _: None).confidence_in.ranks is Confidence.MEDIUM
    assert doubted_by_damage(first, odd, read, lambda _: first) == first
