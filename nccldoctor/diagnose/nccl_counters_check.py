"""Checks a conclusion against NCCL's own observers: they confirm it, contradict it, or add ranks to look at.

RAS, COLL lines and dumps of communicators count calls; the proxy's dumps name the peer that a transfer waits for, the Inspector which
call finished last. Counts that differ once are no proof of a stall, and neither of the last two names a cause: a ring waits for its
neighbour, and a process that was killed did not write its last records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from msgspec.structs import replace

from nccldoctor.align.descriptions import describe
from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import (
    can_wait_elsewhere,
    counter_evidence,
    counters_of,
    has_time,
    is_of_stall,
    no_ras_answer,
    steady_queries,
)
from nccldoctor.diagnose.hypothesis import Conclusion, quote
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.signs.log_endings import has_clean_end
from nccldoctor.diagnose.signs.nccl_counter_diffs import COUNTS_ALONE
from nccldoctor.events import CollCall, InspectorRecord, ProxyDump, RasStatus
from nccldoctor.identify.nccl_counters import NcclCounters
from nccldoctor.model import CauseClass, Confidence, Evidence
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.times import duration, instant

ABSENT = frozenset(
    {CauseClass.NOT_ARRIVED, CauseClass.FROZEN, CauseClass.DIED, CauseClass.RAISED, CauseClass.MISSED_CALL}
)
"""Classes whose culprits did not issue the call."""

BROKEN = frozenset({CauseClass.DIED, CauseClass.RAISED, CauseClass.NETWORK, CauseClass.HARDWARE, CauseClass.INIT})
"""Classes that rest on a failure, whatever counted the calls."""

OPEN = frozenset({CauseClass.UNDETERMINED, CauseClass.UNFINISHED})
"""Classes that name nobody: there every lead counts."""


def check_counters(facts: Facts, draft: Conclusion) -> Conclusion:
    """Returns the conclusion after NCCL's own observers supported, limited or contradicted it."""
    one = counters_of(facts, draft.call)
    checked = _limited_by_counters(facts, draft, one) if one is not None else _compare_counters(facts, draft)
    found = [*_by_ras(facts), *_by_proxy_dumps(facts), *_by_inspector_records(facts)]
    if checked.cause in OPEN and not checked.ranks:
        named = Ranks(r for ranks, _ in found for r in ranks)
        if not named or 2 * len(named) > len(facts.case.world):
            return checked
        return replace(checked, suspects=checked.suspects | named, evidence=(*checked.evidence, *(e for _, e in found)))
    fitting = [e for ranks, e in found if ranks and ranks <= checked.ranks]
    return replace(checked, evidence=(*checked.evidence[:9], *fitting[:3])) if fitting else checked


def _limited_by_counters(facts: Facts, draft: Conclusion, one: NcclCounters) -> Conclusion:
    """Returns the conclusion with at most medium confidence, because it rests on call counts alone.

    Medium needs two queries, or a complaint, that show that the job stands still; else it is low. Where as many ranks
    are behind as ahead, nobody can say which of them are out of step.
    """
    if draft.cause in BROKEN:
        return draft
    doubt = COUNTS_ALONE if _is_at_rest(facts, one) else doubt_of("one-query")
    steady, refuted_by = _steady_queries(facts, one)
    bounded = replace(draft, evidence=(*draft.evidence, *steady), doubts=(*draft.doubts, doubt), refuted_by=refuted_by)
    if draft.cause not in ABSENT or not draft.ranks:
        return bounded
    most = [o for o in facts.case.nccl_counters if 2 * len(o.lagging) > len(o.last) and draft.ranks <= o.lagging]
    if most or _is_half_ahead(facts, draft, one):
        return _name_nobody(facts, bounded, most[0] if most else one)
    few = Ranks(r for o in facts.case.nccl_counters if 2 * len(o.lagging) < len(o.last) for r in o.lagging)
    if draft.ranks & one.lagging - few:
        return _name_nobody(facts, bounded, one)
    if draft.cause is not CauseClass.MISSED_CALL and any(can_wait_elsewhere(facts, one, r) for r in draft.ranks):
        elsewhere = doubt_of("may-wait-elsewhere")
        suspects = draft.ranks | draft.suspects
        return replace(bounded, ranks=Ranks(), suspects=suspects, doubts=(*bounded.doubts, elsewhere))
    return bounded


def _steady_queries(facts: Facts, one: NcclCounters) -> tuple[list[Evidence], str]:
    """The newest of several queries with the same counts, and what would refute the verdict."""
    found = steady_queries(facts, one)
    if found is None or found[0].time is None:
        return [], say("refuted.caught-up")
    newest, apart = found
    unchanged = quote(newest, say("counters.counts-unchanged", apart=duration(apart * 1e3)))
    return [unchanged], say("refuted.caught-up-after", moment=instant(found[0].time))


def _is_half_ahead(facts: Facts, draft: Conclusion, one: NcclCounters) -> bool:
    """True when half of a communicator has the usual count, and the other half is ahead of it.

    The usual count is that of other communicators of this size. Example: other pairs counted 40 calls; of this pair one
    rank counted 40 and one 41: the one with 41 is out of step.
    """
    alike = [o for o in facts.case.nccl_counters if o.observer == one.observer and len(o.members) == len(one.members)]
    usual = Counter(n for o in alike if not o.members & one.members for n in o.totals.values()).most_common(1)
    late = [one.totals[r] for r in draft.ranks if r in one.totals]
    is_half = 2 * len(one.lagging) == len(one.last) and bool(late)
    return is_half and any(min(late) >= often and max(one.totals.values()) > often for often, _ in usual)


def _is_at_rest(facts: Facts, one: NcclCounters) -> bool:
    """True when a second query, or a complaint, shows that the job stands still."""
    return one.is_steady or facts.liveness.first_alarm is not None


def _name_nobody(facts: Facts, draft: Conclusion, one: NcclCounters) -> Conclusion:
    """Names nobody where not fewer ranks are behind than ahead.

    Those ahead issued a call that nobody else did, or skipped one, or the others are late. The ranks of a running job are
    a call apart too: a few ahead are suspects only where the job stands still.
    """
    ahead, behind, size = Ranks(one.last) - one.lagging, one.lagging, len(one.last)
    is_even = len(ahead) == len(behind)
    suspects = ahead if _is_at_rest(facts, one) else Ranks()
    call = f"{one.op or 'call'} #{max(one.last.values())} of communicator {one.comm}"
    return replace(
        draft,
        cause=CauseClass.UNDETERMINED,
        headline=headline_of("counters.some-ahead", ahead=ahead, size=size, call=call, behind=len(behind)),
        doubts=(doubt_of("some-ahead", even=is_even, behind=len(behind), size=size),),
        ranks=Ranks(),
        suspects=Ranks(one.last) if is_even else suspects,
    )


def _compare_counters(facts: Facts, draft: Conclusion) -> Conclusion:
    """Compares a conclusion from PyTorch's own numbers with the counts of NCCL's observers."""
    if draft.cause is CauseClass.NONE and any(facts.case.of(CollCall)) and not has_clean_end(facts):
        stops = doubt_of("lines-stop-anyway")
        return replace(draft, doubts=(*draft.doubts, stops))
    late, shown = lagging_ranks(facts)
    if not late or draft.cause is CauseClass.NONE:
        return draft
    is_open = draft.cause in OPEN or (draft.cause is CauseClass.FROZEN and not draft.ranks)
    if is_open and draft.call is not None and late <= draft.call.unknown and draft.call.inside:
        # these counts single some out of several members that left no record of the call
        named, call, fewer = who(facts.case, late), describe(facts, draft.call), "NCCL counts fewer calls there"
        return replace(
            draft,
            cause=CauseClass.NOT_ARRIVED,
            headline=headline_of("absent.never-reached", who=named, call=call, doing=fewer),
            evidence=(*shown, *draft.evidence),
            doubts=(COUNTS_ALONE,),
            refuted_by=say("refuted.caught-up"),
            ranks=late,
            suspects=Ranks(),
            stalled=None,
        )
    # only counts that were certainly taken during the stall contradict
    is_dated = any(one.is_steady or has_time(facts, one) for one in facts.case.nccl_counters)
    against = tuple(replace(e, supports=not is_dated) for e in shown)
    if draft.cause in OPEN:
        inside = draft.call is not None and bool(late & draft.call.entered)
        return replace(
            draft, suspects=draft.suspects | late, evidence=(*draft.evidence[:8], *(against if inside else shown))
        )
    if draft.cause not in ABSENT or not draft.ranks:
        return draft
    if late == draft.ranks:
        is_medium = draft.cause is CauseClass.NOT_ARRIVED and draft.confidence is Confidence.MEDIUM
        settled = is_medium and not draft.suspects  # an observer of its own agrees: the doubts of one kind are gone
        return replace(draft, evidence=(*shown, *draft.evidence), doubts=() if settled else draft.doubts)
    if late & draft.ranks or not is_dated:
        return draft
    return replace(draft, evidence=(*draft.evidence[:8], *against))


def lagging_ranks(facts: Facts) -> tuple[Ranks, tuple[Evidence, ...]]:
    """Ranks behind in some communicator that are ahead of nobody in another, and the lines that count them."""
    found = [one for one in facts.case.nccl_counters if is_of_stall(facts, one) and not one.is_moving]
    few = [one for one in found if 2 * len(one.lagging) < len(one.last)]
    ahead = Ranks(r for one in found if one.lagging for r in one.last if r not in one.lagging)
    late = Ranks(r for one in few for r in one.lagging) - ahead
    shown = []
    for one in few:
        most, op = max(one.last.values()), one.op or "calls"
        for rank in late & one.lagging & one.lines:
            says = say("counters.had-launched", rank=rank, count=one.last[rank], op=op, most=most)
            shown.append(counter_evidence(one.lines[rank], one, says))
    return late, tuple(shown[:3])


# --- leads -------------------------------------------------------------------------------------------------------


def _by_ras(facts: Facts) -> Iterator[tuple[Ranks, Evidence]]:
    """Ranks from which RAS had no answer while the others waited, and those under which NCCL failed by its report.

    A rank that only lost its peer is a victim.
    """
    lost = Ranks(r for one in facts.case.nccl_counters if is_of_stall(facts, one) for r in one.silent)
    for rank in lost if 2 * len(lost) < len(facts.case.world) else ():
        yield Ranks([rank]), no_ras_answer(facts, rank)[0]
    own = {e.rank: e for e in facts.case.of(RasStatus) if e.what == "ERROR" and e.rank is not None}
    for failed, event in own.items():
        if failed is not None and "Remote process error" not in event.detail:
            error = event.detail.rpartition("reports ")[2].rstrip(".")
            yield Ranks([failed]), quote(event, say("counters.ras-error", rank=failed, error=error))


def _by_proxy_dumps(facts: Facts) -> Iterator[tuple[Ranks, Evidence]]:
    """Ranks whose device does not run, and peers that ranks wait for and that wait for nobody themselves.

    Peers are numbered inside a communicator: they are ranks of the job only where the job has no smaller group.
    """
    dumps = {e.rank: e for e in facts.case.of(ProxyDump) if e.rank is not None}
    if not dumps:
        return
    still = [r for r, e in dumps.items() if e.what == "waits-for-gpu"]
    for rank in still if len(still) < max(2, len(dumps)) else ():
        says = say("counters.transfers-wait-for-gpu", rank=rank)
        yield Ranks([rank]), quote(dumps[rank], says, observer=f"proxy:{rank}")
    if any(g.members < facts.case.world for g in facts.case.groups):
        return
    waiting = {rank for rank, event in dumps.items() if event.what in ("waits-for-peer", "mixed")}
    for rank, event in dumps.items():
        ends = Ranks(p for p in event.peers if p in facts.case.world and p != rank and p not in waiting)
        if event.what == "waits-for-peer" and ends:
            says = say("counters.transfers-wait-for", rank=rank, peers=ends)
            yield ends, quote(event, says, observer=f"proxy:{rank}")


def _by_inspector_records(facts: Facts) -> Iterator[tuple[Ranks, Evidence]]:
    """Ranks whose last finished collective lies before that of all others, who agree."""
    records: dict[str, dict[int, InspectorRecord]] = defaultdict(dict)
    for event in facts.case.of(InspectorRecord):
        if event.calls == "coll" and event.comm_id and event.rank is not None and event.op_count is not None:
            records[event.comm_id][event.rank] = event
    for by_rank in records.values():
        most = max(e.op_count or 0 for e in by_rank.values())
        late = Ranks(r for r, e in by_rank.items() if (e.op_count or 0) < most)
        if late and 3 * len(late) <= len(by_rank):
            first = by_rank[min(late)]
            says = say("counters.last-record", ranks=late, number=first.op_count, most=most)
            yield late, quote(first, says, observer="inspector")
