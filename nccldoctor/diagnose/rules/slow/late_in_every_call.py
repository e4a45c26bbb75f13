"""A rank comes late to call after call; the others wait for it and go on.

How we know: over all recorded calls, up to the newest, the rank is measurably behind its peers, at a noticeable share of the time; no
rank gave up. Example: rank 2 issues every second ALLREDUCE 0.8 s after ranks 0, 1 and 3, of 0.86 s that a step takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.facts import Facts
from nccldoctor.align.health.passed_calls import has_gone_on
from nccldoctor.align.lateness.call_times import Measure
from nccldoctor.align.lateness.late_ranks import LATE_PARTS, LateRank
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Citation, Entry, Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.silence import has_dumped_while_stalled
from nccldoctor.events import ProcessExit
from nccldoctor.model import CauseClass, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import group_title

_WORDS = {
    Measure.DURATION: "arrived",
    Measure.STARTED: "started the call on its GPU",
    Measure.ISSUED: "issued the call",
}
MOSTLY = 0.5
"""The share of the time from which on it is no surprise that dumps show the others waiting for the rank."""

SHOWN = 3
"""Late ranks whose calls are quoted."""

CALLS = 2
"""Calls that are quoted of each of them."""


@rule(CauseClass.STRAGGLER, refuted_by=say("refuted.still-open"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Ranks that are late again and again, where nobody complains and nothing is stuck for another reason."""
    late = list(facts.lateness.late.values())
    if not late or _is_troubled(facts) or stall.kind in (StallKind.CYCLE, StallKind.HIDDEN, StallKind.CRASH):
        return None
    went_on = has_gone_on(facts)
    if not went_on and (has_dumped_while_stalled(facts) or any(facts.liveness.activity(r).stacks for r in stall.ranks)):
        return None
    # a look at any moment must most likely find the others waiting for these ranks
    expected = {one.rank for one in late if went_on or one.share >= MOSTLY}
    if stall.kind is StallKind.ABSENT and not frozenset(stall.ranks) <= expected:
        return None
    ranks = Ranks(one.rank for one in late)
    worst = max(late, key=lambda one: one.share)
    group = facts.case.groups[worst.group]
    name = "the default group" if group.desc == "default_pg" else group_title(group.label)
    return Hypothesis(
        headline_of(
            "slow.late-in-every-call",
            who=who(facts.case, ranks),
            ranks=ranks,
            seconds=worst.seconds,
            late=worst.late_calls,
            compared=worst.compared,
            group=name,
            share=worst.share,
        ),
        [citation for one in late[:SHOWN] for citation in _late_calls(facts, one)],
        list(_doubts_of_lateness(facts, late, went_on or not facts.stalls)),
        ranks=facts.lateness.late_ranks,
        refuted_by=say("refuted.drifting-clocks") if went_on else "",
    )


def _is_troubled(facts: Facts) -> bool:
    """True when somebody gave up, failed or ended badly: then lateness is not what the job suffers from."""
    ended_badly = any(e.exitcode not in (0, None) for e in facts.case.of(ProcessExit))
    return facts.liveness.first_alarm is not None or bool(facts.failures) or ended_badly


def _doubts_of_lateness(facts: Facts, late: list[LateRank], is_moving: bool) -> Iterator[Doubt]:
    """Doubts that the job moves, and that the devices were as late as their hosts."""
    if not is_moving:
        yield doubt_of("no-step-after")
    if any(one.may_be_clock for one in late):
        yield doubt_of("may-be-clock")
    if any(one.late_calls < LATE_PARTS for one in late):
        yield doubt_of("few-calls")
    is_on_hosts = all(dump.only_retires for dump in facts.case.dumps)  # no device runs the calls, or none is recorded
    if not is_on_hosts and any(one.measure is Measure.ISSUED for one in late):
        yield doubt_of("host-times")


def _late_calls(facts: Facts, late: LateRank) -> list[Citation]:
    """The newest calls to which the rank was late, each with the same call of a peer."""
    out: list[Citation] = []
    for row in late.rows[-CALLS:]:
        peers = rows_at(facts.case, facts.progress, late.group, int(facts.case.calls.seq[row]))
        out.append(Entry(row, say("slow.late-in", rank=late.rank, how=_WORDS[late.measure], seconds=late.seconds)))
        out += [Entry(peer, say("slow.was-there", rank=rank)) for rank, peer in peers.items() if rank != late.rank][:1]
    return out
