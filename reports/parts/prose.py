"""CommonMark of the catalogue as HTML and as plain text.

Values from logs may stand in it (host names, paths), so it gets no links, no images and no raw HTML: what is not
paragraph, list, code or emphasis stays text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from nccldoctor.words.sanitize import sanitize

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

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
    from markupsafe import Markup

    shown = sanitize(text.strip(), LIMIT)
    command = as_command(shown)
    return Markup(_renderer().render(f"```\n{command}\n```" if command else shown))


def breakable(text: str) -> Markup:
    """Plain text in which long names may break after ``_``, ``/`` and ``.``, and nowhere else."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(?<=\w)([_/.]+)(?=\w)", r"\1<wbr>", str(escape(text))))


def as_command(text: str) -> str:
    """The command in a text that is one code span or fence; ``""`` for any other text."""
    match = re.fullmatch(r"(`{1,3})(?:\w{0,12}\n)?([^`]{1,1200})\1", text.strip())
    return match.group(2).strip() if match and "\n```" not in match.group(2) else ""


def plain(text: str) -> str:
    """The text for a terminal: without fences, backticks and asterisks for emphasis."""
    shown = sanitize(text.strip(), LIMIT)
    shown = re.sub(r"```\w{0,12}\n?", "", shown)
    return re.sub(r"\*\*([^*\n]{1,300})\*\*", r"\1", shown).replace("`", "").strip()


def sentence(text: str) -> str:
    """``text`` with a capital first letter; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def full_sentence(text: str) -> str:
    """``text`` with a capital first letter and a full stop, unless it ends in another mark."""
    return sentence(text) + ("" if not text or text.endswith((".", "!", "?", "…")) else ".")
