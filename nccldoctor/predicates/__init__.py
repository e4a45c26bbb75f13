"""The conditions of remedies: named questions, answered with evidence, with what to look for, or with the input that is
missing.
"""

from __future__ import annotations

from nccldoctor.predicates import environment, findings, signals, stacks
from nccldoctor.predicates.base import PREDICATES, Answer, Met, NotCheckable, Predicate, Scene, Unmet, ask
from nccldoctor.predicates.sightings import Sightings, survey

__all__ = [
    "PREDICATES",
    "Answer",
    "Met",
    "NotCheckable",
    "Predicate",
    "Scene",
    "Sightings",
    "Unmet",
    "ask",
    "environment",
    "findings",
    "signals",
    "stacks",
    "survey",
]
