"""A page of CommonMark for a terminal: rendered by rich where there are colours, as plain text elsewhere."""

from __future__ import annotations

import re
from io import StringIO

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
    text = re.sub(r"\*\*([^*\n]{1,300})\*\*|(?<![\w*])\*([^*\n]{1,300})\*(?![\w*])", lambda m: m[1] or m[2], text)
    return re.sub(r"(`{1,3})(?!`)(.{1,1200}?)(?<!`)\1(?!`)|\\([!-/:-@\[-`{-~])", lambda m: m[2] or m[3], text)
