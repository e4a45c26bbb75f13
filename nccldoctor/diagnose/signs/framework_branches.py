"""Reports of a coordinator in which some ranks wait in one call and the others in another one.

Horovod writes ``loss [ready ranks: 3], conv1 [ready ranks: 0, 1, 2]``: rank 3 took a different branch from ranks 0-2, and each side waits
for the other one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.citations import Line
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.phrases.say import headline_of, say
from nccldoctor.events import Absence
from nccldoctor.model import Confidence, Doubt
from nccldoctor.model.ranks import Ranks


def judge(facts: Facts, open_reports: Iterable[Absence]) -> Hypothesis | None:
    """Two calls that share no rank; the smaller side differs where it is a third of the job at most."""
    world = facts.case.world
    sides = _calls_apart(facts, [e for e in open_reports if e.what == "collective"])
    if sides is None or facts.progress.recorded_ranks:
        return None
    few, most = sides
    odd, rest = few[0], most[0]
    is_minority = 3 * len(odd) <= len(world) and world == odd | rest
    doubts = [Doubt.at_most(Confidence.MEDIUM, say("reports.only-this-report", by=few[1].by))]
    if facts.case.world_size is None:
        doubts.append(Doubt.at_most(Confidence.LOW, say("reports.no-world-size")))
    if not is_minority:
        doubts.append(Doubt.at_most(Confidence.LOW, say("reports.no-majority")))
    return Hypothesis(
        headline_of("reports.branches-apart", odd=odd, odd_call=few[1].call, rest=rest, rest_call=most[1].call),
        [Line(e, say("reports.submitted", ranks=ranks)) for ranks, e in sides],
        doubts,
        ranks=odd if is_minority else Ranks(),
        suspects=Ranks() if is_minority else world,
        victims=rest if is_minority else Ranks(),
        refuted_by=say("refuted.one-line-of-code"),
    )


def _calls_apart(facts: Facts, reports: Iterable[Absence]) -> list[tuple[Ranks, Absence]] | None:
    """Two calls that no rank has both submitted, the one of fewer ranks first, with a report of each.

    Who submitted a call follows from the ranks that miss it only where the size of the job is known.
    """
    of_call: dict[str, list[Absence]] = defaultdict(list)
    for event in reports:
        of_call[event.call or ""].append(event)
    came: dict[Ranks, Absence] = {}
    for events in of_call.values():
        missing = Ranks(r for e in events for r in e.missing)
        reached = Ranks(r for e in events for r in e.reached)
        if not reached and missing and facts.case.world_size is not None:
            reached = facts.case.world - missing
        if reached:
            came.setdefault(reached, events[0])
    if not came:
        return None
    most = max(came, key=lambda ranks: (len(ranks), -min(ranks)))
    apart = [ranks for ranks in came if not ranks & most]
    few = min(apart, key=lambda ranks: (len(ranks), min(ranks)), default=None)
    return [(few, came[few]), (most, came[most])] if few else None
