"""The markup of trackers and chats: how each writes text that shows what it says, and nothing else.

A value from a log must not become a link, a mention, an image or a heading: what a tracker would turn into something is written as code,
and what ends code is replaced.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.reports.parts.prose import InlinePiece
from nccldoctor.words.sanitize import line, sanitize

_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class Dialect(Struct, frozen=True):
    """One markup: its signs, what it shows as code, and how it writes plain text and code.

    ``delicate`` matches words that would become a link, a mention or emphasis. ``heading``, ``bold`` and ``fence`` are what stands before
    and after; ``step`` holds the number of a step; ``indent`` puts a fence into its item; ``ends_fence`` is what must not be in one.
    """

    delicate: str
    plain: Callable[[str], str]
    span: Callable[[str], str]
    heading: tuple[str, str]
    bold: tuple[str, str]
    bullet: str
    step: str
    indent: str
    fence: tuple[str, str]
    ends_fence: tuple[tuple[str, str], ...]

    def words(self, text: str, limit: int) -> str:
        """Plain words on one line, with what is delicate as code."""
        shown, out, at = line(text, limit), [], 0
        for match in re.finditer(self.delicate, shown):
            found = match.group()  # the bracket that ends ``main (train.py:45)`` began before
            if found := found[:-1] if found.endswith(")") and "(" not in found else found:
                out += [self.plain(shown[at : match.start()]), self.span(found)]
                at = match.start() + len(found)
        return "".join([*out, self.plain(shown[at:])])

    def code(self, text: str, limit: int) -> str:
        """A code span that its content cannot end."""
        shown = line(text, limit)
        return self.span(shown) if shown else ""

    def prose(self, pieces: tuple[InlinePiece, ...], limit: int) -> str:
        """A text of the catalogue on one line; its code stays code."""
        out, left = [], limit
        for piece in pieces:
            text = " ".join(piece.text.split())
            shown = self.code(text, left) if piece.is_code else self.words(text, left)
            before, after = (" " if piece.text[:1].isspace() else "", " " if piece.text[-1:].isspace() else "")
            out.append(shown if piece.is_code or not shown else before + shown + after)
            left -= len(text)
            if left <= 0:
                break
        return "".join(out).strip()

    def strong(self, text: str) -> str:
        """Markup in bold."""
        return f"{self.bold[0]}{text}{self.bold[1]}"

    def block(self, text: str, limit: int) -> str:
        """Lines as they are, in a fence that they cannot end; it stands in an item of a list."""
        shown = sanitize(text, limit)
        for bad, instead in self.ends_fence:
            shown = shown.replace(bad, instead)
        return "\n".join(f"{self.indent}{row}".rstrip() for row in (self.fence[0], *shown.splitlines(), self.fence[1]))


def _commonmark_span(text: str) -> str:
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


_ENTITY = {"\\": "&#92;", "&": "&amp;"}


def _jira(text: str) -> str:
    """Signs of wiki markup behind a backslash; a backslash itself, and the slashes of an address, as entities."""
    out = re.sub(r"[\\&]", lambda m: _ENTITY[m[0]], text)
    out = re.sub(r"([*_{}\[\]|^~!+]|(?<!\S)-(?=\S)|--|\?\?|\((?=[!/x?+*iyn-]\)))", r"\\\1", out)
    return out.replace("://", ":&#47;&#47;")


def _slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*\[\]|<>~&]|!(?=[\[\d]))", r"\\\1", text)


def _dialect(name: str, plain: Callable[[str], str], span: Callable[[str], str]) -> Dialect:
    """A section of the table."""
    row: dict[str, Any] = {
        field: tuple(value) if isinstance(value, list) else value for field, value in _ROWS[name].items()
    }
    row["delicate"] = "|".join(_ROWS["words"][kind] for kind in row["delicate"])
    return Dialect(**row | {"ends_fence": tuple(map(tuple, row["ends_fence"])), "plain": plain, "span": span})


MD = _dialect("md", _markdown, _commonmark_span)
"""CommonMark with the additions of GitHub and GitLab."""

GITHUB = replace(MD, step="- [ ] ", indent="  ")
"""As :data:`MD`, with steps to tick off."""

JIRA = _dialect("jira", _jira, lambda text: "{{" + _jira(text) + "}}")
"""Wiki markup of Jira."""

SLACK = _dialect("slack", _slack, lambda text: f"`{_slack(text.replace('`', chr(39)))}`")
"""Slack's mrkdwn: no headings, no tables, no escapes but entities."""

DIALECTS = {"md": MD, "github": GITHUB, "jira": JIRA, "slack": SLACK}
"""The dialects by the names of ``--format``."""
