"""Parts of the diagnoses made by hand: pictures, stories, rows and remedies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nccldoctor.model import (
    Avoid,
    Condition,
    EventRole,
    IncidentEvent,
    Place,
    RankState,
    RemedyAdvice,
    Role,
    Source,
    SourceKind,
)
from nccldoctor.model.excerpts import SourceLine
from nccldoctor.model.exhibits import (
    CallCell,
    CallsRow,
    CallsSide,
    CallsTable,
    Exhibit,
    LastLines,
    Part,
    QuotedLines,
)
from nccldoctor.model.figures import (
    NEVER,
    UNKNOWN,
    CallDiff,
    CallDiffRow,
    IssuedCall,
    Lateness,
    Mark,
    RankLateness,
    StackDiff,
    StackLine,
    StackSide,
    Timeline,
    TimeRow,
    level,
)
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Involvement, Standing, WaitedCall


def telling(text: str, host: str = "gpu-a018", path: str = "dmesg.txt") -> tuple[IncidentEvent, ...]:
    """Trouble on one host, the timeouts of those who wait, and the end of the job."""
    at = datetime(2026, 11, 11, 3, 25, 1, tzinfo=UTC)
    rest = Ranks(range(8)) - [5]
    return (
        IncidentEvent(EventRole.INITIATING, "kernel", text, Place(9, path, 2), at, host=host, cause=True),
        IncidentEvent(EventRole.UNRELATED, "setting", text, Place(2, path, 4)),
        IncidentEvent(
            EventRole.CASCADE, "timeout", text, Place(4, path, 7), at + timedelta(minutes=10), rest, count=len(rest)
        ),
        IncidentEvent(
            EventRole.TEAR_DOWN, "exit", text, Place(5, path, 99), at + timedelta(minutes=11), Ranks([5]), host
        ),
    )


def drifting(world: int, late: int, name: str = "dp_1") -> Lateness:
    """Rank ``late`` falls behind from call to call and misses the last of 24; rank 0 has no record of it."""
    values = [
        tuple(
            (NEVER if n == 23 else 2.0**n / 4000)
            if rank == late
            else UNKNOWN
            if (rank, n) == (0, 23)
            else float(rank == n)
            for n in range(24)
        )
        for rank in range(world)
    ]
    excerpt = [rank for rank in range(world) if world <= 24 or rank in (0, 1, late)]
    return Lateness(
        name,
        tuple(range(18700, 18724)),
        ("ALLREDUCE",) * 24,
        tuple(RankLateness(rank, values[rank], 19 if rank == late else 0) for rank in excerpt),
        Ranks(range(world)),
        bytes(level(value) for row in values for value in row),
        14.0,
        "clocks aligned",
    )


def stalling(world: int, outside: int, text: str = "watchdog timeout") -> Timeline:
    """Everybody but one waits ten minutes, gives up, and ends."""
    start = datetime(2026, 11, 11, 3, 24, 58, tzinfo=UTC).timestamp()
    rows = tuple(
        TimeRow(
            Ranks([rank]),
            (
                Mark("life", start + 3, text),
                Mark("timeout", start + 604 + rank / 8, text, f"rank_{rank}.log:9"),
                Mark("exit", start + 606, text),
            ),
        )
        for rank in range(world)
    )
    host = TimeRow(
        Ranks(),
        (
            Mark("trouble", start + 5, text),
            Mark("exception", start + 6, text),
            Mark("dump", start + 7, text),
            Mark("stack", start + 8, text),
        ),
    )
    return Timeline((*rows, host), start, start + 606, "UTC", hidden=3)


def parting(name: str) -> StackDiff:
    """The culprit is in its loader, the peer in its model."""
    root = StackLine("main", name, 388, own=True)
    return StackDiff(
        StackSide(
            5,
            name,
            "stacks_5.txt:3",
            (StackLine("poll", name, 257, own=False), StackLine(name, "train.py", 214, own=True, parts=True), root),
            3,
        ),
        StackSide(
            4,
            name,
            "stacks_4.txt:3",
            (StackLine("forward", name, 301, own=True), StackLine(name, "train.py", 217, own=True, parts=True), root),
        ),
    )


def skipping(op: str) -> CallDiff:
    """Rank 5 left a call out, and its next one differs."""
    calls = [IssuedCall(op, op, n, op, "64", n < 9) for n in range(6, 12)]
    rows = (
        CallDiffRow(calls[0], calls[0], "same"),
        CallDiffRow(None, calls[1], "right-only"),
        CallDiffRow(calls[2], calls[3], "differs"),
        CallDiffRow(calls[4], None, "left-only"),
    )
    return CallDiff(5, 4, rows, before=21, after=3)


def logs(count: int) -> tuple[Source, ...]:
    """Logs of so many ranks."""
    return tuple(Source(n, f"rank_{n}.log", SourceKind.LOG, 52_000) for n in range(count))


def state(rank: int, lags: bool) -> RankState:
    """The state of a lagging or of a waiting rank."""
    return RankState(
        rank,
        Role.CULPRIT if lags else Role.WAITING,
        f"gpu-a01{7 + rank // 4}",
        f"GPU {rank % 4}",
        48208 + rank,
        f"dp_{rank % 2}",
        18722,
        18722 if lags else 18723,
        None if lags else "ALLREDUCE #18723",
        "heartbeat phase=data" if lags else "watchdog timeout",
        Place(rank, f"rank_{rank}.log", 914),
    )


def storage() -> RemedyAdvice:
    """The remedy that fits."""
    return RemedyAdvice(
        "dataloader-stall",
        "Storage under the data loader is stuck on one host",
        "F1",
        "strong",
        3,
        4,
        ("`ssh gpu-a018 'ps -o pid,stat,wchan:28,cmd --ppid 48213'`", "A worker in state `D` confirms it."),
        ("Drain the host, remount or fail over **stor-03**.",),
        ("Give the loader a deadline: `DataLoader(..., timeout=120)`.",),
        (Avoid("Do not just raise the timeout", "Rank 5 was not slow, it was blocked."),),
        ("https://github.com/pytorch/pytorch/issues/1 (2026-10)", "a book"),
        summary="The loader waits for storage that does not answer.",
        topic="lateness",
        checks=(
            Condition("culprit in the data loader", True, "stack shows _try_get_data", "stacks_5.txt:3"),
            Condition("workers in state D", False, "look for state D"),
        ),
    )


def fork() -> RemedyAdvice:
    """The remedy that might."""
    return RemedyAdvice(
        "dataloader-fork-deadlock",
        "A loader worker deadlocked after fork",
        "F1",
        "possible",
        2,
        4,
        ("`py-spy dump --pid 48213 --subprocesses`",),
        ("Use the `spawn` context.",),
        (),
        (),
        (),
        checks=(Condition("worker exit", None, "no launcher log"),),
    )


def culprit(ranks: Ranks, host: str = "gpu-a018", frame: str = "fetch") -> Standing:
    """Ranks in no call, whom others wait for."""
    since = datetime(2026, 11, 11, 3, 25, 2, tzinfo=UTC).timestamp()
    return Standing(
        ranks,
        Involvement.CULPRIT,
        (host,),
        frame=frame,
        frame_at="train.py:214",
        end="SIGTERM",
        distance=0,
        since=since,
        until=since + 604,
    )


def waiting(ranks: Ranks, for_: Ranks, group: str = "dp_1", op: str = "ALLREDUCE", distance: int = 1) -> Standing:
    """Ranks that wait ten minutes in call #18723 for others."""
    since = datetime(2026, 11, 11, 3, 25, 2, tzinfo=UTC).timestamp()
    part = Involvement.WAITING if distance == 1 else Involvement.BLOCKED
    call = WaitedCall(group, op, 18723, (group,))
    return Standing(
        ranks, part, ("gpu-a017", "gpu-a018"), call, for_, distance=distance, since=since, until=since + 602
    )


def proving(text: str, path: str = "rank_1.log") -> tuple[Exhibit, ...]:
    """A table of calls with an empty slot, and a quoted line with its context."""
    cell = CallCell(
        "ALLREDUCE",
        "[64]",
        "Float",
        "started",
        "step (train.py:40)",
        Place(1, path, entry=4),
    )
    sides = (CallsSide(1, path), CallsSide(5, path))
    rows = (CallsRow(18722, (cell, cell)), CallsRow(18723, (cell, None), ("entry",)))
    quoted = QuotedLines(
        Place(1, path, line=812),
        (SourceLine(812, text),),
        frozenset({812}),
        (SourceLine(811, "before"),),
        (SourceLine(813, "after"),),
        is_whole=True,
    )
    return (
        Exhibit(
            "A",
            "Rank 1 entered ALLREDUCE #18723. Rank 5 never did.",
            (Part.PEER, Part.CULPRIT),
            ("18723",),
            (1,),
            calls=CallsTable("dp_1", sides, rows),
        ),
        Exhibit("B", "Rank 1 waited 600 s in the call.", (Part.PEER,), ("18723", "ALLREDUCE"), (2,), lines=quoted),
    )


def falling_silent(text: str, path: str = "rank_5.log") -> tuple[LastLines, ...]:
    """The log of rank 5 stops for ten minutes; that of rank 1 ends."""
    return (
        LastLines(5, path, (SourceLine(9, text),), (SourceLine(10, text),), (SourceLine(11, text),), 600_000.0),
        LastLines(1, path, (SourceLine(7, text),), (), (), None),
    )
