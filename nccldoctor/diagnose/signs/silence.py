"""Ranks that did not give up where all others did, as lines alone tell: they had nothing to give up on.

Gloo names no call in its complaints. Who waits complains in the end; who is busy, stopped or gone does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from nccldoctor.align.facts import Facts
from nccldoctor.align.gloo import is_gloo_timeout, is_lost_connection
from nccldoctor.align.liveness import is_manual_dump
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Line, is_cited
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.signs.absence import busy_with, lives, own_dumps
from nccldoctor.events import CollectiveMismatch, DumpNote, Event, ExceptionRaised, SocketError
from nccldoctor.model import Confidence
from nccldoctor.model.ranks import Ranks, names, verb

AT_ONCE = 2.0
"""Seconds within which a job ends behind its last step."""

REFUTED = "a complaint of that rank about a call, or other calls of it than its peers'"


@dataclass(frozen=True, slots=True)
class Unheard:
    """``ranks`` kept silent where everybody else gave up; ``closed`` where the launcher may have cut them short before they said so;
    ``broken`` where the first complaint was about a connection that broke, not about the limit.
    """

    ranks: Ranks
    complaints: tuple[Event, ...]
    closed: bool
    broken: bool


def unheard(facts: Facts, stall: Stall) -> Unheard | None:
    """The few ranks that did not complain; None where lines do not tell, or tell of another fault."""
    case, presence = facts.case, facts.liveness
    if stall.kind not in (StallKind.NOTHING, StallKind.CRASH) or facts.failures or case.world_size is None:
        return None
    said = {e.rank: e for e in reversed([*case.of(SocketError), *case.of(ExceptionRaised)]) if _complains(e)}
    ranks = case.world - Ranks(r for r in said if r is not None)
    few = 0 < 3 * len(ranks) <= len(case.world) and frozenset(ranks) <= presence.logged | presence.exited
    if not few or not any(is_gloo_timeout(e) or _broke(e) for e in said.values()) or any(case.of(CollectiveMismatch)):
        return None
    if any(_left(facts, r) or presence.activity(r).alarms for r in ranks):
        return None
    closed = any(presence.activity(r).exits or presence.activity(r).teardown for r in ranks)
    if closed and len(ranks) > 1:
        return None
    told = sorted(said.values(), key=lambda e: e.rank or 0)
    return Unheard(ranks, tuple(told), closed, broke_first(facts))


def silent(facts: Facts) -> Ranks:
    """The few ranks of a job of known size that did not give up, where all others did: which call that was is not known."""
    case, signs = facts.case, facts.liveness.activity
    if case.world_size is None:
        return Ranks()
    found = Ranks(r for r in case.world if not signs(r).alarms and not signs(r).has_finished)
    return found if 0 < 8 * len(found) <= len(case.world) else Ranks()


def broke_first(facts: Facts) -> bool:
    """Whether nobody had waited until the limit when the first connection broke: who gives up and leaves breaks connections, too."""
    told = [e for e in (*facts.case.of(SocketError), *facts.case.of(ExceptionRaised)) if _complains(e)]
    timed = sorted((e for e in told if not math.isnan(facts.liveness.time(e))), key=facts.liveness.time)
    return _broke(timed[0]) if timed else not any(is_gloo_timeout(e) for e in told)


def _left(facts: Facts, rank: int) -> bool:
    """Whether a rank was done before the others: it had no reason to complain."""
    signs = facts.liveness.activity(rank)
    others = (facts.liveness.activity(r) for r in facts.case.world if r != rank)
    return any(e.exitcode == 0 for e in signs.exits) or (signs.has_finished and not any(o.has_finished for o in others))


def lost_by_peers(facts: Facts, gone: Ranks) -> list[Citation]:
    """That peers lost connections before anybody had waited until the limit: a process had ended."""
    lost = [
        e for e in facts.case.of(ExceptionRaised) if is_lost_connection(e) and e.rank is not None and e.rank not in gone
    ]
    return [Line(e, f"rank {e.rank} lost its connection to a peer") for e in lost[:1]] if broke_first(facts) else []


def stood_still(facts: Facts) -> bool:
    """Whether the job itself dumped a rank that was not done, long after its last step: at its end it does so at once."""
    for note in facts.case.of(DumpNote):
        signs = facts.liveness.activity(-1 if note.rank is None else note.rank)
        times = [at for e in signs.steps if not math.isnan(at := facts.liveness.time(e))]
        if not is_manual_dump(note) or len(times) < 2 or signs.has_finished:
            continue
        longest = max(later - earlier for earlier, later in pairwise(sorted(times)))
        if facts.liveness.time(note) - max(times) > max(AT_ONCE, 2 * longest):
            return True
    return False


def still_connected(facts: Facts, call: StuckCall) -> list[Citation]:
    """That ranks inside a call waited until the limit: had the process they waited for ended, connections would have broken at once."""
    if broke_first(facts):
        return []
    said = [e for e in facts.case.of(ExceptionRaised) if e.rank in call.inside and is_gloo_timeout(e)]
    return [Line(e, f"rank {e.rank} waited until the limit, and its connections did not break") for e in said[:1]]


def _complains(event: Event) -> bool:
    echo = (
        event.echo if isinstance(event, SocketError) else isinstance(event, ExceptionRaised) and event.origin == "echo"
    )
    return echo and event.rank is not None


def _broke(event: Event) -> bool:
    return is_lost_connection(event) or isinstance(event, SocketError)


def shows_life(facts: Facts, rank: int) -> bool:
    """Whether anything shows that a silent rank was alive: a dump that the job wrote, a phase it was in, how it was closed."""
    return bool(lives(facts, rank) or busy_with(facts, rank)[0])


def draft(facts: Facts, found: Unheard, says: str) -> Hypothesis:
    """The conclusion about silent ranks in the words of one class."""
    evidence: list[Citation] = [Line(e, f"rank {e.rank} waited until it gave up") for e in found.complaints[:3]]
    said, told = "", False
    for rank in list(found.ranks)[:3]:
        doing, more = busy_with(facts, rank)
        said, told = said or doing, told or bool(doing) or bool(own_dumps(facts, rank))
        evidence += more + [e for e in lives(facts, rank) if not is_cited(e, more)]
        last = facts.liveness.activity(rank).last_event
        if last is not None and not is_cited(
            line := Line(last, f"the last line of rank {rank}: no complaint"), evidence
        ):
            evidence.append(line)
    sure = told and len(found.ranks) == 1 and (bool(said) or not found.closed)
    doing = f"; {'it ' if len(found.ranks) == 1 else ''}{said}" if said else ""
    return Hypothesis(
        f"{names(found.ranks).capitalize()} {says}: all others gave up waiting, {verb(found.ranks, 'it', 'they')} alone did not{doing}",
        evidence,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        ranks=found.ranks,
        refuted_by=REFUTED,
    )
