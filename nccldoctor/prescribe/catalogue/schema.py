"""Finds every mistake of a remedy file, and writes the JSON Schema of such files.

``nccldoctor catalogue schema`` prints the schema; it follows from the types of a remedy and from the signatures of the predicates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import signature
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from nccldoctor.prescribe.catalogue.remedy import Clause, Line, Remedy, Step, remedy_of
from nccldoctor.prescribe.catalogue.words import PLACEHOLDERS
from nccldoctor.prescribe.conditions import PREDICATES
from nccldoctor.prescribe.conditions.base import OneOf, catalogue_name

At = tuple[str | int, ...]
"""Where a value stands in a file: ``("conditions", "all", 0, "finding")``."""

_PLACEHOLDER = re.compile(r"\{\{(.{0,60}?)\}\}")
_PLACE = re.compile(r" - at `\$(.*)`$")
_STEP_OF_PLACE = re.compile(r"\[(\d+)\]|\.([^.\[]+)")


def mistakes_of(data: Mapping[str, Any]) -> Iterator[tuple[At, str]]:
    """Every mistake in the content of a remedy file, with its place."""
    found = [*_mistakes(data, Remedy, ())]
    yield from found or _refusal(lambda: remedy_of(data), Remedy, ())


def _mistakes(value: Any, form: Any, at: At) -> Iterator[tuple[At, str]]:
    """The mistakes in a value: in a table field by field, in a list item by item."""
    bare = get_args(form)[0] if get_origin(form) is Annotated else form
    of, inside = get_origin(bare), get_args(bare)
    if value is not None and type(None) in inside:
        bare = next(one for one in inside if one is not type(None))
    if bare is Clause:
        yield from _mistakes_of_clause(value, at)
    elif bare is Step and isinstance(value, str):
        yield from _mistakes(value, Line, at)
    elif isinstance(bare, type) and issubclass(bare, Struct) and isinstance(value, dict):
        yield from _mistakes_of_table(value, bare, at)
    elif of is tuple and isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _mistakes(item, inside[0], (*at, number))
    elif isinstance(of, type) and issubclass(of, Mapping) and isinstance(value, dict):
        for key, item in value.items():
            yield from _refusal(lambda key=key: msgspec.convert(key, inside[0]), inside[0], (*at, key))
            yield from _mistakes(item, inside[1], (*at, key))
    else:
        text = value.strip() if isinstance(value, str) else value
        yield from _refusal(lambda: msgspec.convert(text, form), form, at)
        for name in _PLACEHOLDER.findall(value) if isinstance(value, str) else ():
            if name.strip() not in PLACEHOLDERS:
                yield at, f"unknown placeholder {{{{ {name.strip()} }}}}; use one of {', '.join(PLACEHOLDERS)}"


def _mistakes_of_table(table: dict[str, Any], form: type[Struct], at: At) -> Iterator[tuple[At, str]]:
    known = _fields_of(form)
    for key in (key for key in table if key not in known):
        yield (*at, key), f"unknown key; known are {', '.join(known)}"
    for key, one in known.items():
        if key in table:
            yield from _mistakes(table[key], one.type, (*at, key))
        elif one.required:
            yield (*at, key), "the key is missing"
    if form is Step and not table.keys() & {"text", "command"}:
        yield at, "a step needs a text or a command"


@cache
def _fields_of(form: type[Struct]) -> dict[str, FieldInfo]:
    return {one.encode_name: one for one in fields(form)}


def _mistakes_of_clause(table: Any, at: At) -> Iterator[tuple[At, str]]:
    if not isinstance(table, dict) or len(table) != 1:
        given = f"this one has {len(table)}" if isinstance(table, dict) else "this is no table"
        yield at, f"a condition takes one predicate, but {given}: split it into several tables"
        return
    ((name, given),) = table.items()
    if name not in PREDICATES:
        yield (*at, name), f"unknown predicate; known are {', '.join(sorted(PREDICATES))}"
    elif given == {}:
        yield at, "the predicate has no arguments"
    else:
        yield from _mistakes(given, arguments_of(name), (*at, name))


def _refusal(convert: Any, form: Any, at: At) -> Iterator[tuple[At, str]]:
    """What speaks against a value of a type, if anything does."""
    try:
        convert()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what, place = str(error), _PLACE.search(str(error))
        steps = [int(n) if n else key for n, key in _STEP_OF_PLACE.findall(place[1])] if place else []
        words = f"; use one of {', '.join(_words_of(form))}" if what.startswith("Invalid enum value") else ""
        yield (*at, *steps), _PLACE.sub("", what).replace("`", "") + words


def _words_of(form: Any) -> tuple[str, ...]:
    """The words that a type takes, or a type inside of it."""
    if get_origin(form) is Literal:
        return get_args(form)
    return next((words for inside in get_args(form) if (words := _words_of(inside))), ())


@cache
def arguments_of(predicate: str) -> type[Struct]:
    """The arguments of a predicate, made from its signature."""
    function = PREDICATES[predicate].function
    hints = get_type_hints(function, include_extras=True)
    declared = []
    for name, parameter in list(signature(function).parameters.items())[1:]:
        default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
        declared.append((name, _spelled(hints[name]), msgspec.field(default=default, name=catalogue_name(name))))
    return msgspec.defstruct(f"{predicate}-arguments", declared, kw_only=True, forbid_unknown_fields=True)


def _spelled(hint: Any) -> Any:
    """A predicate's type hint as a catalogue spells it: :class:`OneOf` becomes a Literal."""
    if get_origin(hint) is Annotated:
        words = next((m.words for m in get_args(hint)[1:] if isinstance(m, OneOf)), None)
        return Literal[tuple(map(str, words))] if words else hint
    if get_origin(hint) is tuple:
        return tuple.__class_getitem__((_spelled(get_args(hint)[0]), ...))
    return hint


def json_schema() -> str:
    """The JSON Schema of a remedy file, for editors and for overlays, with a newline at the end."""
    names = sorted(PREDICATES)
    (remedy, *arguments), known = msgspec.json.schema_components(
        [Remedy, *map(arguments_of, names)], ref_template="#/$defs/{name}"
    )
    asked = {name: form | {"description": PREDICATES[name].doc} for name, form in zip(names, arguments, strict=True)}
    one = {"type": "object", "additionalProperties": False, "minProperties": 1, "maxProperties": 1}
    known["Clause"] = {"description": "One condition.", "properties": asked, **one}
    known["Step"] = {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 600}, known["Step"]]}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": known, **remedy}
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
