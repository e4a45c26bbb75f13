"""Judges the environment variables seen in the input: who reads them, in this version, in this unit, all together.

A name that is not in ``settings.csv`` is *unknown*: it is never called useless. A name that neither NCCL nor PyTorch
reads may be read by the job's own program, and is called so where the input shows that. The values that are held
against a variable stand in ``setting_checks.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from nccldoctor.events import Setting
from nccldoctor.model import Place
from nccldoctor.model.ranks import Ranks
from nccldoctor.prescribe.conditions.environment import version_tuple
from nccldoctor.prescribe.setting_table import BLOCKING_WAIT, Known, is_misspelt, look_up, nearest
from nccldoctor.words.lists import and_list
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sentences import sentence

_MOST = 10_000
"""Settings judged at most: an INFO log of thousands of ranks repeats some dozens."""


class Kind(StrEnum):
    """The kinds of remarks on a setting."""

    NOT_READ = "not-read"
    OWN = "read-by-program"
    RENAMED = "renamed"
    VERSION = "not-in-version"
    UNIT = "wrong-unit"
    HARMFUL = "harmful"
    NEEDLESS = "needless"
    CONTRADICTING = "contradicting"
    DIFFERS = "differs"
    UNKNOWN = "unknown"
    MISSPELT = "misspelt"


class Judgement(Struct, frozen=True):
    """One remark on one setting; ``avoid`` where it has no effect or harms, and belongs among the advice against."""

    kind: Kind
    name: str
    value: str
    says: str
    place: Place
    avoid: bool = False
    ranks: Ranks = Ranks()


def judge(
    settings: Iterable[Setting], torch: str | None, nccl: str | None, readers: Mapping[str, Place] | None = None
) -> tuple[Judgement, ...]:
    """Every remark on the settings seen, in the order of their first sighting; one for each name, value and kind.

    ``torch`` and ``nccl`` are versions as printed, None where unknown: nothing is said of a version that is not known.
    ``readers`` names the variables that the job's own program was seen to read, and where.
    """
    first: dict[tuple[str, str, int | None], Setting] = {}
    for setting in settings:
        first.setdefault((setting.name, setting.value, setting.rank), setting)
    distinct = list(first.values())[:_MOST]
    by_name: dict[str, list[Setting]] = {}
    for setting in distinct:
        by_name.setdefault(setting.name, []).append(setting)
    judgements: list[Judgement] = []
    for setting in distinct:
        row = look_up(setting.name)
        if row is None:
            judgements += _unknown(setting)
        elif row.status == "not read":
            judgements.append(_not_read(setting, row, (readers or {}).get(setting.name)))
        else:
            judgements += filter(None, (_outside_version(setting, row, torch, nccl),))
            judgements += _of_value(setting, row)
    judgements += _contradictions(by_name)
    judgements += _differences(by_name)
    return tuple(dict.fromkeys(judgements))


_TABLES = tomllib.loads(Path(__file__).with_name("setting_checks.toml").read_text(encoding="utf-8"))


def _remark(kind: Kind, setting: Setting, says: str, *, avoid: bool = False) -> Judgement:
    return Judgement(kind, setting.name, setting.value, says, setting.place, avoid)


def _unknown(setting: Setting) -> Iterator[Judgement]:
    """A name that is not in the table: misspelt where one letter is wrong, else never called useless."""
    near = nearest(setting.name)
    if near and is_misspelt(setting.name, near):
        says = f"probably misspelt: nothing that we know reads it, and {near} keeps its default"
        yield _remark(Kind.MISSPELT, setting, says)
    elif setting.name.startswith(("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_")):
        hint = f". Did you mean {near}?" if near else ""
        yield _remark(Kind.UNKNOWN, setting, f"unknown name; a plugin or your program may read it{hint}")


def _not_read(setting: Setting, row: Known, reader: Place | None) -> Judgement:
    """A name that no library reads: without effect, unless the program itself reads it at ``reader``."""
    if reader is not None:
        return _remark(Kind.OWN, setting, f"neither NCCL nor PyTorch reads it, but your program does ({reader})")
    private = "a program may" in row.read_by and row.name != "NCCL_TIMEOUT"
    says = f"no effect: {row.meaning}" + (f"; {row.notes}" if row.notes else "")
    return _remark(Kind.NOT_READ, setting, says, avoid=not private)


def _outside_version(setting: Setting, row: Known, torch: str | None, nccl: str | None) -> Judgement | None:
    """A name that the version in use does not read yet, or no longer."""
    used = {"nccl": nccl, "torch": torch}.get(row.read_by)
    if used is None:
        return None
    reader = "NCCL" if row.read_by == "nccl" else "PyTorch"
    first = row.first_seen.split(" ")[0].lstrip("~")
    says = ""
    # Torch's first releases are approximate in the table, so only the exact ones are held against a setting.
    if first[:1].isdigit() and not row.first_seen.startswith("~") and version_tuple(used) < version_tuple(first):
        says = f"no effect: {reader} reads it from {first} on, and this is {used}"
    elif row.status == "removed" and row.last_seen and version_tuple(used) > version_tuple(row.last_seen):
        says = f"no effect: {reader} read it up to {row.last_seen}, and this is {used}"
    return _remark(Kind.VERSION, setting, says, avoid=True) if says else None


def number(text: str) -> int | None:
    """A whole number as C's strtoll reads it, None where there is none."""
    try:
        return int(text.strip().strip("'\""), 0)
    except ValueError:
        return None


def is_on(value: str) -> bool:
    """True where PyTorch takes a value for *on*: 1, y, yes, t, true."""
    return value.strip().strip("'\"").lower() in ("1", "y", "yes", "t", "true", "on")


def _wrong_unit(setting: Setting, row: Known) -> Judgement | None:
    """A value that cannot be meant: out of range, not a number, or no word of those that are read."""
    value = setting.value.strip().strip("'\"")
    if not value or value.startswith(("$", "<", "%")):
        return None
    count, bounds, takes = number(value), _TABLES["ranges"].get(row.name), ""
    if bounds is not None:
        if count is None or not bounds["low"] <= count <= bounds["high"]:
            takes = bounds["takes"]
    elif "|" in row.unit:
        words = (*row.unit.split("|"), *(("ABORT",) if row.name == "NCCL_DEBUG" else ()))
        if value.upper() not in words:
            takes = f"one of {', '.join(words)}"
    elif row.unit in ("bytes", "ms", "s", "ns", "us", "count", "entries") and count is None:
        takes = f"a whole number ({row.unit})"
    return _remark(Kind.UNIT, setting, f"must be {takes}", avoid=True) if takes else None


def _of_value(setting: Setting, row: Known) -> Iterator[Judgement]:
    """An old name; a value that is wrong, makes a hang eternal, blinds the next diagnosis, or is the default."""
    if row.status == "renamed, still read":
        yield _remark(Kind.RENAMED, setting, row.meaning)
    if (wrong := _wrong_unit(setting, row)) is not None:
        yield wrong
    harm, default = (_TABLES[of].get(setting.name) for of in ("harmful", "defaults"))
    word = setting.value.strip().strip("'\"").lower()  # PyTorch takes a zero and these for *off*
    is_off = number(setting.value) == 0 or word in ("n", "no", "f", "false", "off")
    if harm is not None and (is_on(setting.value) if harm["when"] == "on" else is_off):
        yield _remark(Kind.HARMFUL, setting, harm["says"], avoid=not harm.get("was_default"))
    if default is not None and number(setting.value) == default:
        yield _remark(Kind.NEEDLESS, setting, "already the default")


def _contradictions(by_name: Mapping[str, list[Setting]]) -> Iterator[Judgement]:
    """Settings of which one makes the other pointless."""

    def first(holds: Callable[[str], bool], *names: str) -> Setting | None:
        return next((s for name in names for s in by_name.get(name, ()) if holds(s.value)), None)

    blocking = first(is_on, *BLOCKING_WAIT)
    no_infiniband = first(is_on, "NCCL_IB_DISABLE")
    if blocking is not None:
        cause = f"{blocking.name}={blocking.value} ({blocking.place})"
        for name in _TABLES["needs_watchdog"]:
            if (other := first(lambda value: number(value) != 0, name)) is not None:
                says = f"no effect without the watchdog, and {cause} turns the watchdog off"
                yield _remark(Kind.CONTRADICTING, other, says)
    monitor = first(lambda value: number(value) == 0, "TORCH_NCCL_ENABLE_MONITORING")
    dump = first(is_on, "TORCH_NCCL_DUMP_ON_TIMEOUT")
    if monitor is not None and dump is not None:
        says = f"no effect without the heartbeat monitor, and {monitor.name}=0 ({monitor.place}) turns it off"
        yield _remark(Kind.CONTRADICTING, dump, says)
    for names in _TABLES["same_setting"]:
        new, old = (first(bool, name) for name in names)
        if new is not None and old is not None and new.value != old.value:
            says = f"{old.name}={old.value} ({old.place}) is the old name of the same setting, with a different value"
            yield _remark(Kind.CONTRADICTING, new, says)
    if no_infiniband is not None:
        for name in _TABLES["needs_infiniband"]:
            if (other := first(bool, name)) is not None:
                says = f"no effect with NCCL_IB_DISABLE={no_infiniband.value} ({no_infiniband.place})"
                yield _remark(Kind.CONTRADICTING, other, says)


def _differences(by_name: Mapping[str, list[Setting]]) -> Iterator[Judgement]:
    """Settings that must be equal on all ranks and are not, by the last value that each rank shows."""
    for name, assigned in by_name.items():
        row = look_up(name)
        if row is None or not row.is_same_on_all_ranks:
            continue
        last = {s.rank: s for s in assigned if s.rank is not None}
        values = sorted({s.value for s in last.values()})
        if len(values) < 2:
            continue
        groups = {value: Ranks(r for r, s in last.items() if s.value == value) for value in values}
        minority = min(values, key=lambda value: (len(groups[value]), value))
        says = "must be equal on all ranks, but is "
        says += and_list([f"{value} on {ranks_phrase(groups[value])}" for value in values[:5]])
        place = last[next(iter(groups[minority]))].place
        yield Judgement(Kind.DIFFERS, name, minority, says, place, True, groups[minority])


def describe_setting(name: str) -> str | None:
    """A variable as CommonMark text, None where it is not known: what it does, who reads it, and what harms."""
    row = look_up(name)
    if row is None:
        return None
    reader, since = _TABLES["readers"].get(row.read_by, row.read_by), row.first_seen.replace("~", "about ")
    status = row.status if since or row.status != "read" else "read, since unknown"
    told = _TABLES["told"][status].format(reader=reader, since=since, last=row.last_seen)
    harm = _TABLES["harmful"].get(name)
    warning = f"If it is {harm['when']}: {harm['says']}" if harm else ""
    value = f"Its value: {row.unit}" if row.unit else ""
    same = "All ranks need the same value" if row.is_same_on_all_ranks else ""
    facts = " ".join(sentence(text) for text in (told, value, same, row.notes) if text)
    return "\n\n".join(filter(None, (f"# {name}", sentence(row.meaning), facts, sentence(warning)))) + "\n"
