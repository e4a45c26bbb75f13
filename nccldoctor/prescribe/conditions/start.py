"""Questions about the start of a job: which attempt it is, and how far apart its ranks began."""

from __future__ import annotations

import math
from operator import itemgetter

from nccldoctor.events import Event
from nccldoctor.model import CauseClass
from nccldoctor.prescribe.conditions.base import Context, predicate
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet, quoted


@predicate(weight=0.6)
def restarted(context: Context, *, least: int = 1) -> Answer:
    """The input shows this many earlier attempts of the job; one, where it gives no number.

    An attempt of which no failure is known is none that they could have disturbed.
    """
    asked = "this run is a restart"
    if context.finding.cause is CauseClass.UNDETERMINED:
        return Unmet(asked, "no sign that this attempt failed to start")
    case = context.survey.case
    again = max((s.attempt for s in case.sources if s.attempt is not None), default=0)
    if again >= least:
        return Met(asked, f"the input holds files of attempt {again}")
    earlier = next((gap for gap in case.gaps if gap.is_of_other_run), None)
    if earlier is not None and least <= 1:
        return Met(asked, f"{earlier.what}: {earlier.why}")
    return Unmet(asked, "no sign of an earlier attempt")


@predicate(weight=0.6)
def started_apart(context: Context, *, seconds: int) -> Answer:
    """The first signs of life of two ranks, or of two files of unknown rank, are this far apart.

    A timeout line is none: it may be the first that a rank prints at all.
    """
    asked = f"ranks started {seconds} s or more apart"
    first = _first_signs(context)
    if len(first) < 2:
        return NotCheckable(asked, "first lines of two ranks with times")
    (soon, early), (late, last) = min(first, key=itemgetter(0)), max(first, key=itemgetter(0))
    says = f"{quoted(early)} is {late - soon:,.0f} s earlier than {quoted(last)}"
    if late - soon >= seconds:
        return Met(asked, says, str(last.place))
    return Unmet(asked, f"the ranks started {late - soon:,.0f} s apart")


def _first_signs(context: Context) -> list[tuple[float, Event]]:
    """The first line with a time of each rank, else of each file, that is neither trouble nor its end."""
    case = context.survey.case
    first: dict[tuple[int, int], tuple[float, Event]] = {}
    for event, second in zip(case.events, case.seconds.tolist(), strict=True):
        if math.isnan(second) or not event.is_sign_of_life or event.is_trouble:
            continue
        writer = (event.rank, -1) if event.rank is not None else (-1, event.place.source)
        if writer not in first or second < first[writer][0]:
            first[writer] = (second, event)
    return list(first.values())
