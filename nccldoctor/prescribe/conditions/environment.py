"""Questions about versions and settings."""

from __future__ import annotations

import re
from typing import Literal

from nccldoctor.events import Note, Setting
from nccldoctor.prescribe.conditions.base import Context, listed, predicate
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet, excerpt, quoted


def version_tuple(text: str) -> tuple[int, int, int]:
    """``2.7.1+cu126`` as ``(2, 7, 1)``; what is missing or no number is 0. NCCL's ``22705`` is ``(2, 27, 5)``."""
    head = re.split(r"[+\-a-zA-Z]", text.strip().lstrip("v~"), maxsplit=1)[0]
    numbers = [int(part) for part in re.findall(r"\d{1,6}", head)][:3]
    if len(numbers) == 1 and numbers[0] >= 20_000:
        return numbers[0] // 10_000, numbers[0] // 100 % 100, numbers[0] % 100
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return major, minor, patch


@predicate(weight=0.3)
def version(context: Context, *, of: Literal["torch", "nccl"], from_: str = "0", below: str = "9999") -> Answer:
    """The version of PyTorch or NCCL is at least ``from`` and less than ``below``."""
    label = {"torch": "PyTorch", "nccl": "NCCL"}[of]
    bounds = (f"{from_} or newer" if from_ != "0" else "", f"older than {below}" if below != "9999" else "")
    asked = f"the version of {label} is {' and '.join(filter(None, bounds)) or 'known'}"
    seen = context.survey.case.torch if of == "torch" else context.survey.case.nccl
    if not seen:
        return NotCheckable(asked, f"the version of {label}")
    is_met = version_tuple(from_) <= version_tuple(seen) < version_tuple(below)
    return (Met if is_met else Unmet)(asked, f"{label} {excerpt(seen)}")


@predicate(weight=0.8)
def setting(context: Context, *, name: tuple[str, ...], value: tuple[str, ...] = ()) -> Answer:
    """One of these variables or options is set, to one of these values where values are given.
    ``eth*`` is any that begins so. Being set is asked, not taking effect.
    """
    asked = f"the job sets {listed(name)}" + (f" to {listed(v or 'nothing' for v in value)}" if value else "")
    settings = context.survey.events_of(Setting)
    if not settings:
        return NotCheckable(asked, "the job's environment (NCCL INFO lines, the launch script or the output of env)")
    for seen in settings:
        if is_assigned(seen, name, value):
            return Met(asked, f"{seen.name}={excerpt(seen.value)}", str(seen.place))
    return Unmet(asked, "none of the settings found")


@predicate(weight=0.85)
def setting_differs(context: Context, *, name: tuple[str, ...]) -> Answer:
    """Two ranks show different values of one of these variables, by the last value that each shows."""
    asked = f"ranks differ in {listed(name)}"
    owned = [(seen, context.survey.owner_of(seen)) for seen in context.survey.events_of(Setting) if seen.name in name]
    last = {(seen.name, owner): seen for seen, owner in owned if owner is not None}
    if len({rank for _, rank in last}) < 2:
        return NotCheckable(asked, "these variables on two ranks (NCCL INFO lines or the output of env of each)")
    first: dict[str, tuple[int, str]] = {}
    for (variable, rank), seen in sorted(last.items(), key=lambda pair: pair[0]):
        other, value = first.setdefault(variable, (rank, seen.value))
        if value != seen.value:
            says = f"{variable} is {excerpt(value)} on rank {other} and {excerpt(seen.value)} on rank {rank}"
            return Met(asked, says, str(seen.place))
    return Unmet(asked, "all ranks that show it have the same value")


def is_assigned(seen: Setting, name: tuple[str, ...], value: tuple[str, ...]) -> bool:
    """True where a setting has one of the names and, where values are given, one of the values."""
    if seen.name not in name:
        return False
    given = seen.value.strip().strip("'\"").lower()
    return not value or any(given.startswith(v[:-1].lower()) if v.endswith("*") else given == v.lower() for v in value)


@predicate(weight=0.8)
def advice(context: Context, *, about: tuple[str, ...]) -> Answer:
    """A note in the input recommends this: barrier, copy, nccl-version, try-except or smaller-batch."""
    asked = f"a note in the input recommends {listed(about)}"
    notes = (note for note in context.survey.events_of(Note) if note.what == "advice" and note.detail in about)
    note = next(notes, None)
    return Met(asked, quoted(note), str(note.place)) if note else Unmet(asked, "no note recommends it")
