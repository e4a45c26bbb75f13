"""Masks secrets in what a part is to hold, so that a part can be handed on like a report."""

from __future__ import annotations

from typing import Any

from nccldoctor.words.secrets import masked


def masked_text(text: str) -> str:
    """A text that JSON can hold: without secrets, and with lone surrogates as escapes."""
    return masked(text).encode("utf-8", "backslashreplace").decode()


def masked_values(value: Any) -> Any:
    """The value with every text in it masked; named tuples become lists, as JSON has them."""
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, dict):
        return {key: masked_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked_values(one) for one in value]
    return value
