"""What is kept of a source in which the same records repeat without end."""

from __future__ import annotations

import io
from itertools import pairwise

from nccldoctor.events import CollectiveTimeout, Event, GpuError
from nccldoctor.model import Place, Source, SourceKind
from nccldoctor.parsers.engine.effort import Effort
from nccldoctor.parsers.engine.retention import Retention, kept_places, shares_of
from nccldoctor.parsers.engine.scan import scan


def gpu_error(line: int, xid: int, rank: int = 0) -> GpuError:
    return GpuError(place=Place(0, "a.log", line), text=f"Xid {xid}", rank=rank, xid=xid)


def timeout(line: int, rank: int, seq: int) -> CollectiveTimeout:
    return CollectiveTimeout(place=Place(0, "a.log", line), text="timeout", rank=rank, seq=seq, op="ALLREDUCE")


def thinned(events: list[Event], room: int) -> list[Event]:
    return [events[i] for i in kept_places(list(map(shares_of, events)), room)]


def test_few_events_are_all_kept() -> None:
    events: list[Event] = [gpu_error(line, 31) for line in range(50)]
    assert thinned(events, 50) == events


def test_a_single_code_survives_among_many_of_another() -> None:
    events: list[Event] = [gpu_error(line, 79 if line == 5_000 else 31) for line in range(10_000)]
    kept = thinned(events, 100)
    assert len(kept) <= 100
    assert events[5_000] in kept


def test_a_rare_kind_and_a_quiet_rank_survive_the_loud_ones() -> None:
    events: list[Event] = [timeout(line, rank=0, seq=line) for line in range(10_000)]
    events[4_000] = gpu_error(4_000, 48, rank=3)
    events[6_000] = timeout(6_000, rank=9, seq=17)
    kept = thinned(events, 60)
    assert events[4_000] in kept
    assert events[6_000] in kept


def test_the_first_and_the_last_of_every_writer_are_kept_in_order() -> None:
    events: list[Event] = [timeout(line, rank=line % 8, seq=line // 8) for line in range(8_000)]
    kept = thinned(events, 80)
    for rank in range(8):
        own = [event for event in kept if event.rank == rank]
        assert (own[0].place.line, own[-1].place.line) == (rank, 7_992 + rank)
    assert all((a.place.line or 0) < (b.place.line or 0) for a, b in pairwise(kept))


def test_more_writers_than_room_are_bounded_too() -> None:
    assert len(thinned([timeout(line, rank=line, seq=1) for line in range(5_000)], 64)) <= 64


def test_what_is_held_while_reading_is_bounded_and_everything_is_counted() -> None:
    kept = Retention(room=100)
    largest = 0
    for line in range(1, 20_001):
        kept.retain([gpu_error(line, 31)])
        largest = max(largest, len(kept.kept))
    assert largest <= 201
    assert kept.counted == 20_000
    assert kept.lines_with([gpu_error(3, 31), gpu_error(30_000, 31)]) == 20_001


def test_the_gap_of_a_scan_says_how_many_were_not_kept() -> None:
    line = b"Apr  5 03:35:00 node1 kernel: NVRM: Xid (PCI:0000:01:00): 31, pid=9000, name=python3, Ch 00000008\n"
    fatal = line.replace(b": 31,", b": 79,")
    source = Source(0, "kern.log", SourceKind.LOG, 0)
    parsed = scan(source, io.BytesIO(line * 3_000 + fatal + line * 3_000), effort=Effort(room=100))
    assert [event.xid for event in parsed.events if isinstance(event, GpuError)].count(79) == 1
    assert len(parsed.events) <= 200
    assert parsed.understood == 6_001
    assert [gap.why for gap in parsed.gaps] == [
        f"{6_001 - len(parsed.events)} of 6001 records repeat others: counted, not kept"
    ]
    assert not any(gap.lost for gap in parsed.gaps)
