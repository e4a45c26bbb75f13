"""CommonMark of the catalogue as HTML and as plain text.

Values from logs may stand in it (host names, paths), so it gets no links, no images and no raw HTML: what is not
paragraph, list, code or emphasis stays text.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape as escaped
from typing import TYPE_CHECKING

from markupsafe import Markup, escape
from msgspec import Struct

from nccldoctor.patterns import lazy
from nccldoctor.words.sanitize import sanitize

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LIMIT = 1_200
"""Characters of one text of a remedy."""


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("zero", {"html": False, "linkify": False}).enable(
        ["fence", "list", "backticks", "emphasis", "escape", "newline", "balance_pairs", "fragments_join"]
    )


def html(text: str) -> Markup:
    """The text as HTML; a text that is one code span becomes a block, ready to copy."""
    shown = sanitize(text.strip(), LIMIT)
    match = re.fullmatch(r"(`{1,3})(?:\w{0,12}\n)?([^`]{1,1200})\1", shown.strip())
    command = match.group(2).strip() if match and "\n```" not in match.group(2) else ""
    if not command and _SENTENCES.fullmatch(shown):
        words = _CODE_SPAN.sub(r"<code>\1</code>", escaped(shown, quote=False).replace('"', "&quot;"))
        return Markup(f"<p>{words}</p>\n")
    return Markup(_renderer().render(f"```\n{command}\n```" if command else shown))


_CODE_SPAN = lazy("`([^`]+)`")
_SENTENCES = lazy(r"(?![-+~]|\d{1,9}[.)])(?:[^`*_\\\n]|(?<!`)`(?![` ])[^`\n]{1,1200}(?<! )`(?!`))+")
"""Words and code in one paragraph, as most texts are. The renderer writes the same, and takes long to import."""


def inline_html(text: str) -> Markup:
    """A sentence of the catalogue as HTML within a line: its code spans are marked, all else is text."""
    pieces = inline_pieces(text)
    return Markup("").join(Markup("<code>{}</code>").format(p.text) if p.is_code else escape(p.text) for p in pieces)


def breakable(text: str) -> Markup:
    """Plain text: long names may break after ``_``, ``/`` and ``.``, no line between a word and its number."""
    parts = re.compile(r"(?<=\w)([_/.]+)(?=\w)")
    bound = re.sub(r"(?<=[A-Za-z]) (?=#?\d)", "\u00a0", str(escape(text)))  # TP 1, rank 3, ALLREDUCE #9
    return Markup(re.sub(r"\S{21,}", lambda name: parts.sub(r"\1<wbr>", name[0]), bound))


class InlinePiece(Struct, frozen=True):
    """A stretch of a text of the catalogue: words as a reader sees them, or code."""

    text: str
    is_code: bool


_CODE = lazy(r"(`{1,3})(?!`)(.{1,1200}?)(?<!`)\1(?!`)")


def inline_pieces(text: str) -> tuple[InlinePiece, ...]:
    """The words and the code spans of CommonMark, without its marks; a fence counts as code."""
    shown = sanitize(re.sub(r"```\w{0,12}\n(.{0,1200}?)\n?```", r"```\1```", text.strip(), flags=re.DOTALL), LIMIT)
    out: list[InlinePiece] = []
    at = 0
    for match in _CODE.finditer(shown):
        out += [InlinePiece(_unmarked(shown[at : match.start()]), is_code=False), InlinePiece(match[2], is_code=True)]
        at = match.end()
    out.append(InlinePiece(_unmarked(shown[at:]), is_code=False))
    return tuple(piece for piece in out if piece.text)


def _unmarked(text: str) -> str:
    """Words without asterisks for emphasis, and without the backslashes that keep signs from being marks."""
    bare = re.sub(r"(?<!\\)\*\*([^*\n]{1,300})\*\*", r"\1", text)
    bare = re.sub(r"(?<![\w*\\])\*([^*\s](?:[^*\n]{0,298}[^*\s])?)\*(?![\w*])", r"\1", bare)
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", bare)


def plain(text: str) -> str:
    """The text for a terminal: words and code without any marks."""
    return "".join(piece.text for piece in inline_pieces(text)).strip()
