"""Masks secrets in commands, and in bytes that leave the node."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from nccldoctor.words.secrets import MASK, is_secret, masked, masked_lines

_AT_ONCE = 1 << 18
_LONGEST_LINE = 1 << 20


def hide_secrets(data: bytes, until: float = float("inf")) -> bytes:
    """The text without values that look like secrets: keys, tokens, passwords.

    It is searched from its end, some lines at once; what is not searched at ``until`` (of time.monotonic) is left out, and so is the
    rest of a line without end.
    """
    out: list[str] = []
    end = len(data)
    while end and (time.monotonic() < until or not out):
        # a private key is found as a whole
        start = 0 if b"PRIVATE KEY" in data else data.rfind(b"\n", 0, max(0, end - _AT_ONCE)) + 1
        lines = [line[:_LONGEST_LINE] for line in data[start:end].split(b"\n")]
        out.append(masked_lines(b"\n".join(lines).decode("utf-8", "surrogateescape")))
        end = start
    return "".join(reversed(out)).encode("utf-8", "surrogateescape")


def without_values(data: bytes, values: Iterable[bytes]) -> bytes:
    """The text without these values, where they stand as words of their own."""
    for value in values:
        if value in data:
            data = re.sub(rb"(?<![A-Za-z0-9])%s(?![A-Za-z0-9])" % re.escape(value), MASK.encode(), data)
    return data


def secrets_in(words: Iterable[str], pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Values of options and variables that are named like secrets: they are masked wherever else they occur."""
    found = {value for name, value in pairs if is_secret(name)}
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if equals and is_secret(name):
            found.add(value)
        elif is_secret(option) and not word.startswith("-"):
            found.add(word)
        option = word if word.startswith("-") and not equals else ""
    return {value for value in found if _is_masked_anywhere(value)}


def _is_masked_anywhere(value: str) -> bool:
    """False for a path, a number or a word such as ``localhost``: they stand in logs for other reasons."""
    # longer ones are no word of a log, even of lower-case letters alone
    is_word = value.isalpha() and value.islower() and len(value) < 12
    # shorter ones occur by chance
    return len(value) >= 6 and value[0] not in "/.~" and not value.isdigit() and not is_word


def masked_command(words: Iterable[str]) -> str:
    """A command line without secrets: ``--hub-token abc`` and ``KEY=abc`` lose their values."""
    out: list[str] = []
    follows = False
    for word in words:
        name, equals, _ = word.partition("=")
        if follows and not word.startswith("-"):
            word = MASK
        elif equals and is_secret(name):
            word = f"{name}={MASK}"
        follows = not equals and word.startswith("-") and is_secret(word)
        out.append(word)
    text = masked(" ".join(out)).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return " ".join(text.split())[:1000]
