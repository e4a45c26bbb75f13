"""Dumps show by their numbers that calls are missing between others, and a call without a number shows nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from builders.jobs.cases import RecordedRank, case, world

from nccldoctor.model import Gap
from nccldoctor.model.recorded_calls import SCHEDULED

Entries = list[dict[str, Any]]


def holed(change: Callable[[Entries], Entries], done: bool = True, form: str = "dict") -> list[Gap]:
    """The gaps with holes of one dump of nine calls, after a change of its entries."""
    content = RecordedRank(0, world(2)).calls(8, done=done).call(done=False).content()
    content["entries"] = change(content["entries"])
    data = pickle.dumps(content["entries"] if form == "list" else content, protocol=2)
    return [gap for gap in case((0, data), RecordedRank(1, world(2)).calls(9)).gaps if gap.holes]


def without_fourth(entries: Entries) -> Entries:
    return entries[:3] + entries[4:]


def without_record_ids(entries: Entries) -> Entries:
    return [{name: value for name, value in entry.items() if name != "record_id"} for entry in entries]


def test_a_call_that_is_missing_between_others_is_a_hole() -> None:
    (gap,) = holed(without_fourth)
    assert (gap.source, str(gap.ranks), gap.lost, gap.odd) == (0, "0", True, True)


@pytest.mark.parametrize(
    "keep", [slice(None), slice(4, None), slice(0, 4)], ids=["whole", "older dropped", "newer lost"]
)
def test_calls_without_a_break_are_no_hole(keep: slice) -> None:
    assert holed(lambda entries: entries[keep]) == []


def test_without_record_numbers_those_of_the_group_show_it() -> None:
    assert holed(lambda entries: without_record_ids(without_fourth(entries)))
    assert not holed(without_record_ids)


def test_a_dump_of_unfinished_calls_leaves_out_those_that_ended() -> None:
    """Calls 2 to 4 are of another group and ended; what stands is in order in its own group."""

    def unfinished(entries: Entries) -> Entries:
        for number, entry in enumerate(kept := [entries[0], *entries[4:]], start=1):
            entry["collective_seq_id"] = number
        return kept

    assert not holed(unfinished, done=False)
    assert holed(unfinished), "with calls that ended it is no dump of unfinished calls alone"


def test_a_number_that_a_batch_of_sends_took_is_no_hole() -> None:
    """Some releases give a batch the number of a collective: its sends have it."""
    recorded = RecordedRank(0, world(2)).calls(2)
    recorded.seq["0"] += 1
    recorded.send(1).call()
    for entry in recorded.entries:
        del entry["record_id"]
    assert not [gap for gap in case(recorded, RecordedRank(1, world(2)).calls(4)).gaps if gap.holes]


def test_calls_without_a_number_are_odd_and_of_no_group() -> None:
    content = RecordedRank(0, world(2)).calls(3).content()
    for entry in content["entries"]:
        del entry["collective_seq_id"]
    found = case((0, pickle.dumps(content, protocol=2)), RecordedRank(1, world(2)).calls(3))
    assert [(gap.what, gap.odd) for gap in found.gaps if "number" in gap.why] == [("dumps/nccl_trace_rank_0", True)]
    assert set(found.call_group[found.call_rank == 0].tolist()) == {-1}
    assert SCHEDULED not in found.calls.state[found.call_rank == 1]


def test_counters_that_go_further_than_the_calls_show_that_the_newest_are_lost() -> None:
    def ends_early(kept: int, backend: str = "nccl") -> bool:
        content = RecordedRank(0, world(2), backend=backend).calls(9).content()
        content["entries"] = content["entries"][:kept]
        found = case((0, pickle.dumps(content, protocol=2)), RecordedRank(1, world(2), backend=backend).calls(9))
        return any("newest calls are missing" in gap.why and gap.lost for gap in found.gaps)

    assert ends_early(6)
    assert not ends_early(8), "a job that runs counts one more while it writes"
    assert not ends_early(6, "gloo"), "gloo counts sends and receives that its recorder leaves out"


def test_a_rank_without_calls_that_its_peers_completed_with_it_left_an_old_dump() -> None:
    """Rank 0 ends at call 4, and rank 1 completed call 9 of the same group, which needs both."""

    def behind(op: str) -> bool:
        found = case(RecordedRank(0, world(2)).calls(4, op).other(pg_status={}), RecordedRank(1, world(2)).calls(9, op))
        return any("its peers completed" in gap.why and gap.odd for gap in found.gaps)

    assert behind("all_reduce")
    assert not behind("broadcast"), "its root does not wait for the others"


def test_one_missing_call_is_enough_where_a_peer_went_on_after_it() -> None:
    """Rank 0 ends at call 8. Rank 1 completed call 9, and made call 10: no abort ended call 9."""

    def behind(peer: RecordedRank) -> bool:
        found = case(RecordedRank(0, world(2)).calls(8).other(pg_status={}), peer)
        return any("its peers completed" in gap.why and gap.odd for gap in found.gaps)

    assert behind(RecordedRank(1, world(2)).calls(9).call(done=False))
    assert not behind(RecordedRank(1, world(2)).calls(9)), "an abort may have ended it"
    assert not behind(RecordedRank(1, world(2)).calls(8).call(done=False)), "it waits for rank 0"


def test_times_in_another_unit_make_a_dump_odd_and_its_job_less_surely_well() -> None:
    """Milliseconds in the place of nanoseconds are of January 1970."""
    content = RecordedRank(0, world(2)).calls(9).content()
    for one in content["entries"]:
        one["time_created_ns"] //= 10**6
    found = case((0, pickle.dumps(content, protocol=2)), RecordedRank(1, world(2)).calls(9))
    assert [gap.source for gap in found.gaps if gap.odd and "unit" in gap.why] == [0]
