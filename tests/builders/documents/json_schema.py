"""The JSON Schemas of ``analyze`` and ``inspect``, made by pydantic from the fields and types of the documents.

``test_json_document.py`` compares them with those in ``nccldoctor/schema`` and writes anew what is stale.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from functools import cache, reduce
from operator import or_
from types import GenericAlias, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field, RootModel, create_model
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from nccldoctor.events import KINDS, Event, GroupRef
from nccldoctor.model import Action, Diagnosis, Place, RemedyAdvice, Source, Stalled
from nccldoctor.model.figures import CallDiffRow, Mark, RankLateness, Stretch
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import DumpHead
from nccldoctor.prescribe.next_steps import RESTARTS
from nccldoctor.reports import json_names
from nccldoctor.reports.inspect import GapRow, Understood
from nccldoctor.reports.json_document import SCHEMA_VERSION
from nccldoctor.reports.plotly.timeline import MARKS


class RankSet(RootModel[str]):
    """A set of global ranks: "5", "0-3,7", ""."""

    root: str = Field(pattern=r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$")


class Time(RootModel[str]):
    """ISO 8601, with offset where the source says it."""

    root: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d(:\d\d(\.\d+)?)?)?$")


class FilePlace(RootModel[str]):
    """path:line, or path#entries[i]; the path is relative to the input."""


FORMS: dict[type, Any] = {Ranks: RankSet, datetime: Time | None, Place: FilePlace, GroupRef: str}
"""Types that JSON has as text; a time without a year is null."""

CHOICES: dict[tuple[type, str], Iterable[str]] = {
    (Action, "restart"): RESTARTS,
    (Mark, "kind"): MARKS,
    (RemedyAdvice, "fit"): ("strong", "possible", "weak"),
    (Stalled, "kind"): ("collective", "p2p"),
    (CallDiffRow, "kind"): ("same", "differs", "left-only", "right-only"),
    (Stretch, "kind"): ("work", "call", "waiting", "outside"),
}
"""Texts that are one of a few words."""

NOTES: dict[tuple[type, str], str] = {
    (Diagnosis, "verdict"): "The first of the findings, repeated.",
    (
        Diagnosis,
        "notices",
    ): "What the answer does not rest on: exceptions a healthy job got over, other runs, unread files.",
    (Diagnosis, "ranks"): "Ranks that stand alike share a row; a field is null where they differ.",
    (Diagnosis, "ruled_out"): "Hypotheses; ruled_out is false where an input that would tell is missing.",
    (Diagnosis, "alarm"): "Who complained first; most often a victim.",
    (Diagnosis, "story"): "Events in order, each with its role; at most one is the first cause.",
    (Diagnosis, "run_up"): "Lateness of each rank in the last recorded calls, in ms behind the first rank.",
    (Diagnosis, "timeline"): "The time around the stall; seconds since the epoch on the clock of the job.",
    (Diagnosis, "stacks"): "The stack of a culprit, then that of a peer; frames innermost first.",
    (Diagnosis, "streams"): "The calls of a culprit (left) and a peer (right) around the first difference.",
    (RankLateness, "late_ms"): "never: not issued; null: not recorded.",
    (Event, "rank"): "The global rank; null until it is known.",
    (Event, "group_rank"): "The rank inside group.",
}
"""Descriptions of fields whose name and type do not say enough."""


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def text(name: str) -> str:
    """The schema of ``analyze`` or ``inspect`` as the package holds it: one property and one definition a line."""
    return _lines(schema(name), ("properties", "$defs")) + "\n"


def _lines(value: dict[str, Any], opened: tuple[str, ...] = ()) -> str:
    members = {key: _lines(item) if key in opened else json.dumps(item) for key, item in value.items()}
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {item}" for key, item in members.items()) + "\n}"


def schema(name: str) -> dict[str, Any]:
    """The schema as dictionaries and lists; raises KeyError for another name."""
    models = {"analyze": _analyze, "inspect": _inspect}[name]()
    definitions = models_json_schema([(m, "validation") for m in models], schema_generator=_Untitled)[1]["$defs"]
    for definition in definitions.values():
        definition.pop("title", None)
    if "Event" in definitions:
        definitions["Event"]["allOf"] = [
            {"if": {"properties": {"kind": {"const": kind}}}, "then": {"$ref": f"#/$defs/{kind}"}} for kind in _kinds()
        ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:nccldoctor:{name}:{SCHEMA_VERSION}",
        "title": f"Output of nccldoctor {name} --format json",
        "description": "More may be added; what is listed keeps its name and meaning within schema_version 1.",
        **definitions.pop("Document"),
        "$defs": definitions,
    }


def _analyze() -> list[Any]:
    tool = _model("Tool", {"name": Literal["nccldoctor"], "version": str, "catalogue": str | None})
    return [_model("Document", {"schema_version": Literal[SCHEMA_VERSION], "tool": tool, **_fields(Diagnosis)})]


def _inspect() -> list[Any]:
    source = _model("Source", _fields(Source) | _fields(Understood))
    only_lines = {
        "clock": (str, ""),
        "host": (str | None, None),
        "pid": (int | None, None),
        "pod": (str | None, None),
        "text": (str, ""),
    }
    event = _model("Event", _fields(Event) | only_lines)
    rows = {"sources": source, "events": event, "gaps": _of(GapRow)}
    lists = {name: GenericAlias(list, row) for name, row in rows.items()}
    return [_model("Document", {"schema_version": Literal[SCHEMA_VERSION], **lists}), *_kinds().values()]


def _kinds() -> dict[str, Any]:
    """The own fields of each kind of event, and those of a recorder dump."""
    common = {field.name for field in dataclasses.fields(Event)}
    own = {name: {f: form for f, form in _fields(kind).items() if f not in common} for name, kind in KINDS.items()}
    return {name: _model(name, forms) for name, forms in sorted((own | {"recorder-dump": _fields(DumpHead)}).items())}


def _model(name: str, forms: dict[str, Any]) -> Any:
    fields: Any = {field: form if isinstance(form, tuple) else (form, ...) for field, form in forms.items()}
    return create_model(name, **fields)


@cache
def _of(kind: Any) -> Any:
    return _model(kind.__name__, _fields(kind))


def _types(kind: type) -> dict[str, Any]:
    """The type of each published field: its annotation, or what its property or changing function returns."""
    hints = get_type_hints(kind)
    types = {}
    for name, attribute, change in json_names.fields(kind):
        made = change or getattr(getattr(kind, attribute, None), "fget", None)
        types[name] = get_type_hints(made)["return"] if made else hints[attribute]
    return types


def _fields(kind: type) -> dict[str, Any]:
    forms = _types(kind)
    return {
        name: (
            Literal[tuple(CHOICES[kind, attribute])] if (kind, attribute) in CHOICES else _published(forms[name]),
            Field(description=NOTES.get((kind, attribute))),
        )
        for name, attribute, _ in json_names.fields(kind)
    }


def _published(form: Any) -> Any:
    """A type of ours as the type that its JSON has."""
    if form in FORMS:
        return FORMS[form]
    if isinstance(form, type) and dataclasses.is_dataclass(form):
        return _of(form)
    if isinstance(form, type) and issubclass(form, StrEnum):
        return Literal[tuple(sorted(member.value for member in form))]
    parts = tuple(_published(part) for part in get_args(form))
    if get_origin(form) is ClassVar:
        return parts[0]
    if get_origin(form) in (Union, UnionType):
        return reduce(or_, parts)
    return tuple.__class_getitem__(parts) if get_origin(form) is tuple else form
