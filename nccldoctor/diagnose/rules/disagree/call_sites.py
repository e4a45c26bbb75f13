"""A few of the ranks in one call made it at another place of the program: they took another branch.

What it means: the calls meet under one number by accident. Seven ranks agree on the next batch, rank 5 is still in a layer of the model.
How we know: the stack that a watchdog prints of the call that failed, or that the recorder keeps of it, shows the place of each rank.
"""

from __future__ import annotations

from collections import defaultdict

from nccldoctor.align.descriptions import op_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.progress.unnamed_lines import line_key
from nccldoctor.align.stack_activity import split_frame
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Hypothesis, Line
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.sides import each_side
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.traceback_diffs import own_frames, parting_places
from nccldoctor.events import CallTimeout, DumpSignal, FailedStack, WorkStatus
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks, ranks_by

ONE_CALL = frozenset(
    {"barrier", "monitored_barrier", "broadcast", "broadcast_object_list", "scatter", "gather", "reduce"}
)
"""Functions whose callers may stand in two branches of a program on purpose: a root and the others, or the first rank and the rest."""


@rule(CauseClass.MISSED_CALL, refuted_by=say("refuted.one-call-of-two-places"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that the few ranks which called from elsewhere are out of step with the others."""
    if stall.kind is not StallKind.FULL or stall.call is None:
        return None
    if stall.mismatch is not None or any(stall.job.differing_lines(aspect) for aspect in ("op", "size", "dtype")):
        return None
    stacks = _stacks_of(facts, stall.call)
    paths = ranks_by((own_frames(stack.frames), rank) for rank, stack in stacks.items())
    is_on_purpose = any(split_frame(frame)[0] in ONE_CALL for stack in stacks.values() for frame in stack.frames)
    if len(paths) < 2 or () in paths or is_on_purpose or op_of(facts, stall.call) == "BROADCAST":
        return None
    sides = sorted(((ranks, path) for path, ranks in paths.items()), key=lambda s: (len(s[0]), min(s[0])))
    most = sides[-1][0]
    odd = (
        Ranks(r for ranks, _ in sides[:-1] for r in ranks) if 2 * len(most) > len(stacks) and len(most) > 1 else Ranks()
    )
    places = dict(zip((path for _, path in sides), parting_places([path for _, path in sides]), strict=True))
    made = each_side([(ranks, places[path]) for ranks, path in sides], "called from")
    is_whole = stall.call.entered <= stacks.keys() and len(odd) == 1 and len(most) > 2
    return Hypothesis(
        headline_of("disagree.call-sites", call=stall.what, sides=made),
        [
            Line(stacks[rank], say("disagree.called-at", rank=rank, frame=places[path]))
            for ranks, path in sides[:3]
            for rank in list(ranks)[:2]
        ],
        (doubt_of("places-on-purpose", whole=is_whole),),
        ranks=odd,
        suspects=Ranks() if odd else stall.call.entered,
        call=stall.call,
    )


def _stacks_of(facts: Facts, call: StuckCall) -> dict[int, FailedStack]:
    """The stack of this call on each rank in it: that below the watchdog's line about the call.

    A watchdog prints one for each group in which its rank waits. Ranks of which the stacks differ are left out.
    """
    found: dict[int, list[FailedStack]] = defaultdict(list)
    told: dict[tuple[int, int], bool] = {}
    for event in facts.case.events.of_kind(CallTimeout, WorkStatus, DumpSignal, FailedStack):
        if event.rank is None or event.rank not in call.entered:
            continue
        if isinstance(event, CallTimeout | WorkStatus | DumpSignal):
            # a dump signal is about the first unfinished call of the default group
            key = line_key(event)
            number = (event.last_completed or 0) + 1 if isinstance(event, DumpSignal) else key and key[1]
            told[event.place.source, event.rank] = number == call.seq and group_of(facts.case, event) == call.group
        elif isinstance(event, FailedStack) and told.get((event.place.source, event.rank), False):
            found[event.rank].append(event)
    return {rank: stacks[0] for rank, stacks in found.items() if len({own_frames(s.frames) for s in stacks}) == 1}
