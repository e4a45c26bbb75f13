"""Lines of merged logs whose rank counts inside a group: which of them may be taken as ranks of the job."""

from __future__ import annotations

import pytest
from builders.jobs.cases import said
from builders.jobs.verdicts import read
from builders.logs.lines import old_watchdog

from nccldoctor.events import CollectiveTimeout, Events, GroupRef
from nccldoctor.identify.group_ranks import LocalLines, find_local_lines
from nccldoctor.model.ranks import Ranks

MERGED = {0}


def gave_up(group_rank: int, seq: int, **more: object) -> CollectiveTimeout:
    event = said(CollectiveTimeout, seq=seq, op="ALLREDUCE", group_rank=group_rank, **more)
    assert isinstance(event, CollectiveTimeout)
    return event


def test_a_number_far_from_that_of_all_others_is_of_a_part_of_the_job() -> None:
    found = find_local_lines(Events([*(gave_up(r, 16669) for r in (0, 2, 3)), gave_up(1, 33337)]), MERGED, range(4))
    assert found == LocalLines(frozenset({33337}), frozenset({1}))


@pytest.mark.parametrize(
    "lines",
    [
        [gave_up(0, 18), gave_up(2, 18), gave_up(3, 18), gave_up(1, 20)],  # one group out of step
        [gave_up(0, 18), gave_up(3, 18), gave_up(1, 900), gave_up(2, 900)],  # rank 2 of 900: three members at least
        [gave_up(0, 18), gave_up(1, 9000)],  # a job of two has no parts
        [*(gave_up(0, 900 + n) for n in range(4)), gave_up(3, 18)],  # either may be of the whole job
    ],
)
def test_ranks_of_one_group_or_of_the_whole_job_are_those_of_the_job(lines: list[CollectiveTimeout]) -> None:
    known = range(4) if len(lines) > 2 else range(2)
    assert find_local_lines(Events(lines), MERGED, known) == LocalLines()


def test_lines_that_tell_their_rank_group_or_file_are_no_question() -> None:
    named = gave_up(1, 33337, group=GroupRef(uid="4", desc="tp"))
    assert find_local_lines(Events([gave_up(3, 18), gave_up(1, 33337)]), set(), range(4)) == LocalLines()
    assert find_local_lines(Events([gave_up(3, 18), named]), MERGED, range(4)) == LocalLines()


def test_a_rank_inside_a_part_is_taken_for_no_rank_of_the_job() -> None:
    """Ranks 0, 2 and 3 wait in #16669. That ``[Rank 1]`` of another group is rank 1 is a guess: it may be rank 3, too."""
    lines = [old_watchdog(r, 16669, numel=1) for r in (0, 2, 3)] + [old_watchdog(1, 33337, numel=4096)]
    ruling = read({"job.log": "".join(lines)})
    states = {rank: state for state in ruling.document["ranks"] for rank in Ranks.parse(state["ranks"])}
    assert 1 not in states or states[1]["enqueued"] is None, str(ruling)
    assert ruling.sure <= 1, str(ruling)


def test_a_rank_inside_a_group_is_said_to_be_one_wherever_its_line_is_quoted() -> None:
    group = GroupRef(pg_id=2, uid="5", desc="tp")
    event = said(CollectiveTimeout, 6, seq=7, group=group, group_rank=2)
    assert event.group_rank_note == " (rank 2 of group tp = global rank 6)"
    assert said(CollectiveTimeout, None, seq=7, group=group, group_rank=2).group_rank_note.endswith("no global rank)")
    assert said(CollectiveTimeout, 2, seq=7, group=group, group_rank=2).group_rank_note == ""
    assert "global rank" not in event.phrase(), "its words name no rank"
