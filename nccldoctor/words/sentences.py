"""How a text becomes a sentence: its first letter and its full stop."""

from __future__ import annotations

import re

from nccldoctor.words.secrets import masked


def capitalized(text: str) -> str:
    """``text`` with a capital first letter, unless it begins with a name: ``gpu-04 lost a link`` stays."""
    first = text.split(maxsplit=1)[0].rstrip(".,:;") if text.strip() else ""
    is_name = any(letter.isdigit() or letter in "_/." for letter in first)
    return text if is_name else text[:1].upper() + text[1:]


def uncapitalized(text: str) -> str:
    """``text`` with a small first letter, as a part of another sentence."""
    return text[:1].lower() + text[1:]


def sentence(text: str) -> str:
    """``rank 1 exited`` as ``Rank 1 exited.``; "" stays "". A text that ends in another mark keeps it."""
    shown = text.rstrip()
    return capitalized(shown) + ("" if not shown or shown.endswith((".", "!", "?", "…", ":")) else ".")


def essentials(message: str) -> tuple[str, str]:
    """A message of a program, in short and masked: its first sentence, and the cause that this names.

    ``unable to open shared memory object </torch_1>: Too many open files (24)`` has the cause ``Too many open files (24)``.
    """
    first = re.sub(r"^\[Errno \d+\] ", "", masked(message)).partition(". ")[0].removesuffix(".")
    parts = re.split(r"\s?: (?![^(]*\))", re.split(r", (?![^(]*\))", first)[0])
    return first, parts[-1] if parts[-1][:1].isalpha() and " " in parts[-1] else parts[0]
