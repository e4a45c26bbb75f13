"""A rank ended: a signal, the out-of-memory killer, a lost node, or an early exit.

What it means: the process is gone, and its peers wait for it or see their connections to it break.
How we know: an exit record, a kernel or scheduler line, that the tear-down did not cause; or that connections to the
rank broke while it was silent itself. A whole host without a sign of life is one lost node.
What would refute it: lines, a dump or a stack of that rank from after the supposed end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nccldoctor.align import Facts
from nccldoctor.draft import Draft, describe, names, quote
from nccldoctor.events import (
    Event,
    ExceptionRaised,
    OutOfMemory,
    ProcessExit,
    SchedulerEvent,
    SocketError,
)
from nccldoctor.failures import Failure
from nccldoctor.model import CauseClass, Confidence, Evidence
from nccldoctor.ranks import Ranks
from nccldoctor.rules.ends import how, observer, process, says
from nccldoctor.rules.lost_node import block, lost_node, silence
from nccldoctor.rules.outside import lives, nameable, others_wait
from nccldoctor.rules.unheard import broke_first, draft, lost_by_peers, unheard
from nccldoctor.stalls import Stall, StallKind

CAUSE = CauseClass.DIED
REFUTED = "lines, a dump or a stack of that rank from after its end"


def judge(facts: Facts, stall: Stall) -> Draft | None:
    """An end on record; else a lost node; else broken connections to a silent rank."""
    found = [f for f in facts.failures if f.cause is CAUSE and not any(facts.waits.firm.get(r) for r in f.ranks)]
    if stall.kind is StallKind.ABSENT:
        lost = [
            f
            for f in found
            if not f.ranks and isinstance(f.events[0], SchedulerEvent) and f.events[0].what == "node-failure"
        ]
        found = [f for f in found if f.ranks & stall.ranks] or [
            replace(f, ranks=stall.ranks) for f in lost if block(stall.ranks)
        ]
        found = found or _nameless_end(facts, stall)
        if found:
            return _recorded_end(facts, stall, found)
        return _early_exit(facts, stall) or _broken_connection(facts, stall) or lost_node(facts, stall)
    if stall.kind is StallKind.CRASH and found:
        certain = [f for f in found if f.certain]
        return _recorded_end(facts, stall, [f for f in certain if f.ranks] or certain or found)
    return _unheard(facts, stall)


def _unheard(facts: Facts, stall: Stall) -> Draft | None:
    """The few ranks that complained of nothing, where the first complaint of all others was a connection that broke."""
    gone = unheard(facts, stall)
    if gone is None or not gone.broken or any(lives(facts, r) for r in gone.ranks):
        return None
    return draft(facts, gone, CAUSE, "ended without a word")


def _nameless_end(facts: Facts, stall: Stall) -> list[Failure]:
    """A kill that a launcher reports under a local rank: of the one rank that can be missing, else of any of those that others wait for.

    One kill ends one rank: where the others wait for several, it may be of each.
    """
    kills = [f for f in facts.failures if f.cause is CAUSE and not f.ranks and _kills(f, stall)]
    ranks = nameable(facts, stall)
    one = ranks if len(ranks) == 1 and stall.ranks == facts.waits.roots else Ranks()
    return [replace(f, ranks=one, suspects=facts.waits.roots - one, certain=False) for f in kills[:1]]


def _kills(failure: Failure, stall: Stall) -> bool:
    """Whether it tells of one killed process that can be a rank of the stall, or one of its workers."""
    near = not failure.suspects or bool(failure.suspects & stall.ranks)
    return near and isinstance(failure.events[0], ProcessExit | OutOfMemory)


def _recorded_end(facts: Facts, stall: Stall, found: Sequence[Failure]) -> Draft:
    first = found[0]
    together = [f for f in found if f.when == first.when or stall.kind is StallKind.ABSENT] or [first]
    ranks = Ranks(r for f in together for r in f.ranks)
    evidence = [quote(e, says(e), observer=observer(e)) for f in together[:6] for e in f.events[:2]]
    evidence += others_wait(facts, stall)
    evidence += [e for r in list(ranks)[:2] for e in silence(facts, r)] + lost_by_peers(facts, ranks)
    wait = f"; the others wait for it in {describe(facts, stall.call)}" if stall.call is not None else ""
    who = names(ranks) if ranks else process(first.events[0])
    end = first.events[0]
    unsaid = isinstance(end, ProcessExit) and end.exitcode in (None, 1) and end.signal is None
    ceiling = Confidence.LOW if unsaid else Confidence.HIGH if first.certain and ranks else Confidence.MEDIUM
    return Draft(
        CAUSE,
        f"{who[0].upper()}{who[1:]} ended: {how(first.events)}{wait}",
        tuple(evidence),
        ceiling,
        REFUTED,
        ranks=ranks,
        suspects=first.suspects,
        call=stall.call,
    )


def _early_exit(facts: Facts, stall: Stall) -> Draft | None:
    """Exit code 0 of a rank that the others still wait for."""
    ranks = Ranks(
        r
        for r in nameable(facts, stall) | stall.shown
        for e in facts.presence.signs(r).exits
        if e.exitcode == 0 and facts.presence.signs(r).dump == "none"
    )
    if not ranks:
        return _missing_from_table(facts, stall)
    evidence = [
        quote(e, f"rank {r} exited with code 0", observer="launcher")
        for r in ranks
        for e in facts.presence.signs(r).exits[:1]
    ]
    evidence += others_wait(facts, stall)
    return Draft(
        CAUSE,
        f"{names(ranks).capitalize()} exited early, with code 0; the others wait for it in {describe(facts, stall.call)}",
        tuple(evidence),
        Confidence.HIGH,
        REFUTED,
        ranks=ranks,
        call=stall.call,
    )


def _missing_from_table(facts: Facts, stall: Stall) -> Draft | None:
    """Torchrun lists all ranks of a node that it still had, with -15 for those it closed: one that is missing had
    ended before, without failing.
    """
    ranks = Ranks(
        r
        for r in nameable(facts, stall)
        if not facts.presence.signs(r).exits
        and not facts.presence.signs(r).teardown
        and not facts.presence.signs(r).alive
    )
    evidence: list[Evidence] = []
    for rank in ranks:
        host = facts.case.rank_host.get(rank)
        mates = [
            e
            for r, s in sorted(facts.presence.of.items())
            for e in s.exits
            if e.reporter == "torchrun" and host is not None and facts.case.rank_host.get(r) == host
        ]
        if len(mates) < 2:
            return None
        evidence.append(
            quote(
                mates[0],
                f"the launcher's table of {host} lists {len(mates)} ranks and not rank {rank}: it had ended before, with code 0",
                observer="launcher",
            )
        )
        evidence += silence(facts, rank)
    if not ranks:
        return None
    evidence += others_wait(facts, stall)
    return Draft(
        CAUSE,
        f"{names(ranks).capitalize()} ended early without failing; the others wait for it in {describe(facts, stall.call)}",
        tuple(evidence),
        Confidence.MEDIUM,
        REFUTED,
        ranks=ranks,
        call=stall.call,
    )


def _broken_connection(facts: Facts, stall: Stall) -> Draft | None:
    """Peers whose connections broke, and one absent rank that is silent while the others complain or dump."""
    silent = Ranks(
        r for r in nameable(facts, stall) if not facts.presence.signs(r).alive and not facts.presence.signs(r).echoes
    )
    broken = [e for e in facts.case.events if _closed(e) and e.rank not in silent]
    if not broken or not silent or len(silent) > 1 or not broke_first(facts):
        return None
    evidence = [quote(e, f"rank {e.rank} saw its connection break") for e in broken[:3]]
    evidence += others_wait(facts, stall) + [e for r in silent for e in silence(facts, r)]
    logged = bool(silent & facts.presence.logged)
    return Draft(
        CAUSE,
        f"{names(silent).capitalize()} ended without a word: connections to it broke, and the others wait for it "
        f"in {describe(facts, stall.call)}",
        tuple(evidence),
        Confidence.HIGH if logged else Confidence.MEDIUM,
        REFUTED,
        ranks=silent,
        call=stall.call,
    )


def _closed(event: Event) -> bool:
    if isinstance(event, SocketError):
        return event.echo
    text = event.message if isinstance(event, ExceptionRaised) else ""
    return "Connection closed by peer" in text or "Connection reset by peer" in text
