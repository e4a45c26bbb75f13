"""The published JSON of our values: which fields, by which names, in which order.

The documents follow from the tables here, their schemas also from the types of the fields. A class without a row has all of
its fields, in order of declaration: ``Link(waiting, for_, ...)`` becomes ``{"waiting": "0-2", "for": "3", ...}``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from nccldoctor.events import Event, GroupRef
from nccldoctor.model import diagnosis, exhibits, figures, findings, inputs
from nccldoctor.model.diagnosis import Diagnosis
from nccldoctor.model.inputs import Place
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import DumpHead, GroupConfig
from nccldoctor.reports.parts import rank_rows
from nccldoctor.words.sanitize import text

FIELDS: dict[type, str] = {
    diagnosis.Action: "restart cordon why steps",
    diagnosis.Alarm: "rank time where",
    findings.Condition: "condition=text met says where",
    Diagnosis: "verdict findings remedies avoid job job_end notices coverage action ranks ruled_out capture alarm story "
    "proof input=sources run_up timeline stacks streams",
    DumpHead: "entries version wrapped groups=config form backend problem",
    Event: "kind rank group_rank group time where=place host pod pid text",
    findings.ConfidenceIn: "ranks class=cause",
    findings.Finding: "id family class=cause confidence confidence_in headline ranks suspects victims stalled chain evidence "
    "refuted_by why doubts runner_up last_activity only_here",
    findings.LastActivity: "text rank time where",
    findings.OnlyHere: "rank where quote token peers",
    findings.RunnerUp: "class=cause ranks separated_by",
    inputs.Group: "id=uid description=desc members",
    GroupConfig: "id=uid description=desc members=ranks",
    diagnosis.Job: "world_size world_at_least world_guessed hosts torch nccl groups",
    figures.Lateness: "group seqs ops ranks clocks=corrected correction_ms rows",
    inputs.Source: "path kind size rank local_rank host attempt why",
    figures.StackSide: "rank what where left_out=cut frames",
    diagnosis.IncidentEvent: "role cause kind says ranks host time where count",
    figures.CallDiff: "left right left_out_before=before left_out_after=after rows",
    figures.CallDiffRow: "kind left right",
    figures.Timeline: "start end zone hidden rows",
}
"""Classes whose fields are not simply listed in order; ``id=uid`` publishes ``uid`` as ``id``."""


class RuledOut(Struct, frozen=True):
    """A hypothesis that was looked at; ``ruled_out`` is False where the input that would tell is missing."""

    hypothesis: str
    ruled_out: bool
    says: str
    where: str | None


class Proved(Struct, frozen=True):
    """An exhibit of the verdict, as the page numbers them.

    ``shows`` are its parts of the argument; ``evidence`` are the ids of the pieces of the verdict's evidence that it stands for.
    """

    id: str
    claim: str
    shows: tuple[str, ...]
    evidence: tuple[str, ...]
    where: tuple[Place, ...]


class NumberedEvidence(Struct, frozen=True):
    """A piece of evidence with its id, which is its place in the finding: ``E2`` is the second."""

    id: str
    where: Place | None
    quote: str
    says: str
    supports: bool
    observer: str


class Warned(Struct, frozen=True):
    """Advice of a remedy against something."""

    what: str
    why: str


class Input(Struct, frozen=True):
    """The number of files, their bytes, and the number of files of each kind."""

    files: int
    bytes: int
    kinds: Mapping[str, int]


def _input(sources: tuple[inputs.Source, ...]) -> Input:
    kinds = Counter(source.kind.value for source in sources)
    return Input(len(sources), sum(source.size for source in sources), dict(sorted(kinds.items())))


def _ruled_out(conditions: tuple[findings.Condition, ...]) -> tuple[RuledOut, ...]:
    return tuple(RuledOut(c.text, c.met is False, c.says, c.where) for c in conditions)


def _proved(proof: tuple[exhibits.Exhibit, ...]) -> tuple[Proved, ...]:
    return tuple(
        Proved(e.id, e.claim, tuple(part.value for part in e.parts), tuple(f"E{n}" for n in e.evidence), e.places)
        for e in proof
    )


def with_evidence_ids(evidence: tuple[findings.Evidence, ...]) -> tuple[NumberedEvidence, ...]:
    """The evidence of a finding with the ids of the documents."""
    return tuple(
        NumberedEvidence(f"E{number}", item.where, item.quote, item.says, item.supports, item.observer)
        for number, item in enumerate(evidence, 1)
    )


def _sides(stacks: figures.StackDiff | None) -> tuple[figures.StackSide, ...]:
    return tuple(side for side in (stacks.culprit, stacks.peer) if side is not None) if stacks else ()


def _late(values: tuple[float, ...]) -> tuple[float | Literal["never"] | None, ...]:
    """Milliseconds, ``never`` where the call was not issued, None where it is not recorded."""
    return tuple({figures.NEVER: "never", figures.UNKNOWN: None}.get(value, value) for value in values)


def _warned(items: tuple[findings.Avoid, ...]) -> tuple[Warned, ...]:
    return tuple(Warned(item.what, item.why) for item in items)


def _doubts(doubts: tuple[findings.Doubt, ...]) -> tuple[str, ...]:
    return tuple(doubt.says for doubt in doubts)


def _evidence_number(number: int | None) -> str | None:
    return None if number is None else f"E{number}"


def _microseconds(seconds: float) -> float:
    return round(seconds, 6)


def _or_null(value: str) -> str | None:
    return value or None


def _as_ranks(value: tuple[int, ...]) -> Ranks:
    return Ranks(value)


CHANGED: dict[tuple[type, str], Callable[[Any], Any]] = {
    (Diagnosis, "ranks"): rank_rows.folded,
    (Diagnosis, "proof"): _proved,
    (Diagnosis, "ruled_out"): _ruled_out,
    (Diagnosis, "sources"): _input,
    (Diagnosis, "stacks"): _sides,
    (GroupConfig, "ranks"): _as_ranks,
    (figures.RankLateness, "late_ms"): _late,
    (figures.Mark, "where"): _or_null,
    (figures.Timeline, "zone"): _or_null,
    (findings.Finding, "doubts"): _doubts,
    (findings.Finding, "evidence"): with_evidence_ids,
    (findings.Reason, "evidence"): _evidence_number,
    (findings.RemedyAdvice, "avoid"): _warned,
    **dict.fromkeys(((figures.Mark, "at"), (figures.Timeline, "start"), (figures.Timeline, "end")), _microseconds),
}
"""Fields that are published in another form; what the function returns is also their type in the schema."""


@cache
def fields(kind: type[Struct]) -> tuple[tuple[str, str, Callable[[Any], Any] | None], ...]:
    """The published fields of a class: name, attribute, and the function that changes the value, if any does."""
    listed = FIELDS.get(kind)
    rows = listed.split() if listed else [f"{name.removesuffix('_')}={name}" for name in kind.__struct_fields__]
    pairs = (row.partition("=") for row in rows)
    return tuple((name, attribute or name, CHANGED.get((kind, attribute or name))) for name, _, attribute in pairs)


def json_value(value: Any) -> Any:
    """A value as JSON has it: rank sets, groups, places and times as text, structs as objects.

    A float that is not finite becomes None; raises TypeError for a type that is not ours.
    """
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, tuple | list):
        return [json_value(item) for item in value]
    if isinstance(value, Ranks):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, Place | GroupRef):
        return text(str(value))
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    return row(value, type(value))


def row(value: Any, kind: type[Struct]) -> dict[str, Any]:
    """The published fields that ``kind`` has of ``value``, which may be of a class below it."""
    return {
        name: json_value(change(getattr(value, attribute)) if change else getattr(value, attribute))
        for name, attribute, change in fields(kind)
    }


def moment(time: datetime) -> str | None:
    """ISO 8601 as the source says it; None for a time without a year, which stands in 1900."""
    return None if time.year == 1900 else time.isoformat()
