"""Knows with which kinds of evidence enough labelled jobs were judged to promise how often *high* is right.

A promise of 98 % takes 150 jobs. With fewer, *medium* is the most for the class. Stacks beside dumps or logs only add observers, so that
such jobs count with those without stacks. ``judged_jobs.toml`` holds the numbers; ``tests/scoring/calibrate.py --write`` writes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from nccldoctor.diagnose.phrases.say import doubt_of
from nccldoctor.model import Doubt, Source, SourceKind

ENOUGH = 150
"""Judged jobs from which on a kind of evidence may promise *high*."""


def kind_of_evidence(sources: Iterable[Source]) -> str:
    """The kind of evidence that a job left: ``dumps and logs``, ``dumps``, ``logs``, ``stacks`` or ``other files``."""
    kinds = {source.kind for source in sources}
    recorded = [name for name, kind in (("dumps", SourceKind.RECORDER), ("logs", SourceKind.LOG)) if kind in kinds]
    return " and ".join(recorded) or ("stacks" if SourceKind.STACKS in kinds else "other files")


def doubt_of_kind(sources: Iterable[Source]) -> Doubt | None:
    """The doubt about the class where too few jobs with this kind of evidence were judged."""
    kind = kind_of_evidence(sources)
    number = judged_jobs().get(kind, 0)
    if number >= ENOUGH:
        return None
    return doubt_of("few-judged", number=number, kind=kind)


@cache
def judged_jobs() -> dict[str, int]:
    """The judged jobs by kind of evidence."""
    return dict(tomllib.loads(Path(__file__).with_name("judged_jobs.toml").read_text(encoding="utf-8"))["jobs"])
