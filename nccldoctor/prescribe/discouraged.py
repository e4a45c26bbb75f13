"""Advice against what is seen in the input: popular settings and fixes that do nothing or harm, with the place they
stand at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nccldoctor.events import Note, Setting
from nccldoctor.model import Avoid
from nccldoctor.prescribe.conditions import Context, Met, Survey, ask
from nccldoctor.prescribe.conditions.environment import is_assigned
from nccldoctor.prescribe.settings import Judgement, Kind

if TYPE_CHECKING:
    from nccldoctor.prescribe.catalogue.load import Catalogue, Entry
    from nccldoctor.prescribe.catalogue.remedy import Clause


def avoid(contexts: list[Context], catalogue: Catalogue, judgements: tuple[Judgement, ...]) -> Iterator[Avoid]:
    """Advice against what is seen in the input: folklore first, in its words, then what the settings say of
    themselves.
    """
    own = {judgement.name for judgement in judgements if judgement.kind is Kind.OWN}
    said: set[str] = set()
    for entry in catalogue.entries:
        if entry.topic == "folklore" and contexts:
            for name, what, place in _matches(entry, contexts):
                if what not in said and name not in own:
                    said.add(what)
                    yield Avoid(what, entry.remedy.avoid[0].why, place)
    for judgement in judgements:
        what = assignment(judgement.name, judgement.value)
        if judgement.avoid and what not in said:
            said.add(what)
            yield Avoid(what, judgement.says, str(judgement.place))


def settings_seen(survey: Survey) -> tuple[Setting, ...]:
    """What is set, each by the rank whose file shows it, and what notes in the input say to set."""
    advised = []
    for note in survey.events_of(Note):
        if note.what == "advice" and note.detail.isascii() and note.detail[:1].isupper():
            name, _, value = note.detail.partition("=")
            advised.append(Setting(place=note.place, text=note.text, name=name, value=value))
    attributed = (
        replace(s.event, rank=s.rank if s.event.rank is None else s.event.rank) for s in survey.surveyed(Setting)
    )
    return (*(setting for setting in attributed if isinstance(setting, Setting)), *advised)


def assignment(name: str, value: str) -> str:
    """A setting as people write it: ``NAME=value``, ``init_process_group(timeout=3600 s)``, or the bare name."""
    if name.endswith("=)"):
        return f"{name[:-1]}{value})"
    return f"{name}={value}" if value else name


def _matches(entry: Entry, contexts: list[Context]) -> Iterator[tuple[str, str, str | None]]:
    """Every distinct thing that a piece of folklore is about and that is seen: its name, its text, its first place."""
    remedy = entry.remedy
    context = next((s for s in contexts if all(_is_met(s, c) for c in remedy.clauses("all"))), None)
    if context is None or any(_is_met(context, c) for c in remedy.clauses("none")):
        return
    for clause in (*remedy.clauses("all"), *remedy.clauses("any")):
        if clause.name == "setting":
            names, wanted = _setting_arguments(clause.arguments)
            for seen in settings_seen(context.survey):
                if is_assigned(seen, names, wanted):
                    yield seen.name, assignment(seen.name, seen.value), str(seen.place)
        elif clause.name != "finding":
            answer = ask(context, clause.name, clause.arguments)
            if isinstance(answer, Met):
                yield "", remedy.avoid[0].what, answer.where


def _setting_arguments(arguments: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names, wanted = arguments.get("name", ()), arguments.get("value", ())
    return (names if isinstance(names, tuple) else ()), (wanted if isinstance(wanted, tuple) else ())


def _is_met(context: Context, clause: Clause) -> bool:
    return isinstance(ask(context, clause.name, clause.arguments), Met)
