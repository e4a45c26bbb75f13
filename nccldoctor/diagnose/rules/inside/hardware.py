"""All members may be in the call, and a GPU of one of them reports an error.

How we know: an error of the driver, or of CUDA, that no faulty program causes, on a rank's own GPU and shortly before the first
timeout. Not: out-of-memory, illegal access, device assert, Xid 13, 31, 43.
"""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.align.failures import Failure
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.events import CudaError, Event, GpuError
from nccldoctor.model import CauseClass, Doubt
from nccldoctor.model.ranks import Ranks

BOARDS = 4
"""Boards that a headline names."""

FITS = 900.0
"""Seconds before the stalled call was issued in which an error of a board can be its cause."""


@rule(CauseClass.HARDWARE, refuted_by=say("refuted.same-error-elsewhere", board="GPU"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The board that failed first, if it fits the stall."""
    earliest = facts.liveness.began - FITS
    found = [f for f in facts.failures if f.cause is CauseClass.HARDWARE and not f.when < earliest]
    if not found:
        return None
    named = [f for f in found if f.ranks]
    ranks = Ranks(r for f in named for r in f.ranks)
    suspects = Ranks(r for f in found for r in f.suspects) if not ranks else Ranks()
    left = _left_of_host(facts, stall, suspects) if not ranks else Ranks()
    if left:
        ranks, suspects = left, Ranks()
    evidence: list[Citation] = [
        Line(e, say("inside.board-error", board=_board(e), error=_what(e).rstrip(".")))
        for f in (named or found)[:4]
        for e in f.events[:3]
    ]
    own = [e for e in facts.case.of(CudaError) if e.rank in ranks][:1]
    evidence += [Line(e, say("inside.own-cuda-error", rank=e.rank)) for e in own]
    evidence.append(Waiting(stall.call))
    event = (named or found)[0].events[0]
    kind = _board_word(event)
    plural = f"{kind}s" if len(ranks) > 1 else kind
    boards = f"the {plural} of {who(facts.case, ranks)}" if ranks else _nameless_boards(event, found)
    doubts = _doubts_about_owner(
        ranks, bool(left) and stall.kind is not StallKind.ABSENT, any(f.derived for f in named), kind
    )
    stranger = event.host if not named and facts.hosts.by_name and not facts.hosts.on(event.host) else None
    return Hypothesis(
        headline_of("inside.board-failed", board=boards, error=_what(event)),
        evidence,
        [*doubts, *([doubt_of("no-rank-on", host=stranger)] if stranger else [])],
        ranks=ranks,
        suspects=suspects,
        call=stall.call,
        refuted_by=say("refuted.same-error-elsewhere", board=kind),
    )


def _left_of_host(facts: Facts, stall: ObservedStall, near: Ranks) -> Ranks:
    """The one rank of a host with a broken board that is missing, or not known to wait.

    Example: the kernel of the host of ranks 8-15 reports an Xid without saying whose GPU it is; all but rank 13 gave up on calls.
    """
    if stall.kind is StallKind.ABSENT and len(stall.ranks) == 1:
        is_only_one = stall.ranks == facts.wait_graph.roots  # one broken board is not that of several missing ranks
        return stall.ranks if is_only_one and (not near or stall.ranks <= near) else Ranks()
    left = facts.ledger.open & near
    return left if len(left) == 1 and facts.ledger.is_closed and facts.ledger.waiting & near else Ranks()


def _doubts_about_owner(ranks: Ranks, is_left: bool, is_derived: bool, kind: str) -> Sequence[Doubt]:
    if is_derived:
        return [doubt_of("owner-by-slot", board=kind)]
    if is_left:
        return [doubt_of("owner-by-elimination", board=kind, ranks=ranks)]
    if len(ranks) == 1:
        return []
    return [doubt_of("several-boards") if ranks else doubt_of("owner-unknown", board=kind)]


def _nameless_boards(first: Event, found: Sequence[Failure]) -> str:
    """The boards of one host with this error whose ranks are not known: *GPU 0000:3b:00 on node7*."""
    events = [e for f in found for e in f.events if isinstance(e, GpuError) and e.host == first.host]
    same = [e.device for e in events if e.device and _what(e) == _what(first)]
    boards = list(dict.fromkeys(device.removeprefix("GPU ") for device in same))
    more = f" and {len(boards) - BOARDS} more" if len(boards) > BOARDS else ""
    kind = _board_word(first)
    which = f"{kind}{'s' if len(boards) > 1 else ''} {', '.join(boards[:BOARDS])}{more}" if boards else f"a {kind}"
    return f"{which} on {first.host or 'one host'}"


def _board_word(event: object) -> str:
    return event.board if isinstance(event, GpuError) else "GPU"


def _board(event: Event) -> str:
    if isinstance(event, GpuError):
        where = f"{event.board} {event.device.removeprefix('GPU ')}" if event.device else f"a {event.board}"
        return f"{where} of rank {event.rank}" if event.rank is not None else f"{where} on {event.host or 'one host'}"
    return f"rank {event.rank}" if event.rank is not None else "a process"


def _what(event: object) -> str:
    if isinstance(event, GpuError):
        number = f"Xid {event.xid}" if event.xid is not None else f"SXid {event.sxid}" if event.sxid is not None else ""
        meaning = event.message.partition(": ")[0] if number else event.message  # behind it come the driver's own words
        printed = number if "xid" in event.text.lower() else ""
        return ", ".join(part for part in (printed, meaning[:80].rstrip(" .")) if part)
    return str(getattr(event, "message", ""))[:80] or "a device error"
