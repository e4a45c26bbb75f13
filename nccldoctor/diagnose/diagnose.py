"""Asks the rules about every stall, weighs their conclusions and puts the verdict first.

Conclusions with a cause displace those without one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from logging import DEBUG

from nccldoctor.align.descriptions import describe, op_of, stalled_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import counters_of, has_lagging_coll_lines
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.diagnose.hypothesis import MOST_QUOTES, Conclusion
from nccldoctor.diagnose.missing_input import LOWER, refutation, relevant_losses
from nccldoctor.diagnose.nccl_counters_check import check_counters
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.rules import load
from nccldoctor.diagnose.signs.silence import has_dumped_while_stalled
from nccldoctor.diagnose.signs.still_running import has_gone_on, has_open_call
from nccldoctor.events import CommInit, Progress
from nccldoctor.model import CauseClass, Confidence, Evidence, Family, Finding, Link, SourceKind
from nccldoctor.model.evidence_sources import observers
from nccldoctor.model.ranks import Ranks

_LOG = logging.getLogger("nccldoctor")

ORDER = [Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW, Confidence.CANNOT_TELL]

NO_CAUSE = frozenset({CauseClass.UNDETERMINED, CauseClass.NONE, CauseClass.UNFINISHED})
"""Classes that name no cause; they step back behind one that does."""


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """The findings, the verdict first. There is always one."""
    drafts = [_judge(facts, stall) for stall in _stalls_to_judge(facts)]
    drafts = _without_explained(drafts + _unrelated_crash(facts, drafts))
    verdict = _join_culprits(facts, drafts)
    ordered = [verdict, *(d for d in drafts if d is not verdict)] if len(drafts) > 1 else [verdict]
    if facts.stalls and _has_no_complaint(facts):
        ordered = [_lowered_without_complaint(d) for d in ordered]
    return tuple(_finding(facts, d, i) for i, d in enumerate(ordered, 1))


def _stalls_to_judge(facts: Facts) -> Sequence[Stall]:
    """The stalls to judge: those of the wait-for graph, else one crash, else nothing.

    While a job goes on, calls are in flight and hosts run ahead of each other. Where no log complains, only those stalls count that
    stacks confirm, or whose call a dump holds as unfinished.
    """
    quiet = _has_no_complaint(facts)
    if quiet and has_gone_on(facts):
        stalls = [s for s in facts.stalls if _is_confirmed_by_stacks(facts, s)]
    else:
        stalls = [s for s in facts.stalls if not quiet or (has_open_call(facts, s) and not counters_of(facts, s.call))]
    if stalls:
        return stalls
    if facts.failures:
        return (Stall(StallKind.CRASH, Ranks(r for f in facts.failures for r in f.ranks)),)
    return (Stall(StallKind.NOTHING, Ranks()),)


def _unrelated_crash(facts: Facts, drafts: Sequence[Conclusion]) -> list[Conclusion]:
    """The end of a rank that waits in no known call, where the stalls themselves show no cause.

    Calls of ranks without a dump are not known: rank 7 was killed and left no dump, ranks 0-6 wait in a call of a group that is not known.
    """
    sure = [
        f
        for f in facts.failures
        if f.certain and f.ranks and not any(facts.wait_graph.waits_in.get(r) for r in f.ranks)
    ]
    if not sure or any(d.cause not in NO_CAUSE or d.ceiling is Confidence.HIGH for d in drafts):
        return []
    return [_judge(facts, Stall(StallKind.CRASH, Ranks(r for f in sure for r in f.ranks)))]


def _has_no_complaint(facts: Facts) -> bool:
    """True when logs were read and no rank in them complains, fails or gives up.

    Unfinished calls may then simply be in flight.
    """
    heard = bool(facts.liveness.logged) or any(facts.case.of(Progress))
    logged = any(s.kind is SourceKind.LOG for s in facts.case.sources) and heard
    troubled = (
        facts.liveness.first_alarm is not None
        or facts.failures
        or any(s.exits and any(e.exitcode for e in s.exits) for s in facts.liveness.by_rank.values())
    )
    return (
        logged
        and not troubled
        and not _has_unfinished_init(facts)
        and not has_dumped_while_stalled(facts)
        and not has_lagging_coll_lines(facts)
    )


def _is_confirmed_by_stacks(facts: Facts, stall: Stall) -> bool:
    """True when one stack shows a rank waiting inside the call, and another a rank busy outside it.

    Example: rank 0 stands in ``all_reduce``, and rank 3, which the stall names, in ``load_batch``.
    """
    inside = stall.call.inside if stall.call is not None else Ranks()
    signs = facts.liveness.activity
    return any(signs(r).waiting_stack and not signs(r).has_finished for r in inside) and any(
        signs(r).busy_stack for r in stall.ranks if r not in inside
    )


def _lowered_without_complaint(draft: Conclusion) -> Conclusion:
    """Lowers a conclusion from dumps alone to low where no log complains: the job may have gone on."""
    seen = draft.cause is CauseClass.NONE or any((e.observer or "").startswith("stack:") for e in draft.evidence)
    level = ORDER.index(draft.ceiling)
    return draft if seen else replace(draft, ceiling=ORDER[max(level, ORDER.index(Confidence.LOW))])


def _has_unfinished_init(facts: Facts) -> bool:
    """True when communicators started, none of them came up and no call was recorded: this is no running job."""
    begun = {(e.comm_id, e.nranks) for e in facts.case.of(CommInit) if e.what == "start"}
    ended = {(e.comm_id, e.nranks) for e in facts.case.of(CommInit) if e.what == "complete"}
    return bool(begun - ended) and not len(facts.case.calls)


def _judge(facts: Facts, stall: Stall) -> Conclusion:
    """The hypothesis of the first rule that holds and shows evidence."""
    about = (
        f"stall ({stall.kind}, ranks {stall.ranks}, {describe(facts, stall.call)})" if _LOG.isEnabledFor(DEBUG) else ""
    )
    observed = ObservedStall.of(facts, stall)
    for rule in load():
        conclusion = rule.conclude(facts, observed)
        if conclusion is not None:
            _LOG.debug("%s: %s holds: %s", about, rule.cause, conclusion.headline)
            return check_counters(facts, conclusion)
        _LOG.debug("%s: %s falls through, it does not hold", about, rule.cause)
    raise AssertionError("the last rule always holds")


def _without_explained(drafts: list[Conclusion]) -> list[Conclusion]:
    """Drops what another conclusion explains: the same one twice, and stalls without a cause where another has one."""
    kept: list[Conclusion] = []
    for draft in drafts:
        if not any(
            k.cause is draft.cause and k.ranks == draft.ranks and (k.ranks or k.call == draft.call) for k in kept
        ):
            kept.append(draft)
    with_cause = [d for d in kept if d.cause not in NO_CAUSE and (d.ranks or d.suspects)]
    return with_cause or kept


def _join_culprits(facts: Facts, drafts: list[Conclusion]) -> Conclusion:
    """The verdict of the whole job: the surest conclusion; independent stalls of its class add their culprits.

    Example: rank 3 never issued a call of tp 0, rank 12 one of tp 1: both are named.
    """
    ranked = sorted(
        drafts,
        key=lambda d: (
            not d.ranks,
            ORDER.index(d.ceiling),
            list(CauseClass).index(d.cause),
            min(d.ranks, default=0),
        ),
    )
    best = ranked[0]
    alike = [d for d in drafts if d.cause is best.cause and d.ranks and d.call is not None]
    if len(alike) < 2:
        return best
    culprits = Ranks(r for d in alike for r in d.ranks)
    if 2 * len(culprits) > len(facts.case.world):
        return replace(best, ranks=Ranks(), suspects=culprits, ceiling=Confidence.LOW)
    first = min(alike, key=lambda d: min(d.ranks))
    evidence = tuple(e for d in alike for e in d.evidence[: max(2, MOST_QUOTES // len(alike))])
    return Conclusion(
        "; ".join(d.headline for d in alike[:3]),
        (),
        max((d.ceiling for d in alike), key=ORDER.index),
        ranks=culprits,
        suspects=Ranks(r for d in alike for r in d.suspects),
        call=first.call,
        stalled=first.stalled,
        refuted_by=best.refuted_by,
        cause=best.cause,
        evidence=evidence,
    )


def _finding(facts: Facts, draft: Conclusion, number: int) -> Finding:
    stalled = draft.stalled if draft.stalled is not None else stalled_of(facts, draft.call)
    evidence = _without_repeats(draft.evidence)
    victims = Ranks(r for c in facts.wait_graph.calls.values() for r in c.inside) - draft.ranks
    if not victims and stalled is not None:
        victims = stalled.entered - draft.ranks
    victims = victims | (draft.victims - draft.ranks)
    lost = relevant_losses(facts, draft)
    confidence = _confidence(draft)
    return Finding(
        id=f"F{number}",
        cause=draft.cause,
        confidence=LOWER.get(confidence, confidence) if lost else confidence,
        headline=draft.headline,
        evidence=evidence,
        ranks=draft.ranks,
        suspects=draft.suspects - draft.ranks,
        victims=victims if draft.cause is not CauseClass.NONE else Ranks(),
        stalled=stalled,
        chain=_wait_chain(facts, draft) if draft.cause is not CauseClass.NONE else (),
        refuted_by=refutation(draft, lost),
    )


def _confidence(draft: Conclusion) -> Confidence:
    """High needs two independent observers and none that contradicts; one observer is medium at most."""
    who = observers(draft.evidence, draft.ranks)
    contradicted = any(not e.supports for e in draft.evidence)
    level = ORDER.index(draft.ceiling)
    several = len({e.observer for e in draft.evidence if e.supports and e.observer}) >= 2
    if draft.ceiling is Confidence.HIGH and (contradicted or (len(who) < 2 and not (not draft.ranks and several))):
        level = 1
    if contradicted and level < 2:
        level += 1
    return ORDER[level]


def _without_repeats(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """The first :data:`MOST_QUOTES` pieces of evidence, each place once."""
    seen: dict[object, Evidence] = {}
    for item in evidence:
        file = item.where is None or item.where.line is item.where.entry is None
        seen.setdefault((item.where, item.says if file else ""), item)
    return tuple(list(seen.values())[:MOST_QUOTES])


def _wait_chain(facts: Facts, draft: Conclusion) -> tuple[Link, ...]:
    """The links of the wait-for graph from the first victims to the culprit; the last 24 of them.

    A rank that issued calls in another order waits itself, for those who wait for it: it is a link and the end.
    """
    links: list[tuple[int, Link]] = []
    depth = _waits_to_culprit(facts, draft)
    apart = Ranks() if draft.cause is CauseClass.ORDER_INVERSION else draft.ranks
    for key, call in facts.wait_graph.calls.items():
        if key not in depth or not call.inside - apart:
            continue
        # members without a record are not waited for where the fault is inside the call
        absent = call.unknown if draft.cause.family is not Family.INSIDE else Ranks()
        target = (call.blockers & draft.ranks) or call.missing or call.queued or absent
        links.append(
            (
                depth[key],
                Link(
                    call.inside - apart,
                    target,
                    facts.case.groups[call.group].label,
                    op_of(facts, call),
                    call.seq,
                ),
            )
        )
    links.sort(key=lambda pair: (-pair[0], pair[1].seq or 0, str(pair[1].waiting)))
    return tuple(link for _, link in links[-24:])


def _waits_to_culprit(facts: Facts, draft: Conclusion) -> dict[tuple[str, int, int, int], int]:
    """The number of waits between each stuck call and the culprit."""
    calls = facts.wait_graph.calls
    depth = {
        k: 0 for k, c in calls.items() if c.blockers & draft.ranks or (draft.call is not None and k == draft.call.key)
    }
    frontier = list(depth)
    while frontier:
        reached = Ranks(r for k in frontier for r in calls[k].inside)
        level = depth[frontier[0]] + 1
        frontier = [k for k, c in calls.items() if k not in depth and c.blockers & reached]
        depth.update(dict.fromkeys(frontier, level))
    return depth
