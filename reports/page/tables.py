"""The rows of a table of the page: what is not the cause."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.model import Condition
from nccldoctor.words.lists import and_list
from nccldoctor.words.sentences import uncapitalized


class RuledOutRow(Struct, frozen=True):
    """Causes that one fact rules out; ``done`` is false where the input to check them is missing, which ``says`` names."""

    name: str
    done: bool
    says: str


def ruled_out(conditions: Sequence[Condition]) -> tuple[RuledOutRow, ...]:
    """One row for the causes of which the same is said: *GPU fault and storage stall: no kernel log*."""
    causes: dict[tuple[bool, str], list[str]] = {}
    for item in conditions:
        causes.setdefault((item.met is False, item.says), []).append(item.text)
    rows = []
    for (done, says), named in causes.items():
        words = [
            text if number == 0 or text[1:2].isupper() else uncapitalized(text) for number, text in enumerate(named)
        ]
        rows.append(RuledOutRow(and_list(words), done, says))
    return tuple(rows)


def ruled_out_words(rows: Sequence[RuledOutRow]) -> str:
    """``Ruled out: network. Not checked: GPU fault, storage stall, out of memory.``"""
    parts = (
        ("Ruled out", [row.name for row in rows if row.done]),
        ("Not checked", [row.name for row in rows if not row.done]),
    )
    return " ".join(f"{label}: {', '.join(names)}." for label, names in parts if names)
