"""Makes text of the input safe to show: nothing invisible, nothing endless, no secrets.

Templates escape HTML; this module handles what escaping passes on: control characters, bidirectional overrides and zero-width
characters that make a line read as another, lone surrogates that no encoder takes.
"""

from __future__ import annotations

import re

from nccldoctor.patterns import lazy
from nccldoctor.words.secrets import masked

QUOTE = 300
"""Characters of one quoted line in a report."""

TEXT = 2_000
"""Characters of one text field of the JSON; the input may hold lines of any length."""

_AHEAD = 512
"""Characters beyond a limit that are looked at too: a secret that the limit cuts keeps no prefix."""

_UNSEEN = lazy(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that are invisible or reorder others: categories Cc, Cf, Cs, Zl, Zp of Unicode 15."""


def _shown(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"\\x{code:02x}" if code < 0x100 else f"<U+{code:04X}>"


def sanitize(text: str, limit: int = QUOTE) -> str:
    """``text`` with every unseen character spelled out and secrets masked, at most ``limit`` characters.

    Line ends and tabs stay as they are.
    """
    return shortened(_UNSEEN.sub(_shown, _without_secrets(text, limit).replace("\r\n", "\n")), limit)


def line(text: str, limit: int = QUOTE) -> str:
    """:func:`sanitize` on one line: line ends and runs of blanks become one blank."""
    return sanitize(" ".join(text[: 4 * limit].split()) if text else "", limit)


def shortened(text: str, limit: int) -> str:
    """Clean text in at most ``limit`` characters; an ellipsis stands for the rest."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"


def encodable(text: str) -> str:
    """``text`` with lone surrogates spelled out in ASCII, so that UTF-8 can hold it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def spelled_out(value: object) -> object:
    """``value`` itself, or a text with every unseen character spelled out: the last guard of the templates."""
    return _UNSEEN.sub(_shown, value) if type(value) is str else value


def text(value: str) -> str:
    """A text of the input as the JSON holds it: bounded, encodable and without secrets."""
    return shortened(encodable(_without_secrets(value, TEXT)), TEXT)


def _without_secrets(text: str, limit: int) -> str:
    """The beginning of a text, masked; it is longer than ``limit`` where the text is."""
    shown = masked(text[: limit + _AHEAD])
    return shown if len(text) <= limit + _AHEAD or len(shown) > limit else shown + "…"
