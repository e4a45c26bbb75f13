"""A remedy as its file holds it; the types of its fields say what may stand there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct, field

from nccldoctor.prescribe.conditions import PREDICATES
from nccldoctor.prescribe.conditions.base import catalogue_name
from nccldoctor.questions.backends import Needs

TOPICS = ("lateness", "divergence", "process", "gpu", "node", "network", "versions", "folklore")
"""The folders of the catalogue."""

Block = Literal["all", "any", "none"]
BLOCKS: dict[Block, str] = {"all": "all of", "any": "one of", "none": "none of"}
"""The tables under ``conditions``, and how many of their conditions must be met, in words."""

Line = Annotated[str, Meta(min_length=1, max_length=600)]
_Identifier = Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
_Link = Annotated[str, Meta(pattern=r"^https://[^\s<>\"]+$", max_length=300)]


_NEEDS = "For jobs on GPUs, on no GPU, or over NCCL. A job whose library no file shows may have GPUs and NCCL."


class Warn(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that is often advised here and does not help, and why."""

    what: Line
    why: Line
    needs: Annotated[Needs | None, Meta(description=_NEEDS)] = None


class Reference(Struct, frozen=True, forbid_unknown_fields=True):
    """The source of a fact, and the day it was looked at."""

    url: _Link
    seen: date


class Clause(Struct, frozen=True):
    """One condition: a predicate by its name in the catalogue, and its arguments by their Python names."""

    name: str
    arguments: dict[str, Any]


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do: a sentence, a command, or both. A command is read-only unless it says otherwise."""

    text: Line | None = None
    command: Annotated[Line | None, Meta(description="A shell command. Values are filled in quoted for the shell.")] = (
        None
    )
    where: Annotated[
        Line | None, Meta(description="Where to run it, in words: on the host of a rank, on a login node.")
    ] = None
    expect: Annotated[Line | None, Meta(description="What the output shows if this is the cause.")] = None
    read_only: Annotated[bool, Meta(description="Whether the command changes nothing.")] = True
    needs: Annotated[Needs | None, Meta(description=_NEEDS)] = None
    while_: Annotated[
        Literal["running", "ended"] | None,
        Meta(description="The step is for a job that still runs, or for one that has ended; else for both."),
    ] = field(default=None, name="while")
    when: Annotated[
        Clause | None, Meta(description="The step is for findings that meet this condition and left out for others.")
    ] = None

    def __post_init__(self) -> None:
        if not self.text and not self.command:
            raise ValueError("a step needs a text or a command")


class Remedy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cause and what to do about it."""

    id: _Identifier
    title: Annotated[Line, Meta(description="The cause, in words an engineer would search for.")]
    summary: Annotated[
        Line, Meta(description="What happens and why it hangs the job, in one to three short sentences.")
    ]
    status: Annotated[
        Literal["established", "common", "suspected"],
        Meta(
            description="established (in source code or a manual), common (well reported) or suspected (rarely seen)."
        ),
    ]
    prior: Annotated[float, Meta(gt=0, le=1, description="How often this is the cause when its conditions are met.")]
    frequency: Annotated[
        Literal["often", "sometimes", "rarely"],
        Meta(description="How often this cause occurs at all. Orders guesses when no specific sign is in the input."),
    ] = "sometimes"
    needs: Annotated[Needs | None, Meta(description=_NEEDS)] = None
    general: Annotated[
        bool, Meta(description="A fallback, listed after every more specific remedy of the same finding.")
    ] = False
    consequence: Annotated[
        bool, Meta(description="Its signs follow other causes, too: any other remedy that fits comes before it.")
    ] = False
    conditions: Annotated[
        Mapping[Block, tuple[Clause, ...]],
        Meta(description="All of the first, one of the second and none of the third are met. They do not nest."),
    ]
    confirm: tuple[Step, ...] = ()
    fix: tuple[Step, ...] = ()
    prevent: tuple[Step, ...] = ()
    avoid: tuple[Warn, ...] = ()
    sources: Annotated[tuple[Reference, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if not self.clauses("all") and not self.clauses("any"):  # it would fit everything
            raise ValueError("a remedy needs conditions under all or any")

    def clauses(self, block: Block) -> tuple[Clause, ...]:
        """The conditions of one of the :data:`BLOCKS`."""
        return self.conditions.get(block, ())

    @property
    def is_cause(self) -> bool:
        """True where the class of the finding is the cause itself. No other sign is asked for; a fallback is no cause."""
        asked = [clause for clause in (*self.clauses("all"), *self.clauses("any")) if clause.name != "finding"]
        return not asked and not self.general


def remedy_of(data: Mapping[str, Any]) -> Remedy:
    """The remedy in the content of a TOML file.

    Of conditions only the names are checked. Raises KeyError, TypeError, ValueError or AttributeError where something does not fit.
    """
    written = _trimmed(data)
    written["conditions"] = {block: list(map(_clause, tables)) for block, tables in data["conditions"].items()}
    written |= {block: list(map(_step_table, data[block])) for block in ("confirm", "fix", "prevent") if block in data}
    written |= {block: list(map(_trimmed, data[block])) for block in ("avoid", "sources") if block in data}
    return msgspec.convert(written, Remedy)


def _step_table(written: Any) -> dict[str, Any]:
    """A plain string is a step without a command."""
    table = _trimmed({"text": written} if isinstance(written, str) else written)
    return table | {"when": _clause(table["when"])} if "when" in table else table


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
