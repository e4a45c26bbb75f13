"""The markup of trackers and chats: how each writes text that shows what it says, and nothing else.

A value from a log must not become a link, a mention, an image or a heading: what a tracker would turn into something is written as code,
and what ends code is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.reports.parts.prose import InlinePiece
from nccldoctor.words.sanitize import line, sanitize

_CALL = r"(?:\b[A-Z][A-Z0-9_]{2,40} )?[\w./-]{0,60}#\d{1,20}|\bGH-\d{1,20}\b|\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,64}\b"
_MENTION = r"[\w.-]{0,60}@[\w.-]{0,60}"
_ADDRESS = r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>]{0,200}|\bwww\.[^\s<>]{1,200}|\bmailto:[^\s<>]{0,100}"
_UNDERSCORED = r"(?<![\w/.'])'?[\w./-]{0,80}_[\w./():=-]{0,80}(?<![.:])'?"
_DOTTED = r"\b[\w-]{1,60}(?:\.[\w-]{1,60}){0,6}\.[a-z]{2,10}(?::\d{1,7})?\b"
_MARKED = r"[^\s*~`]{0,80}[*~`][^\s]{0,80}"


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


_FENCE = (("```", "'''"),)

MD = Dialect(
    delicate="|".join((_ADDRESS, _CALL, _MENTION, _UNDERSCORED)),
    plain=lambda text: re.sub(r"([\\`*\[\]|<>~&]|!(?=[\[\d]))", r"\\\1", text),
    span=_commonmark_span,
    heading=("### ", ""),
    bold=("**", "**"),
    bullet="- ",
    step="{}. ",
    indent="   ",
    fence=("```", "```"),
    ends_fence=_FENCE,
)
"""CommonMark with the additions of GitHub and GitLab."""

GITHUB = replace(MD, step="- [ ] ", indent="  ")
"""As :data:`MD`, with steps to tick off."""

JIRA = Dialect(
    delicate="|".join((_MENTION, _UNDERSCORED)),
    plain=_jira,
    span=lambda text: "{{" + _jira(text) + "}}",
    heading=("h3. ", ""),
    bold=("*", "*"),
    bullet="* ",
    step="{}. ",
    indent="",
    fence=("{noformat}", "{noformat}"),
    ends_fence=(("{noformat}", "{ noformat}"), ("{code", "{ code")),
)
"""Wiki markup of Jira."""

SLACK = Dialect(
    delicate="|".join((_ADDRESS, _CALL, _MENTION, _UNDERSCORED, _MARKED, _DOTTED)),
    plain=_slack,
    span=lambda text: f"`{_slack(text.replace('`', chr(39)))}`",
    heading=("*", "*"),
    bold=("*", "*"),
    bullet="• ",
    step="{}. ",
    indent="",
    fence=("```", "```"),
    ends_fence=(*_FENCE, ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")),
)
"""Slack's mrkdwn: no headings, no tables, no escapes but entities."""

DIALECTS = {"md": MD, "github": GITHUB, "jira": JIRA, "slack": SLACK}
"""The dialects by the names of ``--format``."""
