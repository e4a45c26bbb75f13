"""A remedy as plain values, built from the content of a remedy file without pydantic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from typing import Any, cast

from nccldoctor.dataclass import dataclass
from nccldoctor.prescribe.conditions import PREDICATES
from nccldoctor.prescribe.conditions.base import catalogue_name

TOPICS = ("lateness", "divergence", "process", "gpu", "node", "network", "versions", "folklore")
"""The folders of the catalogue."""
BLOCKS = {"all": "all of", "any": "one of", "none": "none of"}
"""The tables under ``conditions``, and how many of their conditions must be met, in words."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Something that is often advised here and does not help, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The source of a fact, and the day it was looked at."""

    url: str
    seen: date


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition: a predicate by its name in the catalogue, and its arguments by their Python names."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: a sentence, a command, or both. A command is read-only unless it says otherwise.

    A step with ``when`` is for those findings alone that meet this condition; one with ``while_`` for a job that is still running,
    or for one that has ended.
    """

    text: str | None = None
    command: str | None = None
    where: str | None = None
    expect: str | None = None
    read_only: bool = True
    while_: str | None = None
    when: Clause | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """One cause and what to do about it; the fields are those of :class:`nccldoctor.prescribe.catalogue.schema.Remedy`."""

    id: str
    title: str
    summary: str
    status: str
    prior: float
    frequency: str
    general: bool
    conditions: Mapping[str, tuple[Clause, ...]]
    confirm: tuple[Step, ...]
    fix: tuple[Step, ...]
    prevent: tuple[Step, ...]
    avoid: tuple[Warn, ...]
    sources: tuple[Reference, ...]

    def clauses(self, block: str) -> tuple[Clause, ...]:
        """The conditions of one of the :data:`BLOCKS`."""
        return self.conditions.get(block, ())

    @property
    def is_cause(self) -> bool:
        """True where the class of the finding is the cause itself. No other sign is asked for; a fallback is no cause."""
        asked = [clause for block in ("all", "any") for clause in self.clauses(block) if clause.name != "finding"]
        return not asked and not self.general


def remedy_of(data: Mapping[str, Any]) -> Remedy:
    """The remedy in the content of a TOML file.

    Only names are checked, not ranges or words. Raises KeyError, TypeError, ValueError or AttributeError where a key,
    predicate or argument is missing or unknown.
    """
    unknown = [key for key in data if key not in Remedy.__slots__]
    if unknown or not data["sources"] or not data["conditions"].keys() <= BLOCKS.keys():
        raise ValueError(f"unknown or missing keys: {unknown}")
    return Remedy(
        id=data["id"],
        title=data["title"].strip(),
        summary=data["summary"].strip(),
        status=data["status"],
        prior=float(data["prior"]),
        frequency=data.get("frequency", "sometimes"),
        general=data.get("general", False),
        conditions={block: tuple(map(_clause, tables)) for block, tables in data["conditions"].items()},
        confirm=_read_steps(data.get("confirm", ())),
        fix=_read_steps(data.get("fix", ())),
        prevent=_read_steps(data.get("prevent", ())),
        avoid=tuple(Warn(**_trimmed(table)) for table in data.get("avoid", ())),
        sources=tuple(Reference(**_trimmed(table)) for table in data["sources"]),
    )


def _read_steps(items: Iterable[Any]) -> tuple[Step, ...]:
    """A plain string is a step without a command."""
    return tuple(Step(text=item.strip()) if isinstance(item, str) else _read_step(item) for item in items)


def _read_step(table: Mapping[str, Any]) -> Step:
    when = {"when": _clause(table["when"])} if "when" in table else {}
    plain = {"while_" if key == "while" else key: value for key, value in _trimmed(table).items()}
    return Step(**(plain | when))


def _trimmed(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.strip() if isinstance(value, str) else value for key, value in table.items()}


def _clause(table: Mapping[str, Mapping[str, Any]]) -> Clause:
    ((name, given),) = table.items()
    spelled = _arguments(name)
    return Clause(name, {spelled[key]: tuple(v) if isinstance(v, list) else v for key, v in given.items()})


@cache
def _arguments(predicate: str) -> dict[str, str]:
    """The arguments of a predicate: how the catalogue spells them, and their Python names."""
    code = cast(Any, PREDICATES[predicate].function).__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return {catalogue_name(name): name for name in names}
