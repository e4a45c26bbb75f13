"""How wide a text is drawn, and texts cut to a width: SVG does not wrap."""

from __future__ import annotations

WIDE, NARROW = 0.72, 0.56
"""Width of wide letters (capitals, ``m``, ``w``) and of others, as shares of the font size."""


def width_of(text: str, size: float) -> float:
    """The width of a text in a sans-serif font, rather too wide than too narrow."""
    return sum((WIDE if char.isupper() or char in "_mw@%…" or char > "\u2000" else NARROW) * size for char in text)


def fitting(text: str, size: float, width: float) -> str:
    """The text, cut behind the last letter that fits, with an ellipsis."""
    used, out = 0.0, ""
    for char in text:
        used += width_of(char, size)
        if used > width:
            return out[:-1].rstrip() + "…"
        out += char
    return out
