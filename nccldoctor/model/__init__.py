"""The nouns that pass between the stages: frozen, slotted, without behaviour of their own.

Field names of :class:`Finding`, :class:`RemedyAdvice`, :class:`Job`, :class:`Coverage` and
:class:`Action` are those of the published JSON (``schema/analyze.json``).
"""

from __future__ import annotations

from nccldoctor.model.causes import CauseClass, Confidence, Family
from nccldoctor.model.diagnosis import (
    Action,
    Alarm,
    Coverage,
    Diagnosis,
    EventRole,
    IncidentEvent,
    Job,
    Proposal,
    RankState,
    Role,
)
from nccldoctor.model.findings import (
    Avoid,
    Condition,
    ConfidenceIn,
    Doubt,
    Evidence,
    Finding,
    Link,
    Reason,
    RemedyAdvice,
    RunnerUp,
    Stalled,
)
from nccldoctor.model.inputs import CollectedFile, Gap, Group, Place, Source, SourceKind, SourceRole, Unexplained

__all__ = [
    "Action",
    "Alarm",
    "Avoid",
    "CauseClass",
    "CollectedFile",
    "Condition",
    "Confidence",
    "ConfidenceIn",
    "Coverage",
    "Diagnosis",
    "Doubt",
    "EventRole",
    "Evidence",
    "Family",
    "Finding",
    "Gap",
    "Group",
    "IncidentEvent",
    "Job",
    "Link",
    "Place",
    "Proposal",
    "RankState",
    "Reason",
    "RemedyAdvice",
    "Role",
    "RunnerUp",
    "Source",
    "SourceKind",
    "SourceRole",
    "Stalled",
    "Unexplained",
]
