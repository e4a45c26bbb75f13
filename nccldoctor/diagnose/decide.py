"""Decides: which hypotheses together explain the job, which of them is the verdict, and how sure it is.

The best hypothesis of each stall is kept; what another one explains falls. Independent stalls of one class make one verdict with
all their culprits.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.descriptions import describe, op_of, stalled_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.attempts import Broken
from nccldoctor.diagnose.confidence import strongest_first
from nccldoctor.diagnose.hypothesis import MOST_QUOTES, Conclusion
from nccldoctor.diagnose.phrases.headline import joined, several, together
from nccldoctor.diagnose.phrases.say import doubt_of
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.propose import Proposals
from nccldoctor.diagnose.why import observe, reasons, runner_up
from nccldoctor.model import (
    CauseClass,
    Confidence,
    ConfidenceIn,
    Evidence,
    Family,
    Finding,
    Link,
    Proposal,
    Stalled,
)
from nccldoctor.model.inputs import NOT_NAMED
from nccldoctor.model.ranks import Ranks

NO_CAUSE = frozenset({CauseClass.UNDETERMINED, CauseClass.NONE, CauseClass.UNFINISHED})
"""Classes that name no cause; they step back behind one that does."""


class Judgement(Struct, frozen=True):
    """The findings, the verdict first, every hypothesis that was weighed for them, and the rules that failed."""

    findings: tuple[Finding, ...]
    proposals: tuple[Proposal, ...]
    broken: tuple[Broken, ...] = ()


def decide(facts: Facts, proposals: Sequence[Proposals]) -> Judgement:
    """The findings that together explain the stalls, and the fate of each proposal."""
    proposals = _with_open_stalls(proposals)
    best = [p.best for p in proposals]
    kept = _without_explained(best)
    verdict = _join_culprits(facts, kept)
    ordered = [verdict, *(c for c in kept if c is not verdict)] if len(kept) > 1 else [verdict]
    # the hypotheses that lost to the verdict over the same stall, or to one of the stalls that it joins
    own = [
        p for p in proposals if p.best is verdict or (p.best.cause is verdict.cause and p.best.ranks <= verdict.ranks)
    ]
    rivals = [c for p in own for c in p.others if (c.cause, c.ranks) != (verdict.cause, verdict.ranks)]
    findings = tuple(_finding(facts, c, i, rivals if c is verdict else ()) for i, c in enumerate(ordered, 1))
    broken = dict.fromkeys(each for p in proposals for each in p.broken)
    return Judgement(findings, tuple(_fates(facts, proposals, ordered)), tuple(broken))


def _with_open_stalls(proposals: Sequence[Proposals]) -> list[Proposals]:
    """The proposals, each with a doubt where another stall stays open and may add a culprit.

    Example: the GPU of rank 14 stopped, and of rank 9, which others wait for, there is no record.
    """
    kept = _without_explained([p.best for p in proposals])
    # the one absent from another stall is not known, and may be at fault as well
    kept += [p.best for p in proposals if p.stall.kind is StallKind.ABSENT and p.best not in kept]
    unsure = [c for c in kept if c.confidence_in.ranks not in (Confidence.HIGH, Confidence.MEDIUM)]
    found = []
    for proposal in proposals:
        best, *others = proposal.ranked
        more = Ranks(r for c in unsure if c is not best for r in c.ranks | c.suspects) - best.ranks
        if more:
            doubt = doubt_of("others-may-be-at-fault", ranks=more)
            best = replace(best, doubts=strongest_first((*best.doubts, doubt)))
        found.append(replace(proposal, ranked=(best, *others)))
    return found


def _fates(facts: Facts, proposals: Sequence[Proposals], findings: Sequence[Conclusion]) -> list[Proposal]:
    ranked = [(n, c, _fate(c, stall, findings)) for n, stall in enumerate(proposals, 1) for c in stall.ranked]
    if all(conclusion is not findings[0] for _, conclusion, _ in ranked):
        joined = next((n for n, c, _ in ranked if c.cause is findings[0].cause and c.ranks <= findings[0].ranks), 1)
        ranked.insert(0, (joined, findings[0], "verdict"))
    calls, levels = [describe(facts, c.call) for _, c, _ in ranked], [c.confidence_in for _, c, _ in ranked]
    return [
        Proposal(n, c.cause, c.ranks, c.suspects, call, level, c.headline.said(level), fate)
        for (n, c, fate), call, level in zip(ranked, calls, levels, strict=True)
    ]


def _fate(conclusion: Conclusion, stall: Proposals, findings: Sequence[Conclusion]) -> str:
    """Verdict, finding, or why it fell."""
    for number, finding in enumerate(findings, 1):
        if finding is conclusion:
            return "verdict" if number == 1 else f"finding F{number}"
    if conclusion is not stall.best:
        return f"{stall.best.cause} explains the same stall and comes first"
    verdict = findings[0]
    if conclusion.cause is verdict.cause and conclusion.ranks <= verdict.ranks:
        return "joined to the verdict"
    return f"the finding {verdict.cause} explains it"


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
    order = list(CauseClass)
    best = min(drafts, key=lambda d: (not d.ranks, d.confidence.depth, order.index(d.cause), min(d.ranks, default=0)))
    alike = [d for d in drafts if d.cause is best.cause and d.ranks and d.call is not None]
    if len(alike) < 2:
        return best
    culprits = Ranks(r for d in alike for r in d.ranks)
    if 2 * len(culprits) > (size := len(facts.case.world)):
        most = doubt_of("too-many-culprits", culprits=len(culprits), world=size)
        return replace(best, ranks=Ranks(), suspects=culprits, doubts=strongest_first((*best.doubts, most)))
    first = min(alike, key=lambda d: min(d.ranks))
    evidence = tuple(e for d in alike for e in d.evidence[: max(2, MOST_QUOTES // len(alike))])
    headlines, calls = [d.headline for d in alike], {d.call.key for d in alike if d.call is not None}
    joint = joined(headlines, who(facts.case, culprits)) or together(headlines)
    return Conclusion(
        headline=several(headlines) if len(calls) == len(alike) else joint,  # of several stalls, or of one call
        citations=(),
        doubts=strongest_first(tuple({doubt.says: doubt for d in alike for doubt in d.doubts}.values())),
        ranks=culprits,
        suspects=Ranks(r for d in alike for r in d.suspects),
        call=first.call,
        stalled=first.stalled,
        refuted_by=best.refuted_by,
        cause=best.cause,
        evidence=evidence,
    )


def _finding(facts: Facts, draft: Conclusion, number: int, rivals: Sequence[Conclusion]) -> Finding:
    stalled = draft.stalled if draft.stalled is not None else stalled_of(facts, draft.call)
    stalled = _with_absentees(stalled, draft)
    seen: dict[object, Evidence] = {}
    for item in draft.evidence:
        file = item.where is None or item.where.line is item.where.entry is None
        seen.setdefault((item.where, item.says if file else ""), item)
    evidence = tuple(list(seen.values())[:MOST_QUOTES])
    victims = Ranks(r for c in facts.wait_graph.calls.values() for r in c.inside) - draft.ranks
    if not victims and stalled is not None:
        victims = stalled.entered - draft.ranks
    if not victims and stalled is None and draft.ranks and not draft.victims:
        victims = facts.ledger.waiting - draft.ranks - draft.suspects
    victims = victims | (draft.victims - draft.ranks)
    return Finding(
        id=f"F{number}",
        cause=draft.cause,
        confidence_in=draft.confidence_in,
        headline=draft.headline.said(draft.confidence_in),
        if_unsure=draft.headline.unsure,
        if_class_unsure=draft.headline.said(ConfidenceIn(Confidence.HIGH, Confidence.MEDIUM)),
        evidence=evidence,
        ranks=draft.ranks,
        suspects=draft.suspects - draft.ranks,
        victims=victims if draft.cause is not CauseClass.NONE else Ranks(),
        stalled=stalled,
        chain=_wait_chain(facts, draft) if draft.cause is not CauseClass.NONE else (),
        refuted_by=draft.refuted_by,
        why=reasons(observe(facts, draft.call, draft.ranks or draft.suspects), draft.cause, evidence),
        doubts=draft.doubts,
        runner_up=runner_up(facts, draft, rivals),
    )


def _with_absentees(stalled: Stalled | None, draft: Conclusion) -> Stalled | None:
    """The call with those named as absent among its missing; where they are but a guess they stay unseen."""
    if stalled is None or draft.cause.family not in (Family.ABSENT, Family.SLOW):
        return stalled
    if draft.confidence_in.ranks not in (Confidence.HIGH, Confidence.MEDIUM) or stalled.group == NOT_NAMED:
        return stalled
    absent = stalled.unseen & draft.ranks
    return replace(stalled, missing=stalled.missing | absent, unseen=stalled.unseen - absent)


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
        group = facts.case.groups[call.group].label
        links.append((depth[key], Link(call.inside - apart, target, group, op_of(facts, call), call.seq)))
    links.sort(key=lambda pair: (-pair[0], pair[1].seq or 0, str(pair[1].waiting)))
    return tuple(link for _, link in links[-24:]) or _seen_wait(draft)


def _seen_wait(draft: Conclusion) -> tuple[Link, ...]:
    """The one link of a call that no dump and no numbered line shows, as stacks do."""
    call = draft.stalled
    waiting = call.entered - draft.ranks if call is not None else Ranks()
    if call is None or not waiting or not draft.ranks or draft.call is not None:
        return ()
    return (Link(waiting, draft.ranks, call.group or "", call.op, call.seq),)


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
