"""The conditions of remedies: named questions, answered with evidence, with what to look for, or with the input that is
missing.
"""

from __future__ import annotations

from nccldoctor.prescribe.conditions import environment, findings, signals, stacks
from nccldoctor.prescribe.conditions.base import PREDICATES, Answer, Context, Met, NotCheckable, Predicate, Unmet, ask
from nccldoctor.prescribe.conditions.survey import Sightings, survey

__all__ = [
    "PREDICATES",
    "Answer",
    "Context",
    "Met",
    "NotCheckable",
    "Predicate",
    "Sightings",
    "Unmet",
    "ask",
    "environment",
    "findings",
    "signals",
    "stacks",
    "survey",
]
