"""The JSON Schemas of ``analyze``, ``inspect`` and attributions, made from the fields and types of the documents.

``test_json_document.py`` compares them with those in ``nccldoctor/schema`` and writes anew what is stale.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from nccldoctor.events import KINDS, Event, GroupRef
from nccldoctor.model import Action, Diagnosis, Place, RemedyAdvice, Source, Stalled
from nccldoctor.model.figures import CallDiffRow, Mark, RankLateness
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import DumpHead
from nccldoctor.prescribe.next_steps import RESTARTS
from nccldoctor.reports import json_names
from nccldoctor.reports.attribution import Attribution
from nccldoctor.reports.inspect import GapRow, Understood
from nccldoctor.reports.json_document import SCHEMA_VERSION
from nccldoctor.reports.plotly.timeline import MARKS

TEXTS = {
    "FilePlace": {"description": "path:line, or path#entries[i]; the path is relative to the input."},
    "RankSet": {
        "description": 'A set of global ranks: "5", "0-3,7", "".',
        "pattern": r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$",
    },
    "Time": {
        "description": "ISO 8601, with offset where the source says it.",
        "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d(:\d\d(\.\d+)?)?)?$",
    },
}
"""Definitions of texts."""

NULL, TEXT = {"type": "null"}, {"type": "string"}
SCALARS: dict[Any, dict[str, Any]] = {
    None: NULL,
    type(None): NULL,
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: TEXT,
    GroupRef: TEXT,
    Place: {"$ref": "#/$defs/FilePlace"},
    Ranks: {"$ref": "#/$defs/RankSet"},
    datetime: {"anyOf": [{"$ref": "#/$defs/Time"}, NULL]},
}
"""Types that are no objects and no lists; a time without a year is null."""

CHOICES: dict[tuple[type, str], Iterable[str]] = {
    (Action, "restart"): RESTARTS,
    (Mark, "kind"): MARKS,
    (RemedyAdvice, "fit"): ("strong", "possible", "weak"),
    (Stalled, "kind"): ("collective", "p2p"),
    (CallDiffRow, "kind"): ("same", "differs", "left-only", "right-only"),
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


def text(name: str) -> str:
    """The schema of ``analyze``, ``inspect`` or ``attribution`` as the package holds it: one property and one definition a line."""
    return _lines(schema(name), ("properties", "$defs")) + "\n"


def _lines(value: dict[str, Any], opened: tuple[str, ...] = ()) -> str:
    members = {key: _lines(item) if key in opened else json.dumps(item) for key, item in value.items()}
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {item}" for key, item in members.items()) + "\n}"


def schema(name: str) -> dict[str, Any]:
    """The schema as dictionaries and lists; raises KeyError for another name."""
    definitions: dict[str, Any] = {}
    document = {"analyze": _analyze, "attribution": _attribution, "inspect": _inspect}[name](definitions)
    version = {"schema_version": _words([SCHEMA_VERSION])}
    listed = json.dumps(document) + json.dumps(definitions)
    definitions |= {n: {**said, **TEXT} for n, said in TEXTS.items() if f"#/$defs/{n}" in listed}
    if "Event" in definitions:
        definitions["Event"]["allOf"] = [
            {"if": {"properties": {"kind": {"const": kind}}}, "then": {"$ref": f"#/$defs/{kind}"}}
            for kind in sorted({*KINDS, "recorder-dump"})
        ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:nccldoctor:{name}:{SCHEMA_VERSION}",
        "title": TITLES[name],
        "description": "More may be added; what is listed keeps its name and meaning within schema_version 1.",
        **_object(version | document),
        "$defs": {n: definitions[n] for n in sorted(definitions)},
    }


TITLES = {
    "analyze": "Output of nccldoctor analyze --format json",
    "attribution": "Output of nccldoctor analyze --format attribution",
    "inspect": "Output of nccldoctor inspect --format json",
}


def _attribution(definitions: dict[str, Any]) -> dict[str, Any]:
    definitions["Tool"] = _object({"name": _words(["nccldoctor"]), "version": TEXT})
    return {"tool": {"$ref": "#/$defs/Tool"}, **_properties(Attribution, definitions)}


def _analyze(definitions: dict[str, Any]) -> dict[str, Any]:
    words = {"name": _words(["nccldoctor"]), "version": TEXT, "catalogue": _any_of([TEXT, NULL])}
    definitions["Tool"] = _object(words)
    return {"tool": {"$ref": "#/$defs/Tool"}, **_properties(Diagnosis, definitions)}


def _inspect(definitions: dict[str, Any]) -> dict[str, Any]:
    common = _properties(Event, definitions)
    only_lines = {name: {**_any_of([SCALARS[kind], NULL]), "default": None} for name, kind in ONLY_LINES.items()}
    only_lines = {"clock": TEXT | {"default": ""}} | only_lines | {"text": TEXT | {"default": ""}}
    definitions["Source"] = _object(_properties(Source, definitions) | _properties(Understood, definitions))
    definitions["Event"] = _object(common | only_lines)
    for name, kind in {**KINDS, "recorder-dump": DumpHead}.items():
        own = _properties(kind, definitions)
        definitions[name] = _object({f: form for f, form in own.items() if f not in Event.__struct_fields__})
    rows = {"sources": "Source", "events": "Event", "gaps": _reference(GapRow, definitions)["$ref"].rpartition("/")[2]}
    return {name: {"items": {"$ref": f"#/$defs/{row}"}, "type": "array"} for name, row in rows.items()}


ONLY_LINES = {"host": str, "pid": int, "pod": str}
"""Fields of events that lines alone have."""


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with these properties; all are there but those that have a default."""
    sorted_forms = {name: _sorted(form) for name, form in properties.items()}
    needed = [name for name, form in properties.items() if "default" not in form]
    return {"properties": sorted_forms, "required": needed, "type": "object"}


def _sorted(form: Any) -> Any:
    if isinstance(form, list):
        return [_sorted(item) for item in form]
    return {key: _sorted(form[key]) for key in sorted(form)} if isinstance(form, dict) else form


def _types(kind: type) -> dict[str, Any]:
    """The type of each published field: its annotation, or what its property or changing function returns."""
    hints = get_type_hints(kind)
    types = {}
    for name, attribute, change in json_names.fields(kind):
        made = change or getattr(getattr(kind, attribute, None), "fget", None)
        types[name] = get_type_hints(made)["return"] if made else hints[attribute]
    return types


def _properties(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of each published field of a class."""
    forms, out = _types(kind), {}
    for name, attribute, _ in json_names.fields(kind):
        words = CHOICES.get((kind, attribute))
        out[name] = _words(words) if words else _published(forms[name], definitions)
        if note := NOTES.get((kind, attribute)):
            out[name] = out[name] | {"description": note}
    return out


def _reference(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """A reference to the definition of a class, which is made where it is not there."""
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        definitions[kind.__name__] = _object(_properties(kind, definitions))
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _words(words: Iterable[str]) -> dict[str, Any]:
    listed = list(words)
    return {"const": listed[0], "type": "string"} if len(listed) == 1 else {"enum": listed, "type": "string"}


def _any_of(forms: list[dict[str, Any]]) -> dict[str, Any]:
    """One of some schemas, each once."""
    flat = [one for form in forms for one in form.get("anyOf", [form])]
    return {"anyOf": [form for n, form in enumerate(flat) if form not in flat[:n]]}


def _published(form: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type of ours."""
    if form in SCALARS:
        return SCALARS[form]
    if isinstance(form, type) and issubclass(form, Struct):
        return _reference(form, definitions)
    if isinstance(form, type) and issubclass(form, StrEnum):
        return _words(sorted(member.value for member in form))
    of, inside = get_origin(form), get_args(form)
    if of is Literal:
        return _words(inside)
    parts = [_published(part, definitions) for part in inside if part is not ...]
    if of is ClassVar:
        return parts[0]
    if of in (Union, UnionType):
        return _any_of(parts)
    if isinstance(of, type) and issubclass(of, Mapping):
        return {"additionalProperties": parts[1], "type": "object"}
    if ... in inside or of is list:
        return {"items": parts[0], "type": "array"}
    return {"maxItems": len(parts), "minItems": len(parts), "prefixItems": parts, "type": "array"}
