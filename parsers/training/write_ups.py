"""Tells the sentences of a person from the lines of a program.

A report of a hang speaks of steps and checkpoints too.
"""

from __future__ import annotations

from nccldoctor.patterns import lazy

_PERSON = lazy(r"\b(?:I(?: [a-z]|'[mv])|[Ww]e [a-z]|[Mm]y [a-z]|[Oo]ur [a-z])")


def is_of_person(text: str) -> bool:
    """True where somebody speaks of himself: *we tried step 400 with a smaller loss scale*."""
    return _PERSON.search(text) is not None
