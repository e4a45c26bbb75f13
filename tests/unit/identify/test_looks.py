"""Stacks are put into looks: by the folder of their file, else by how often a process was seen."""

from __future__ import annotations

from datetime import datetime, time

from nccldoctor.events import Event, Events, Heartbeat, Stack
from nccldoctor.identify.looks import with_looks
from nccldoctor.model import Place, Source, SourceKind


def taken(rank: int, source: int, line: int = 1) -> Stack:
    return Stack(
        place=Place(source, f"file{source}.txt", line), text="", rank=rank, frames=("main (job.py:1)",), main=True
    )


def numbered(stacks: list[Stack], *looks: tuple[str, time | None], others: tuple[Event, ...] = ()) -> list[Stack]:
    """The stacks with the number of their look; ``looks`` are name and time of each source."""
    sources = {
        i: Source(i, f"file{i}.txt", SourceKind.LOG, 10, look=name, taken=at) for i, (name, at) in enumerate(looks)
    }
    return [event for event in with_looks(Events([*stacks, *others]), sources) if isinstance(event, Stack)]


def test_folders_tell_looks_apart_in_the_order_of_their_numbers() -> None:
    found = numbered(
        [taken(0, 0), taken(0, 1), taken(0, 2)], ("stacks-10", None), ("stacks-9", None), ("stacks-2", None)
    )
    assert [stack.look for stack in found] == [3, 2, 1]


def test_the_second_stack_of_a_process_in_one_file_is_of_the_second_look() -> None:
    found = numbered([taken(0, 0, 1), taken(1, 0, 9), taken(0, 0, 20), taken(1, 0, 30)], ("", None))
    assert [stack.look for stack in found] == [1, 1, 2, 2]


def test_files_of_one_look_may_differ_by_seconds() -> None:
    near = (("08-44-28", time(8, 44, 28)), ("08-44-29", time(8, 44, 29)))
    assert [stack.look for stack in numbered([taken(0, 0), taken(1, 1)], *near)] == [1, 1]
    assert [stack.look for stack in numbered([taken(0, 0), taken(0, 1)], *near)] == [1, 2]


def test_a_time_without_a_date_is_that_nearest_to_the_newest_line() -> None:
    last = Heartbeat(place=Place(1, "train.log", 1), text="step 4", time=datetime(2026, 3, 4, 23, 59), step=4)
    found = numbered([taken(0, 0)], ("00-05-00", time(0, 5)), ("", None), others=(last,))
    assert found[0].time == datetime(2026, 3, 5, 0, 5)


def test_without_a_dated_line_the_time_of_a_look_stays_unknown() -> None:
    assert numbered([taken(0, 0)], ("00-05-00", time(0, 5)))[0].time is None


def test_threads_beside_the_main_one_are_of_its_look() -> None:
    other = Stack(place=Place(0, "file0.txt", 12), text="", rank=0, thread="loader", frames=("run (job.py:1)",))
    found = numbered([taken(0, 0), other], ("stacks-1", None))
    assert [stack.look for stack in found] == [1, 1]


def at_path(path: str, source: int, rank: int = 0) -> Stack:
    return Stack(place=Place(source, path, 1), text="", rank=rank, frames=("main (job.py:1)",), main=True)


def looks_of(*files: tuple[str, str, datetime]) -> list[int]:
    """The looks of one process in files of a name, with the name and the time of their look."""
    sources = {i: Source(i, path, SourceKind.LOG, 10, look=name, taken=at) for i, (path, name, at) in enumerate(files)}
    stacks = [at_path(path, i) for i, (path, _, _) in enumerate(files)]
    return [e.look for e in with_looks(Events(stacks), sources) if isinstance(e, Stack)]


def test_a_snapshot_in_a_bundle_and_beside_it_is_one_look() -> None:
    name, at = "capture/stacks/080509/rank_0.txt", datetime(2026, 3, 4, 8, 5, 9)
    later = ("nodes/n1/rank-0/stack-1.txt", "1", datetime(2026, 3, 4, 8, 5, 49))
    assert looks_of((f"bundle.tar.zst/{name}", "080509", at), later, (f"run/{name}", "080509", at)) == [1, 2, 1]


def test_equal_stacks_of_two_snapshots_are_two_looks() -> None:
    at = datetime(2026, 3, 4, 8, 5, 9)
    assert looks_of(("stacks-1/rank_0.txt", "1", at), ("stacks-2/rank_0.txt", "2", at)) == [1, 2]


def test_looks_are_counted_in_the_order_of_their_times_whatever_their_files_are_called() -> None:
    first, second = datetime(2026, 3, 4, 8, 5, 9), datetime(2026, 3, 4, 8, 5, 49)
    assert looks_of(("a/rank_0.txt", "1", second), ("capture/rank_0.txt", "080509", first)) == [2, 1]
