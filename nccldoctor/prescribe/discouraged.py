"""Advises against settings and popular fixes in the input that do nothing or harm, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nccldoctor.events import Note, Setting
from nccldoctor.model import Avoid
from nccldoctor.prescribe.conditions import Context, Met, Survey, ask
from nccldoctor.prescribe.conditions.environment import is_assigned
from nccldoctor.prescribe.settings import Judgement, Kind, judge

if TYPE_CHECKING:
    from nccldoctor.prescribe.catalogue.load import Catalogue, Entry
    from nccldoctor.prescribe.catalogue.remedy import Clause


def advice_against(
    contexts: list[Context], catalogue: Catalogue, judgements: tuple[Judgement, ...]
) -> tuple[Avoid, ...]:
    """One piece of advice for each thing seen: first in the words of the catalogue, then by the judgements."""
    own = {judgement.name for judgement in judgements if judgement.kind is Kind.OWN}
    settings = _chosen(settings_seen(contexts[0].survey)) if contexts else ()
    advice: dict[str, Avoid] = {}
    for entry in catalogue.entries:
        if entry.is_discouraged:
            for name, what, place in _matches(entry, contexts, settings):
                if name not in own:
                    advice.setdefault(what, Avoid(what, entry.remedy.avoid[0].why, place))
    for judgement in judgements:
        if judgement.avoid:
            what = assignment(judgement.name, judgement.value)
            advice.setdefault(what, Avoid(what, judgement.says, str(judgement.place)))
    return tuple(advice.values())


def judge_settings(survey: Survey, torch: str | None, nccl: str | None) -> tuple[Judgement, ...]:
    """Every remark on the settings of the input, by the versions given (None: not known)."""
    readers = {note.detail: note.place for note in reversed(survey.events_of(Note)) if note.what == "reads-variable"}
    return judge(settings_seen(survey), torch, nccl, readers)


def settings_seen(survey: Survey) -> tuple[Setting, ...]:
    """The settings of the input, each with the rank whose file shows it, and those that notes advise."""
    advised = []
    for note in survey.events_of(Note):
        if note.what == "advice" and note.detail.isascii() and note.detail[:1].isupper():
            name, _, value = note.detail.partition("=")
            advised.append(Setting(place=note.place, text=note.text, name=name, value=value))
    return (*(replace(setting, rank=survey.owner_of(setting)) for setting in survey.events_of(Setting)), *advised)


def assignment(name: str, value: str) -> str:
    """A setting as people write it: ``NAME=value``, ``init_process_group(timeout=3600 s)``, or the bare name."""
    if name.endswith("=)"):
        return f"{name[:-1]}{value})"
    return f"{name}={value}" if value else name


_TORCHRUN_GIVES = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING")
"""What torchrun sets to 1 in each rank's environment unless the user set it, by the second name before PyTorch 2.2
(``torch/distributed/elastic/agent/server/local_elastic_agent.py``, 2.13)."""


def _chosen(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """Without what torchrun gives to every rank: values beside its own variables, in the environment of a rank."""
    environments = {setting.place.path for setting in settings if setting.name.startswith("TORCHELASTIC_")}
    return tuple(
        setting
        for setting in settings
        if setting.name not in _TORCHRUN_GIVES or setting.value != "1" or setting.place.path not in environments
    )


def _matches(
    entry: Entry, contexts: list[Context], settings: tuple[Setting, ...]
) -> Iterator[tuple[str, str, str | None]]:
    """Everything seen that an entry advises against: its name, its text, its place."""
    remedy = entry.remedy
    context = next((each for each in contexts if all(is_met(each, c) for c in remedy.clauses("all"))), None)
    if context is None or any(is_met(context, c) for c in remedy.clauses("none")):
        return
    for clause in (*remedy.clauses("all"), *remedy.clauses("any")):
        if clause.name == "setting":
            for setting in settings:
                if is_assigned(setting, clause.arguments["name"], clause.arguments.get("value", ())):
                    yield setting.name, assignment(setting.name, setting.value), str(setting.place)
        elif clause.name != "finding":
            answer = ask(context, clause.name, clause.arguments)
            if isinstance(answer, Met):
                yield "", remedy.avoid[0].what, answer.where


def is_met(context: Context, clause: Clause) -> bool:
    """True where a condition is met."""
    return ask(context, clause.name, clause.arguments).holds is True
