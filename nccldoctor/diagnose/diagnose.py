"""Lists the stalls of a job that need an explanation, and has them explained."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from nccldoctor.align.facts import Facts
from nccldoctor.align.health.passed_calls import unpassed_stalls
from nccldoctor.align.health.proof import unfinished_starts
from nccldoctor.align.nccl_counter_evidence import counters_of, has_lagging_coll_lines
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.align.unrecorded_waits import has_hidden_transfers
from nccldoctor.diagnose.confidence import strongest_first
from nccldoctor.diagnose.decide import NO_CAUSE, Judgement, decide
from nccldoctor.diagnose.hypothesis import Conclusion, quote
from nccldoctor.diagnose.observations import ObservedJob
from nccldoctor.diagnose.phrases.say import doubt_of
from nccldoctor.diagnose.propose import Proposals, propose
from nccldoctor.diagnose.signs.silence import has_dumped_while_stalled
from nccldoctor.diagnose.signs.still_running import has_open_call
from nccldoctor.diagnose.signs.where_ranks_stand import BLOCKED, RARE
from nccldoctor.events import DumpNote, Note, Progress
from nccldoctor.identify.case import Case
from nccldoctor.identify.event_times import QUARTER
from nccldoctor.model import CauseClass, Confidence, Doubt, Family, Finding, SourceKind
from nccldoctor.model.ranks import Ranks

GOES_ON = doubt_of("job-may-run")


def diagnose(facts: Facts) -> Judgement:
    """The findings, the verdict first, with all that was proposed. There is always one finding."""
    job = ObservedJob(facts)
    proposals = [propose(job, stall) for stall in _stalls_to_judge(facts)]
    proposals += [propose(job, stall) for stall in _unrelated_crash(facts, proposals)]
    if facts.stalls and _has_no_complaint(facts):
        # less where every process stood at the same place in two looks
        looks = facts.looks
        still = len(looks.all) > 1 and all(looks.has_moved(process) is False for process in looks.newest)
        still = still and not _has_gone_on_between_dumps(facts)
        doubt = replace(GOES_ON, ranks=Confidence.MEDIUM, cause=Confidence.MEDIUM) if still else GOES_ON
        proposals = [replace(p, ranked=tuple(_with_doubt(facts, c, doubt) for c in p.ranked)) for p in proposals]
    if fold := facts.case.fold:
        doubt = doubt_of("folded", ranks=fold.ranks)
        kept = [[c for c in p.ranked if not c.ranks & fold.ranks] for p in proposals]
        told = [tuple(replace(c, doubts=strongest_first((*c.doubts, doubt))) for c in ranked) for ranked in kept]
        proposals = [replace(p, ranked=ranked or p.ranked) for p, ranked in zip(proposals, told, strict=True)]
    return decide(facts, proposals)


def with_settled(verdict: Finding, case: Case) -> Finding:
    """An open verdict with what the runs of ``nccldoctor settle`` showed; the newest one stands in its headline too."""
    notes = {note.detail: note for note in case.of(Note) if note.what == "settled"}
    if not notes or verdict.family is Family.NONE or verdict.confidence is Confidence.HIGH:
        return verdict
    table = tomllib.loads(Path(__file__).with_name("settled.toml").read_text(encoding="utf-8"))
    shown = [quote(e, table[what].format(host=e.host or "the suspected host")) for what, e in notes.items()]
    return replace(verdict, headline=f"{verdict.headline} {shown[-1].says}", evidence=(*verdict.evidence, *shown))


def _stalls_to_judge(facts: Facts) -> Sequence[Stall]:
    """The stalls to judge: those of the wait-for graph, else one crash, else nothing.

    While a job goes on, calls are in flight and hosts run ahead of each other. Where no log complains, a stall counts unless later lines
    show that it passed, and only if a dump holds its call as unfinished, or stacks confirm it.
    """
    stalls: Sequence[Stall] = facts.stalls
    # a step takes 3 s, and the newest look came 2 s after the last one: some rank is always the last
    is_gone = any(stance.posture.is_gone for stance in facts.looks.newest.values())
    if _has_no_complaint(facts) and facts.looks.is_quiet is False and not is_gone:
        stalls = ()
    elif _has_no_complaint(facts):
        stalls = [
            s
            for s in (facts.stalls if facts.looks.quiet_for > 0 else unpassed_stalls(facts))
            if _is_confirmed_by_stacks(facts, s) or (has_open_call(facts, s) and not counters_of(facts, s.call))
        ]
    if stalls:
        return stalls
    if facts.failures:
        return (Stall(StallKind.CRASH, Ranks(r for f in facts.failures for r in f.ranks)),)
    return (Stall(StallKind.NOTHING, Ranks()),)


def _unrelated_crash(facts: Facts, proposals: Sequence[Proposals]) -> list[Stall]:
    """A crash of a rank that waits in no known call, where the stalls themselves show no cause.

    Calls of ranks without a dump are not known: rank 7 was killed and left no dump, ranks 0-6 wait in a call of a group that is not known.
    """
    certain = (f for f in facts.failures if f.certain and f.ranks)
    sure = [f for f in certain if not any(facts.wait_graph.waits_in.get(r) for r in f.ranks)]
    best = [p.best for p in proposals]
    if not sure or any(c.cause not in NO_CAUSE or c.confidence is Confidence.HIGH for c in best):
        return []
    return [Stall(StallKind.CRASH, Ranks(r for f in sure for r in f.ranks))]


def _has_no_complaint(facts: Facts) -> bool:
    """True when logs were read and no rank in them complains, fails or gives up. Unfinished calls may then simply be in flight."""
    heard = bool(facts.liveness.logged) or any(facts.case.of(Progress))
    logged = any(s.kind is SourceKind.LOG for s in facts.case.sources) and heard
    logged = logged or any(head.rank is not None for head in facts.case.dumps)  # no watchdog wrote these calls
    has_ended_badly = any(e.exitcode for s in facts.liveness.by_rank.values() for e in s.exits)
    troubled = has_ended_badly or facts.liveness.first_alarm is not None or facts.failures
    if not logged or troubled or unfinished_starts(facts.case):
        return False
    return not has_dumped_while_stalled(facts) and not has_lagging_coll_lines(facts)


def _is_confirmed_by_stacks(facts: Facts, stall: Stall) -> bool:
    """True when one stack shows a rank waiting inside the call, and another a rank busy outside it.

    Example: rank 0 stands in ``all_reduce``, and rank 3, which the stall names, in ``load_batch``.
    """
    inside = stall.call.inside if stall.call is not None else Ranks()
    signs = facts.liveness.activity
    return any(signs(r).waiting_stack and not signs(r).has_finished for r in inside) and any(
        signs(r).busy_stack for r in stall.ranks if r not in inside
    )


def _has_gone_on_between_dumps(facts: Facts) -> bool:
    """True where another dump of a rank ends at another call: #6 in one page, #8 in the next."""
    case = facts.case
    named = {source.id: source.rank for source in case.sources}
    dumps = ((named.get(case.dumps[dump].source), rows) for dump, rows in case.calls.by_dump())
    ends = {(rank, int(case.calls.seq[rows].max())) for rank, rows in dumps if rank is not None}
    return len({rank for rank, _ in ends}) < len(ends) or any(gap.went_on for gap in case.gaps)


def _with_doubt(facts: Facts, conclusion: Conclusion, doubt: Doubt) -> Conclusion:
    """Adds the doubt that the job went on to a conclusion that no stack, or only one look, confirms."""
    is_seen = any((e.observer or "").startswith("stack:") for e in conclusion.evidence)
    if conclusion.cause in (CauseClass.NONE, CauseClass.STRAGGLER):
        return conclusion
    # a person asked for dumps, and looked at stacks once or the job moved between dumps
    asked = any(note.what == "on-request" for note in facts.case.of(DumpNote))
    once = len(facts.looks.all) < 2 and not facts.looks.is_quiet
    if is_seen and not (asked and (once or _has_gone_on_between_dumps(facts))):
        more = _doubt_of_length(facts, conclusion)
        # a stack between two calls shows a rank that is late to each at work before the next one
        are_late = bool(conclusion.ranks) and conclusion.ranks <= facts.lateness.late_ranks
        are_late = are_late and conclusion.cause is CauseClass.NOT_ARRIVED and len(facts.looks.all) < 2
        if more is None and not are_late:
            return conclusion
        doubt = more or doubt_of("late-as-ever")
    return replace(conclusion, doubts=strongest_first((*conclusion.doubts, doubt)))


def _doubt_of_length(facts: Facts, conclusion: Conclusion) -> Doubt | None:
    """One look shows no hang before the wait exceeds the job's pauses; for rare work, a third of its limit.

    NCCL's recorder dumps when a call times out, that of gloo and the like whenever it is asked. Example: a step takes 0.3 s. A look
    finds rank 0 in its evaluation and ranks 1-3 in a barrier, and no file says how long.
    """
    looks, call = facts.looks, conclusion.call
    named = [looks.newest[rank] for rank in conclusion.ranks if rank in looks.newest]
    is_known = len(looks.all) > 1 or all(s.posture.is_gone or s.shown in BLOCKED for s in named)
    if call is None or not named or is_known or not has_hidden_transfers(facts.case):
        return None
    since_call = (looks.last_at - facts.issued_at.get(call.key, math.nan)) % QUARTER
    lasted = since_call if math.isnan(looks.quiet_for) else looks.quiet_for
    limit = facts.case.calls.timeout_ms[call.row] / 3e3 if call.row >= 0 else math.inf
    if math.isnan(lasted):
        is_new = math.isnan(looks.pause)
        return replace(GOES_ON, ranks=Confidence.MEDIUM, cause=Confidence.MEDIUM) if is_new else GOES_ON
    is_long = lasted > limit or (looks.is_quiet and not any(s.words in RARE for s in named))
    return None if is_long else GOES_ON
