"""Fills in the texts of a remedy: placeholders, commands, steps as lines of CommonMark."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nccldoctor.words.sentences import capitalized

if TYPE_CHECKING:
    from nccldoctor.prescribe.catalogue.remedy import Step

_PLACEHOLDER = re.compile(r"\{\{\s*([a-z_]{1,40})\s*\}\}")
_UNSAFE = re.compile(r"[^\w.:/@,+ ()%-]")
_LONGEST = 120
PLACEHOLDERS: dict[str, str] = tomllib.loads(
    (Path(__file__).parents[1] / "placeholders.toml").read_text(encoding="utf-8")
)
"""Names that may stand as ``{{ name }}`` in a remedy, and what a report says for a value that is not known."""
SHOWS_NODE = "kubectl get pod {} -o wide"
"""The command that shows on which node a pod runs."""
_NAMED = re.compile(r"(?: #|\b(?:rank|host|pid|call|group) )?\{\{\s*([a-z_]{1,40})\s*\}\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """``text`` with its placeholders replaced; a value that is not known leaves ``<host>``.

    Values come from logs: what means something to CommonMark is escaped, what cannot be printed is dropped.
    """
    return _PLACEHOLDER.sub(
        lambda m: as_text(values[m[1]]) if values.get(m[1]) else f"<{m[1].replace('_', ' ')}>", text
    )


def fill_in_words(text: str, values: Mapping[str, str]) -> str:
    """A sentence for a report: as :func:`fill`, but a value that is not known is put in words.

    ``host {{ host }}`` becomes *the host at fault*, its noun included, and `` #{{ seq }}`` is left out. A page of the
    catalogue keeps ``<host>``, which shows what is filled in. ``values`` may put a name that is not known in better words:
    under those of :data:`PLACEHOLDERS`.
    """
    known = {name for name in values if values[name]}

    def worded(m: re.Match[str]) -> str:
        if m[1] not in known and m[0].startswith(" #"):
            return ""
        words = m[0] if m[1] in known else PLACEHOLDERS.get(m[1], m[0])
        return values.get(words, words)

    return fill(_NAMED.sub(worded, text), values)


def node_of_pod(pod: str) -> str:
    """A node of which only the pod is known, in words."""
    return f"the node of pod {as_text(pod)} ({code_span(SHOWS_NODE.format(shlex.quote(_printable(pod))))})"


def fill_command(command: str, values: Mapping[str, str], whose: str = "") -> tuple[str, tuple[str, ...]]:
    """A shell command with each value quoted for the shell, and the names that are not known.

    A host name from a log must not become a command, nor an option: a value that begins with ``-`` counts as unknown. A value that is
    not known stays as ``HOST``, or as ``HOST_OF_RANK_4`` where
    ``whose`` it is is given: a plain word, because the shell reads ``<host>`` as a file.
    """
    printable = {name: _printable(value) for name, value in values.items() if not value.lstrip().startswith("-")}
    unknown = [name for name in _PLACEHOLDER.findall(command) if not printable.get(name)]
    filled = _PLACEHOLDER.sub(
        lambda m: command_blank(m[1], whose) if m[1] in unknown else shlex.quote(printable[m[1]]), command
    )
    return filled, tuple(dict.fromkeys(unknown))


def command_blank(name: str, whose: str = "") -> str:
    """``HOST_OF_RANK_4``: the word of a command that stands for a value that is not known."""
    words = f"{name} of {whose}" if whose and name in ("host", "pid", "device") else name
    return words.replace(" ", "_").upper()


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
    :func:`fill_in_words`; a command keeps its blanks, and says so.
    """
    fill_text = fill_in_words if in_words else fill
    parts = [fill_text(step.text, values)] if step.text else []
    if step.command:
        command, unknown = fill_command(step.command, values)
        where = f" on {fill_text(step.where, values)}" if step.where else ""
        blanks = ", ".join(map(command_blank, unknown))
        notes = ([f"fill in {blanks} first"] if blanks else []) + ([] if step.read_only else ["not read-only"])
        parts.append(f"run {code_span(command)}{where}" + (f" ({'; '.join(notes)})" if notes else ""))
    if step.expect:
        parts.append(f"expect {fill_text(step.expect, values)}")
    line = ": ".join(parts)
    return capitalized(line)
