"""A few of the ranks in one call made it at another place of the program: they took another branch.

What it means: the calls meet under one number by accident. Seven ranks agree on the next batch, rank 5 is still in a layer of the model.
How we know: the stack that a watchdog prints of the call that failed, or that the recorder keeps of it, shows the place of each rank.
What would refute it: a program in which both places make one call on purpose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from nccldoctor.align.descriptions import op_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.stack_activity import as_any_tool_prints, split_frame, user_frames
from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Line
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.sides import each_side
from nccldoctor.diagnose.registry import rule
from nccldoctor.events import CallTimeout, DumpSignal, FailedStack, WorkStatus
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks

ONE_CALL = frozenset(
    {"barrier", "monitored_barrier", "broadcast", "broadcast_object_list", "scatter", "gather", "reduce"}
)
"""Functions whose callers may stand in two branches of a program on purpose: a root and the others, or the first rank and the rest."""

_Path = tuple[str, ...]


@rule(CauseClass.MISSED_CALL, refuted_by=say("refuted.one-call-of-two-places"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """Concludes that the few ranks which called from elsewhere are out of step with the others."""
    if stall.kind is not StallKind.FULL or stall.call is None:
        return None
    if stall.mismatch is not None or any(stall.job.differing_lines[aspect] for aspect in ("op", "size", "dtype")):
        return None
    stacks = _stacks_of(facts, stall.call)
    paths: dict[_Path, set[int]] = defaultdict(set)
    for rank, stack in stacks.items():
        paths[_own_path(stack.frames)].add(rank)
    is_on_purpose = any(split_frame(frame)[0] in ONE_CALL for stack in stacks.values() for frame in stack.frames)
    if len(paths) < 2 or () in paths or is_on_purpose or op_of(facts, stall.call) == "BROADCAST":
        return None
    sides = sorted(((Ranks(ranks), path) for path, ranks in paths.items()), key=lambda s: (len(s[0]), min(s[0])))
    most = sides[-1][0]
    odd = (
        Ranks(r for ranks, _ in sides[:-1] for r in ranks) if 2 * len(most) > len(stacks) and len(most) > 1 else Ranks()
    )
    places = dict(zip((path for _, path in sides), _parting_places([path for _, path in sides]), strict=True))
    made = each_side([(ranks, places[path]) for ranks, path in sides], "called from")
    is_whole = stall.call.entered <= stacks.keys() and len(odd) == 1 and len(most) > 2
    return Hypothesis(
        headline_of("disagree.call-sites", call=stall.what, sides=made),
        [*_cite_sides(stacks, sides, places)],
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
            told[event.place.source, event.rank] = _is_of_call(facts, call, event)
        elif isinstance(event, FailedStack) and told.get((event.place.source, event.rank), False):
            found[event.rank].append(event)
    return {rank: stacks[0] for rank, stacks in found.items() if len({_own_path(s.frames) for s in stacks}) == 1}


def _is_of_call(facts: Facts, call: StuckCall, event: CallTimeout | WorkStatus | DumpSignal) -> bool:
    """True of a line about this call. A dump signal is about the first unfinished call of the default group."""
    if isinstance(event, DumpSignal):
        number: int | None = (event.last_completed or 0) + 1
    else:
        number = event.failed if isinstance(event, WorkStatus) else event.seq
    return number == call.seq and group_of(facts.case, event) == call.group


def _own_path(frames: Iterable[str]) -> _Path:
    """The own frames of a call, innermost first, as any tool prints them."""
    return tuple(map(as_any_tool_prints, user_frames(tuple(frames))))


def _parting_places(paths: list[_Path]) -> list[str]:
    """Of each path the innermost frame that no other path has; its innermost one where all are shared."""
    return [
        next((f for f in path if sum(f in other for other in paths) == 1), path[0])
        for path in paths
    ]  # fmt: skip


def _cite_sides(
    stacks: Mapping[int, FailedStack], sides: list[tuple[Ranks, _Path]], places: Mapping[_Path, str]
) -> Iterable[Citation]:
    """The stack of the first rank or two of each side, the few first."""
    for ranks, path in sides[:3]:
        for rank in list(ranks)[:2]:
            yield Line(stacks[rank], say("disagree.called-at", rank=rank, frame=places[path]))
