"""Masks secrets in what a part is to hold, so that a part can be handed on like a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from nccldoctor.patterns import lazy
from nccldoctor.words.secrets import MASK, masked

Lines = tuple[tuple[int, str], ...]
"""Numbers of lines, counted from 1, with their text."""

_WORD = lazy(r"[A-Za-z0-9_-]+")
_DIGIT = lazy(r"\d")
_BEGINNING = 12
"""Characters of a hidden word by which it is known again."""


def masked_text(text: str) -> str:
    """A text that JSON can hold: without secrets, and with lone surrogates as escapes."""
    return masked(text).encode("utf-8", "backslashreplace").decode()


_known_masked = lru_cache(maxsize=4096)(masked_text)
"""The same, once for a text that all dumps of a job repeat."""


def masked_values(value: Any) -> Any:
    """The value with every text in it masked; named tuples become lists, as JSON has them."""
    if isinstance(value, str):
        # names of groups, functions and files are shorter
        return _known_masked(value) if len(value) <= 100 else masked_text(value)
    if isinstance(value, dict):
        return {key: masked_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked_values(one) for one in value]
    return value


def masked_texts(texts: Sequence[Lines]) -> list[Lines]:
    """The lines of some texts masked. A word that one line shows to be a secret is masked in all: another lost its name.

    So is one that begins like it, which lost its end. ``Uid=job;P2026-11-20 09:00:37 step 7`` and ``wd=secret7`` are two lines that
    were crossed: the first one is read on behind the second, too.
    """
    hidden: set[str] = set()
    shown = [tuple(_masked_lines(lines, hidden)) for lines in texts]
    return (
        [tuple((number, _without_words(text, hidden)) for number, text in lines) for lines in shown]
        if hidden
        else shown
    )


def _masked_lines(lines: Lines, hidden: set[str]) -> Iterator[tuple[int, str]]:
    """The lines masked; ``hidden`` gets the words. Every line of a private key is masked: one alone looks like any word."""
    is_key, begun = False, ""
    for number, text in lines:
        is_key = (is_key or "PRIVATE KEY-----" in text) and "-----END" not in text
        shown = MASK if is_key else masked_text(text)
        if shown != text and not is_key:
            hidden.update(_words_hidden(text, shown))
        if begun and not is_key:
            hidden.update(_words_hidden(begun + text, masked_text(begun + text)))
        form = _DIGIT.sub("0", text[:4000])
        begun = text[: max(0, form.find(form[:8], 8))] if len(form) > 16 else ""
        yield number, shown


def _words_hidden(text: str, shown: str) -> Iterator[str]:
    """The masked words of a text that chance does not repeat elsewhere."""
    first, *others = shown.split(MASK)
    at = len(first) if text.startswith(first) else len(text)
    for following in others:
        end = text.find(following, at + 1) if following else len(text)
        if end < 0:
            return
        for word in _WORD.findall(text[at:end]):
            if len(word) >= 8 and not word.isdigit() and not word.isalpha():  # shorter words occur by chance
                yield word[:_BEGINNING]
        at = end + len(following)


def _without_words(text: str, hidden: set[str]) -> str:
    return _WORD.sub(lambda word: MASK if word.group()[:_BEGINNING] in hidden else word.group(), text)
