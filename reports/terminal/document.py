"""A page of CommonMark for a terminal: rendered by rich where there are colours, as plain text elsewhere."""

from __future__ import annotations

import re
from io import StringIO

_INLINE = re.compile(
    r"(?P<ticks>`{1,3})(?!`)(?P<code>.{1,1200}?)(?<!`)(?P=ticks)(?!`)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|\*\*(?P<strong>[^*\n]{1,300})\*\*"
    r"|(?<![\w*])\*(?P<slanted>[^*\n]{1,300})\*(?![\w*])"
)
"""Code, an escaped sign, and strong or slanted text; a star inside of code is a star."""

STYLES = {"markdown.code": "cyan", "markdown.code_block": "cyan", "markdown.h1": "bold", "markdown.h2": "bold"}


def rendered(markdown: str, width: int) -> str:
    """Headings, bold, code and lists with ANSI colours, in lines of at most ``width`` characters."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    out = StringIO()
    console = Console(
        file=out, force_terminal=True, color_system="standard", width=width, no_color=False, theme=Theme(STYLES)
    )
    console.print(Markdown(markdown, hyperlinks=False))
    return out.getvalue()


def unmarked(markdown: str) -> str:
    """The text without its marks; headings stand alone on their line, the first of them as it is."""
    text = re.sub(r"(?m)^(#{1,6}) (.*)$", lambda m: m[2] if len(m[1]) == 1 else f"{m[2]}:", markdown)
    text = re.sub(r"<(https?://[^>\s]{1,400})>", r"\1", text)
    return _without_marks(text)


def _without_marks(text: str) -> str:
    return _INLINE.sub(lambda m: m["code"] or m["escaped"] or _without_marks(m["strong"] or m["slanted"]), text)
