"""Judges each variable that is set in files, for ``nccldoctor env check``: who reads it, and what is the matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.facts import align
from nccldoctor.events import Setting
from nccldoctor.identify.case import Case
from nccldoctor.pipeline import read
from nccldoctor.prescribe.catalogue.overlays import in_use
from nccldoctor.prescribe.catalogue.pages import NOTHING_FOUND
from nccldoctor.prescribe.conditions import Context, Survey
from nccldoctor.prescribe.discouraged import advice_against, assignment, judge_settings, settings_seen
from nccldoctor.prescribe.setting_table import look_up
from nccldoctor.prescribe.settings import Judgement, Kind
from nccldoctor.reports.parts import prose
from nccldoctor.words.numbers import plural
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import sentence

JUDGED = ("NCCL_", "TORCH_", "GLOO_")
"""Prefixes of the libraries that take part in a collective: each such name gets an answer, known or not."""

_QUIET = {Kind.NEEDLESS, Kind.RENAMED, Kind.UNKNOWN, Kind.OWN}
"""Worth a word, and no reason to change anything."""


class Row(Struct, frozen=True):
    """One setting: ``verdict`` is ``fix`` (it has no effect or harms), ``note`` or ``fine``."""

    name: str
    value: str
    place: str
    verdict: str
    says: tuple[str, ...]


def check_case(case: Case, torch: str | None = None, nccl: str | None = None) -> tuple[Row, ...]:
    """A row for each distinct setting of the input, in its order; versions given here win over those seen."""
    survey = Survey(align(case))
    remarks: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in judge_settings(survey, torch or case.torch, nccl or case.nccl):
        remarks.setdefault((judgement.name, judgement.value), []).append(judgement)
    # advice of the catalogue against what is seen, where that depends on no finding
    seen = [Context(NOTHING_FOUND, survey)]
    against = {advice.what: advice.why for advice in advice_against(seen, in_use().catalogue, ())}
    rows: dict[tuple[str, str], Row] = {}
    for setting in settings_seen(survey):
        key = (setting.name, setting.value)
        if key not in rows and (setting.name.startswith(JUDGED) or key in remarks or assignment(*key) in against):
            rows[key] = _verdict_row(setting, remarks.get(key, []), against.get(assignment(*key)))
    return tuple(rows.values())


def rows_of_file(file: str, torch: str | None, nccl: str | None) -> Iterator[Row]:
    """The rows of one file of many, or of a folder; their places begin as the user named it."""
    top = Path(file) if Path(file).is_dir() else Path(file).parent
    for row in check_case(read([file]), torch, nccl):
        yield replace(row, place=str(top / row.place))


def _verdict_row(setting: Setting, remarks: list[Judgement], against: str | None) -> Row:
    says = [remark.says for remark in remarks]
    if against is not None and not any(remark.avoid for remark in remarks):
        says = [*(text for text in says if not against.lower().startswith(text.lower())), against]
    loud = any(remark.kind not in _QUIET for remark in remarks) or (against and setting.name.startswith(JUDGED))
    verdict = "fix" if loud else "note" if says else "fine"
    if not says:
        row = look_up(setting.name)
        says, verdict = ([row.meaning], "fine") if row else (["unknown name; your program may read it"], "note")
    return Row(setting.name, setting.value, str(setting.place), verdict, tuple(says))


def fix_lines(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each setting that needs a fix, which begins as those of compilers do."""
    for row in rows:
        if row.verdict == "fix":
            told = " ".join(sentence(prose.plain(text)) for text in row.says)
            yield f"{line(row.place)}: {line(assignment(row.name, row.value))}: {line(told)}\n"


def settings_lines(rows: Sequence[Row]) -> Iterator[str]:
    """A block for each setting, what to fix first, ending in a count."""
    order = ("fix", "note", "fine")
    for row in sorted(rows, key=lambda row: order.index(row.verdict)):
        yield f"{row.verdict:<5} {line(assignment(row.name, row.value))}  ({line(row.place)})\n"
        yield from (f"      {line(sentence(prose.plain(text)))}\n" for text in row.says)
    counts = ", ".join(f"{sum(row.verdict == verdict for row in rows)} {verdict}" for verdict in order)
    yield f"{plural(len(rows), 'setting')}: {counts}\n" if rows else "no NCCL_*, TORCH_* or GLOO_* settings found\n"
