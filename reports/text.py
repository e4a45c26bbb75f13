"""The terminal summary: the same facts in the same order as the page, one screen long."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from io import StringIO
from typing import NamedTuple

from nccldoctor.model import CauseClass, Confidence, Diagnosis, Family, Role
from nccldoctor.patterns import lazy
from nccldoctor.reports.parts import advice, missing_inputs, prose, rank_rows, wording
from nccldoctor.reports.parts.listed import first
from nccldoctor.words import names, numbers, times
from nccldoctor.words.sanitize import line

ROWS = 12
"""Rows of the rank table; more are counted."""

FINDINGS = 5
_LABEL = 14
_NUMBERS = (3, 4)
_SPARED = (2, 1)
_PLAIN = str.maketrans({"\u2014": "-", "\u2013": "-", "─": "-", "…": "...", "→": "->", "“": '"', "”": '"'})
_UNIT = lazy(r"(?<=\d) (?=(?:ms|s|min|h)\b)")


class Span(NamedTuple):
    """A stretch of one line and its style, as rich names it."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def plain(diagnosis: Diagnosis, *, width: int, ascii_only: bool) -> str:
    """The summary without colour; imports nothing of weight. ``ascii_only`` is for terminals without UTF-8."""
    rows = ("".join(span.text for span in spans).rstrip() for spans in lines(diagnosis, width))
    text = "".join(f"{row}\n" for row in rows)
    return _ascii(text) if ascii_only else text


def colored(diagnosis: Diagnosis, *, width: int, ascii_only: bool) -> str:
    """The summary with ANSI colours of the 16 that every terminal has."""
    from rich.console import Console
    from rich.text import Text

    shown = Text()
    for spans in lines(diagnosis, width):
        for span in spans:
            shown.append(_ascii(span.text) if ascii_only else span.text, style=span.style or None)
        shown.append("\n")
    out = StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", highlight=False, no_color=False)
    console.print(shown, soft_wrap=True, end="")
    return out.getvalue()


def lines(diagnosis: Diagnosis, width: int) -> list[Line]:
    """The summary as styled lines of at most ``width`` characters (40 at least); a blank one between its blocks."""
    width = max(width, 40)
    out: list[Line] = []
    for block in (_verdict, _others, _ranks, _steps):
        rows = list(block(diagnosis, width))
        out += [(), *rows] if rows and out else rows
    return out


def _ascii(text: str) -> str:
    return text.translate(_PLAIN).encode("ascii", "backslashreplace").decode("ascii")


def _verdict(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    finding = diagnosis.verdict
    yield from _wrapped(line(finding.headline, 600), width, "bold")
    yield ()
    for label, text, style in _facts(diagnosis):
        yield from _labelled(label, text, width, style)
    sentences = wording.summary(diagnosis)
    if sentences:
        yield ()
        yield from _wrapped(sentences, width, "")


def _facts(diagnosis: Diagnosis) -> Iterator[tuple[str, str, str]]:
    """Label, text and style of each fact."""
    finding = diagnosis.verdict
    if finding.ranks or finding.suspects:
        yield from _culprits(diagnosis)
    elif finding.family not in (Family.NONE, Family.UNDETERMINED):
        yield wording.culprit_label(finding), "not known", "bold"
    if finding.stalled is not None:
        yield "Stalled at", stalled_detail(diagnosis), ""
    situation = wording.situation(diagnosis)
    title = f"{wording.TITLES[finding.cause]} ({situation})" if situation else wording.TITLES[finding.cause]
    yield "Class", f"{finding.cause.value}: {title}", ""
    yield (
        "Confidence",
        wording.confidence_words(finding),
        "green" if finding.confidence is Confidence.HIGH else "yellow",
    )
    if doubts := wording.doubts_words(finding):
        yield "Not surer", line(doubts, 300), ""
    if other := wording.runner_up_words(finding):
        yield "Or else", line(other, 300), ""
    for notice in diagnosis.notices:
        yield "Note", line(notice, 300), "yellow"
    if missing_inputs.wanted(diagnosis) or finding.family is Family.NONE:
        yield "Read", missing_inputs.input_line(diagnosis), ""


def _culprits(diagnosis: Diagnosis) -> Iterator[tuple[str, str, str]]:
    """The ranks at fault or under suspicion; of a single one also host, device, process and last sign of life."""
    finding = diagnosis.verdict
    named = finding.ranks or finding.suspects
    state = next((state for state in diagnosis.ranks if state.rank == min(named)), None)
    detail = wording.others_may_be(diagnosis)
    if state and len(named) == 1:
        inside = [line(state.device, 40)] if state.device else []
        inside += [f"pid {state.pid}"] if state.pid is not None else []
        within = f" ({', '.join(inside)})" if inside else ""
        detail = (f" on {line(state.host, 60)}" if state.host else "") + within + detail
    yield wording.culprit_label(finding), f"{names.ranks_phrase(named)}{detail}", "bold"
    if state and len(named) == 1 and state.last_sign:
        yield "Last seen", line(state.last_sign, 200), ""


def stalled_detail(diagnosis: Diagnosis) -> str:
    """``ALLREDUCE #18723  group dp_1, numel 6,553,600, 3 of 4 ranks arrived``."""
    call = diagnosis.verdict.stalled
    if call is None:
        return ""
    parts = [f"group {names.group_title(call.group).removeprefix('group ')}"] if call.group else []
    parts += [f"numel {call.numel_in:,}"] if call.numel_in is not None and call.numel_in >= 0 else []
    parts += [arrived] if (arrived := wording.arrived(diagnosis, call)) else []
    parts += [f"limit {times.duration(call.timeout_ms)}"] if call.timeout_ms and call.timeout_ms > 0 else []
    return wording.stalled_name(call) + (f"  {', '.join(parts)}" if parts else "")


def _others(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    others = first(wording.others(diagnosis), FINDINGS)
    if others.shown:
        yield (Span("Also found", "bold"),)
    for finding in others.shown:
        text = f"{finding.id}  {line(finding.headline, 300)} ({finding.cause.value}, {finding.confidence.value})"
        yield from _wrapped(text, width, "", "  ")
    if others.more:
        yield (Span(f"  and {others.more} more in the JSON", "dim"),)


def _ranks(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    rows = rank_rows.folded(diagnosis.ranks)
    if not rows:
        return
    cells = [["ranks", "host", "group", "done", "enqueued", "role"], *(_cells(row, diagnosis) for row in rows[:ROWS])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    columns = _fitting(widths, width)
    for number, texts in enumerate(cells):
        text = "  ".join(texts[n].rjust(widths[n]) if n in _NUMBERS else texts[n].ljust(widths[n]) for n in columns)
        style = "dim" if number == 0 else _STYLES.get(rows[number - 1].role, "")
        yield (Span(text[:width].rstrip(), style),)
        if number == 0:
            yield (Span("─" * min(len(text), width), "dim"),)
    if len(rows) > ROWS:
        left = sum(len(row.ranks) for row in rows[ROWS:])
        yield (Span(f"and {numbers.plural(left, 'rank')} more", "dim"),)


def _cells(row: rank_rows.Row, diagnosis: Diagnosis) -> list[str]:
    hosts = line(row.hosts[0], 24) if row.hosts else ""
    hosts += f" +{len(row.hosts) - 1}" if len(row.hosts) > 1 else ""
    counts = ["" if n is None else str(n) for n in (row.completed, row.enqueued)]
    cause = diagnosis.verdict.cause if row.role is Role.CULPRIT else CauseClass.NONE
    return [names.few(row.ranks, 4), hosts, line(row.group or "", 24), *counts, wording.role_word(row.role, cause)]


def _fitting(widths: list[int], room: int) -> list[int]:
    """The columns of the rank table that fit: where it is too wide, the group goes first, then the host."""
    columns = list(range(len(widths)))
    for least in _SPARED:
        if sum(widths[n] + 2 for n in columns) - 2 > room:
            columns.remove(least)
    return columns


_STYLES = {Role.CULPRIT: "bold red", Role.SUSPECT: "yellow", Role.VICTIM: ""}


def _steps(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    for step in advice.first_steps(diagnosis):
        yield from _labelled(step.label, prose.plain(step.text), width, "")
    for dont in advice.donts(diagnosis)[:2]:
        where = f" (seen in {line(dont.where, 200)})" if dont.where else ""
        yield from _labelled("Avoid", f"{prose.plain(dont.what)}: {prose.plain(dont.why)}{where}", width, "")
    if diagnosis.remedies:
        best = diagnosis.remedies[0]
        name = line(best.id, 80)
        whose = "" if best.origin == "built-in" else f" (remedy of {line(best.origin, 80)})"
        text = f"{name}{whose}, {wording.conditions_met(best)}; nccldoctor explain {name}"
        yield from _labelled("Remedy", text, width, "dim")


def _labelled(label: str, text: str, width: int, style: str) -> Iterator[Line]:
    column = max(_LABEL, len(label) + 1)
    room = max(width - column, 24)
    for number, piece in enumerate(_pieces(text, room)):
        yield (Span((label if number == 0 else "").ljust(column), "bold"), Span(piece, style))


def _wrapped(text: str, width: int, style: str, indent: str = "") -> Iterator[Line]:
    for number, piece in enumerate(_pieces(text, width - len(indent))):
        yield (Span(("" if number == 0 else indent) + piece, style),)


def _pieces(text: str, width: int) -> list[str]:
    """``text`` in lines; breaks at blanks where it can (commands can be copied), not between number and unit."""
    out: list[str] = []
    for part in text.splitlines() or [""]:
        bound = _UNIT.sub("\N{NO-BREAK SPACE}", part)
        out += textwrap.wrap(bound, width, break_on_hyphens=False) or [""]
    return [piece.replace("\N{NO-BREAK SPACE}", " ") for piece in out]
