"""The words of a remedy: placeholders filled in, steps as lines, the whole as CommonMark."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nccldoctor.prescribe.catalogue.remedy import Step

_PLACEHOLDER = re.compile(r"\{\{\s*([a-z_]{1,40})\s*\}\}")
_UNSAFE = re.compile(r"[^\w.:/@,+ ()%-]")
_LONGEST = 120
_NAMELESS = {
    "rank": "the rank at fault",
    "ranks": "the rank at fault",
    "host": "the host at fault",
    "hosts": "the hosts at fault",
    "pid": "its process",
    "device": "its GPU",
    "waiting_rank": "a waiting rank",
    "waiting_host": "the host of a waiting rank",
    "group": "the group",
    "op": "the stalled call",
    "seq": "the stalled call",
}
"""What a sentence of a report says for a value that is not known."""
_NAMED = re.compile(r"(?:\b(?:rank|host|pid|call|group) )?\{\{\s*([a-z_]{1,40})\s*\}\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """``text`` with its placeholders replaced; a value that is not known leaves ``<host>``.

    Values come from logs: characters that mean something to CommonMark are escaped, others that cannot be printed
    dropped.
    """

    def value(match: re.Match[str]) -> str:
        held = values.get(match.group(1))
        return as_text(held) if held else f"<{match.group(1).replace('_', ' ')}>"

    return _PLACEHOLDER.sub(value, text)


def worded(text: str, values: Mapping[str, str]) -> str:
    """A sentence for a report: as :func:`fill`, but what is not known is told in words, its noun included (``host
    {{ host }}`` is *the host at fault*). A page of the catalogue keeps ``<host>``, which shows what is filled in.
    """

    def nameless(match: re.Match[str]) -> str:
        return match.group() if values.get(match.group(1)) else _NAMELESS.get(match.group(1), match.group())

    return fill(_NAMED.sub(nameless, text), values)


def fill_command(command: str, values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """A shell command with each value quoted for the shell, and the names that are not known.

    A host name from a log must not become a command.
    """
    unknown: list[str] = []

    def value(match: re.Match[str]) -> str:
        held = _printable(values.get(match.group(1), ""))
        if held:
            return shlex.quote(held)
        unknown.append(match.group(1))
        return f"<{match.group(1).replace('_', ' ')}>"

    return _PLACEHOLDER.sub(value, command), tuple(dict.fromkeys(unknown))


def _printable(text: str) -> str:
    return "".join(c for c in text[:_LONGEST] if c.isprintable())


def as_text(text: str) -> str:
    """Words from outside as CommonMark that shows them unchanged, on one line and cut."""
    return _UNSAFE.sub(lambda m: "\\" + m.group() if m.group().isascii() else m.group(), _printable(text))


def code_span(text: str) -> str:
    """A CommonMark code span around any text, backticks inside included."""
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def step_line(step: Step, values: Mapping[str, str], *, in_words: bool = False) -> str:
    """One step as a line of CommonMark: what to do, the command, where, what to expect. ``in_words`` as in
    :func:`worded`; a command keeps its blanks, and says so.
    """
    told = worded if in_words else fill
    parts = [told(step.text, values)] if step.text else []
    if step.command:
        command, unknown = fill_command(step.command, values)
        where = f" on {told(step.where, values)}" if step.where else ""
        blanks = ", ".join(f"<{name.replace('_', ' ')}>" for name in unknown)
        notes = ([f"fill in {blanks} first"] if blanks else []) + (
            [] if step.read_only else ["this changes the machine"]
        )
        parts.append(f"run {code_span(command)}{where}" + (f" ({'; '.join(notes)})" if notes else ""))
    if step.expect:
        parts.append(f"expect {told(step.expect, values)}")
    line = ": ".join(parts)
    return line[:1].upper() + line[1:]
