"""Validates a remedy file and writes its JSON Schema: the only module that imports pydantic.

``nccldoctor catalogue schema`` prints the schema; it follows from the models and from the signatures of the predicates.
"""

from __future__ import annotations

import inspect
import json
import re
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from nccldoctor.prescribe.catalogue.words import PLACEHOLDERS
from nccldoctor.prescribe.conditions import PREDICATES
from nccldoctor.prescribe.conditions.base import Function, OneOf, catalogue_name

_PLACEHOLDER = re.compile(r"\{\{(.{0,60}?)\}\}")

Line = Annotated[str, StringConstraints(min_length=1, max_length=600, strip_whitespace=True)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
Link = Annotated[str, StringConstraints(pattern=r"^https://[^\s<>\"]+$", max_length=300)]


class Strict(BaseModel):
    """Unknown keys are mistakes: a misspelt condition must not be silently dropped."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @field_validator("*", mode="after")
    @classmethod
    def known_placeholders(cls, value: Any) -> Any:
        """Refuse a placeholder that nothing fills."""
        for text in value if isinstance(value, tuple) else (value,):
            for name in _PLACEHOLDER.findall(text) if isinstance(text, str) else ():
                if name.strip() not in PLACEHOLDERS:
                    known = ", ".join(PLACEHOLDERS)
                    raise ValueError(f"unknown placeholder {{{{ {name.strip()} }}}}; use one of {known}")
        return value


class Step(Strict):
    """One thing to do: a sentence, a command, or both. A command is read-only unless it says otherwise."""

    text: Line | None = None
    command: Line | None = Field(None, description="A shell command. Values are filled in quoted for the shell.")
    where: Line | None = Field(None, description="Where to run it, in words: on the host of a rank, on a login node.")
    expect: Line | None = Field(None, description="What the output shows if this is the cause.")
    read_only: bool = Field(True, description="Whether the command changes nothing.")
    while_: Literal["running", "ended"] | None = Field(
        None,
        alias="while",
        description="The step is for a job that still runs, or for one that has ended; else for both.",
    )
    when: Any = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The published schema allows the short form, too."""
        return {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 600},
                handler.resolve_ref_schema(handler(core_schema)),
            ]
        }

    @model_validator(mode="before")
    @classmethod
    def sentence_alone(cls, value: Any) -> Any:
        """A plain string is a step without a command."""
        return {"text": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def says_something(self) -> Step:
        """A step without words and without command is a mistake."""
        if not self.text and not self.command:
            raise ValueError("a step needs a text or a command")
        return self


class Warn(Strict):
    """Something that is often advised here and does not help, and why."""

    what: Line
    why: Line


class Reference(Strict):
    """The source of a fact, and the day it was looked at."""

    url: Link
    seen: date


def _annotation(hint: Any) -> Any:
    """A predicate's type hint as pydantic understands it: :class:`OneOf` becomes a Literal."""
    if get_origin(hint) is Annotated:
        words = next((m.words for m in get_args(hint)[1:] if isinstance(m, OneOf)), None)
        return Literal[words] if words else hint
    if get_origin(hint) is tuple:
        inner: Any = _annotation(get_args(hint)[0])
        return tuple[inner, ...]
    return hint


def _arguments(function: Function) -> type[BaseModel]:
    """The model of a predicate's arguments, made from its signature."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        required = parameter.default is inspect.Parameter.empty
        default = ... if required else parameter.default
        fields[name] = (_annotation(hints[name]), Field(default, alias=catalogue_name(name)))
    doc = " ".join((function.__doc__ or "").split())
    config = ConfigDict(extra="forbid", defer_build=True)
    return create_model(f"{catalogue_name(function.__name__)} arguments", __config__=config, __doc__=doc, **fields)


class Clause(BaseModel):
    """One condition: a table that holds one predicate with its arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="after")
    def one_predicate(self) -> Clause:
        """Exactly one predicate, with at least one argument: a condition that asks nothing is always met."""
        given = self.model_fields_set
        if len(given) != 1:
            raise ValueError(
                f"a condition takes one predicate, but this one has {len(given)}: split it into several tables"
            )
        if not getattr(self, next(iter(given))).model_fields_set:
            raise ValueError("the predicate has no arguments")
        return self


def clause() -> type[Clause]:
    """The model of a condition: one optional field for each registered predicate."""
    fields: dict[str, Any] = {
        entry.function.__name__: (_arguments(entry.function) | None, Field(None, alias=name, description=entry.doc))
        for name, entry in sorted(PREDICATES.items())
    }
    return create_model("Clause", __base__=Clause, **fields)


class _Conditions(Strict):
    """``all`` must be met, one of ``any``, and none of ``none``. They do not nest."""

    all_: tuple[Clause, ...] = ()
    any_: tuple[Clause, ...] = ()

    @model_validator(mode="after")
    def asks_something(self) -> _Conditions:
        """A remedy without conditions would fit everything."""
        if not (self.all_ or self.any_):
            raise ValueError("a remedy needs conditions under all or any")
        return self


class Remedy(Strict):
    """One cause and what to do about it."""

    id: Identifier
    title: Line = Field(description="The cause, in words an engineer would search for.")
    summary: Line = Field(description="What happens and why it hangs the job, in one to three short sentences.")
    status: Literal["established", "common", "suspected"] = Field(
        description="established (in source code or a manual), common (well reported) or suspected (rarely seen)."
    )
    prior: float = Field(gt=0, le=1, description="How often this is the cause when its conditions are met.")
    frequency: Literal["often", "sometimes", "rarely"] = Field(
        "sometimes",
        description="How often this cause occurs at all. Orders guesses when no specific sign is in the input.",
    )
    general: bool = Field(False, description="A fallback, listed after every more specific remedy of the same finding.")
    conditions: Any
    confirm: tuple[Step, ...] = ()
    fix: tuple[Step, ...] = ()
    prevent: tuple[Step, ...] = ()
    avoid: tuple[Warn, ...] = ()
    sources: tuple[Reference, ...] = Field(min_length=1)


def remedy() -> type[Remedy]:
    """The model of a remedy, with conditions made from the registered predicates."""
    return _remedy_model(frozenset(PREDICATES))


@cache
def _remedy_model(_predicates: frozenset[str]) -> type[Remedy]:
    """One model for each set of predicates: a package may register more of them after the first use."""
    kind: Any = clause()
    clauses: Any = tuple[kind, ...]
    blocks: dict[str, Any] = {f"{name}_": (clauses, Field((), alias=name)) for name in ("all", "any", "none")}
    conditions: Any = create_model("Conditions", __base__=_Conditions, **blocks)
    told = "The step is for findings that meet this condition and left out for others."
    step: Any = create_model(
        "Step", __base__=Step, __doc__=Step.__doc__, when=(kind | None, Field(None, description=told))
    )
    steps: dict[str, Any] = dict.fromkeys(("confirm", "fix", "prevent"), (tuple[step, ...], ()))
    return create_model("Remedy", __base__=Remedy, __doc__=Remedy.__doc__, conditions=(conditions, ...), **steps)


def json_schema() -> str:
    """The JSON Schema of a remedy file, for editors and for overlays, with a newline at the end."""
    schema = remedy().model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
