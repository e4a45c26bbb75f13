"""The pictures that a page leaves out, each with what it lacks, in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nccldoctor.attempts import Broken
from nccldoctor.model import CauseClass, Diagnosis, Family
from nccldoctor.model.steps import JobState

_MISMATCHES = (CauseClass.OP_MISMATCH, CauseClass.SIZE_MISMATCH, CauseClass.DTYPE_MISMATCH)
_LATE = (CauseClass.NOT_ARRIVED, CauseClass.STRAGGLER)


def not_drawn(diagnosis: Diagnosis, drawn: frozenset[str], broken: Sequence[Broken] = ()) -> str:
    """``Not available: the stall to scale (no time after it began).``; "" where nothing is missing.

    ``drawn`` names what the page shows: *first*, *stall*, *last lines*, *strip*, *late*. Pictures that are ``broken`` are told too.
    """
    failed = [f"{part.what} (failed: {part.why})" for part in broken]
    is_open = diagnosis.verdict.family in (Family.NONE, Family.UNDETERMINED)
    missing = failed or ([] if is_open else [text for name, text in _wanted(diagnosis) if name not in drawn])
    return f"Not available: {', '.join(missing)}." if missing else ""


def _wanted(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """The pictures that would suit the verdict, each with why it may be missing."""
    cause = diagnosis.verdict.cause
    yield "first", "who waits for whom (no record of the waits)"
    yield "stall", "the stall to scale (no time after it began)"
    yield "last lines", "last lines (no log of a rank involved)"
    if cause in _MISMATCHES:
        yield "strip", "calls around the mismatch (no flight recorder)"
    if cause in _LATE:
        why = "no rank stands out" if diagnosis.run_up is not None else "no flight recorder"
        yield "late", f"lateness ({why})"
    if diagnosis.job_end.state is JobState.RUNNING and diagnosis.snapshots is None:
        yield "snapshots", "stacks over time (no rank at fault in two snapshots)"
