"""A tool that times all ranks says which are slower than the others.

How we know: the straggler detection of NVRx or Megatron-LM, or DLRover's check of the nodes, compared ranks; nobody complains of a call.
Or NCCL's Inspector, or torch.profiler, timed the kernels of each GPU: who comes last to a call has the shortest one.
Example: NVRx finds the kernels of rank 5 slower than those of ranks 0-4, 6 and 7.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Hypothesis, Line
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.log_endings import has_clean_end
from nccldoctor.events import Note, SlowReport
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.nccl.inspector import KernelTime, kernel_time

FEWEST_BOARDS = 4
"""Boards that are compared, at least."""

MANY_TIMES = 3
"""How many times as long the kernels of peers take, at least: those of one call never take quite the same time."""

SHOWN = 3
"""Lines that are quoted."""


@rule(CauseClass.STRAGGLER, refuted_by=say("refuted.not-reported-again"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The ranks of the newest report, where nobody gave up or failed."""
    reports, timed = list(facts.case.of(SlowReport)), _short_kernels(facts)
    reports = reports if reports and reports[-1].slow else []
    if not (reports or timed) or has_clean_end(facts):
        return None
    if facts.liveness.first_alarm is not None or facts.failures or stall.kind is StallKind.CRASH:
        return None
    if not reports:
        return _comes_last(timed) if stall.kind is not StallKind.ABSENT else None
    newest = reports[-1]
    ranks = newest.slow if newest.of == "rank" else Ranks()
    if stall.kind is StallKind.ABSENT and not (ranks and stall.ranks <= ranks):
        return None
    named = who(facts.case, ranks) if ranks else say("slow.node-name", nodes=newest.slow)
    return Hypothesis(
        headline_of("slow.reported-slower", who=named, slow=newest.slow, by=newest.by),
        [Line(newest, say("slow.compared-all", by=newest.by))],
        (doubt_of("one-tool"),),
        ranks=ranks & facts.case.world if facts.case.world else ranks,
    )


def _short_kernels(facts: Facts) -> list[KernelTime]:
    """The kernels of the boards that come last: in most calls those of their peers take far longer."""
    calls: dict[str, dict[str, KernelTime]] = defaultdict(dict)
    for note in facts.case.of(Note):
        if (timed := kernel_time(note)) is not None:
            calls[timed.calls][timed.board] = timed
    boards = {board for by_board in calls.values() for board in by_board}
    compared = [list(one.values()) for one in calls.values() if len(one) == len(boards) >= FEWEST_BOARDS]
    limits = [median(timed.micros for timed in one) / MANY_TIMES for one in compared]
    short = [timed for one, limit in zip(compared, limits, strict=True) for timed in one if timed.micros <= limit]
    times = Counter(timed.board for timed in short)
    return [t for t in short if 2 * times[t.board] > len(compared)] if 2 * len(times) < len(boards) else []


def _comes_last(kernels: Sequence[KernelTime]) -> Hypothesis:
    """The boards whose kernels are short; metrics name no rank, a trace of torch.profiler does."""
    boards = sorted({timed.board for timed in kernels})
    return Hypothesis(
        headline_of("slow.short-kernels", boards=boards, calls=kernels[0].calls, micros=round(kernels[0].micros)),
        [Line(timed.note, say("slow.short-kernel", board=timed.board)) for timed in kernels[:SHOWN]],
        (doubt_of("only-kernel-times"),),
        ranks=Ranks(timed.note.rank for timed in kernels if timed.note.rank is not None),
    )
