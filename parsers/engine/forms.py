"""Remembers lines that only look like signals, whatever their digits are.

A healthy job prints ``rank 3/64: world_size 64 unchanged`` a million times. Numbers may decide (an Xid, an exit code), so a form is
remembered only where no parser could find an event in any line of it: see ``generalised.py`` and ``LineParser.needs``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from nccldoctor.parsers.base import Line, LineParser, Need
from nccldoctor.parsers.engine.generalised import DIGITS, generalised
from nccldoctor.parsers.engine.literals import Literals
from nccldoctor.parsers.engine.unexplained import can_look_like_failure

_MOST = 20_000
"""Forms remembered of one source; some 6 MB."""

_LONGEST = 1_000
_WORTH = 100
"""Fruitless lines before the first form is judged: of a small log each line is parsed sooner than the patterns are made."""

_HEX = re.compile(rb"0x[0-9a-fA-F]+")
_FRONT = re.compile(
    rb"(?:\s{0,8}[\w.-]{1,63}: ?|\[\d{1,6}\]:|[a-z0-9.-]{1,200} [a-z0-9-]{1,63} )?(?:\[[^\]\s]{1,60}\]:? ?){0,3}"
    rb"(?:[\w.-]{1,63}:\d{1,10}:\d{1,10} )?"
)
"""Labels, local ranks and processes in front of a line: where they matter, lines with other ones are another form."""

_ODD = re.compile(rb"[\x00\x1b]|\xef\xbb\xbf|\^\[\[|#000\[|\[0{1,2}(?:;0{1,3}){0,4}m|^\{")
"""What changes a line before it is parsed: colours, and records in JSON."""


@cache
def _forms_of(parser: LineParser) -> tuple[tuple[tuple[str, ...], re.Pattern[str], bool], ...] | None:
    """For each of a parser's needs the literals and the pattern, and whether no logger may mark the line."""
    if parser.needs is None:
        return None
    needs = [need if isinstance(need, Need) else Need((), need) for need in parser.needs]
    return tuple(
        (
            tuple(text.encode().translate(DIGITS).decode() for text in need.literals),
            generalised(need.pattern.pattern, need.pattern.flags),
            need.is_unlogged,
        )
        for need in needs
    )


def can_speak(parser: LineParser, form: str, *, is_logged: bool = False) -> bool:
    """True where the parser could find an event in a line of this form. ``is_logged``: all such lines have the mark of a logger."""
    needs = _forms_of(parser)
    return needs is None or any(
        not (is_unlogged and is_logged)
        and (not literals or any(text in form for text in literals))
        and pattern.search(form)
        for literals, pattern, is_unlogged in needs
    )


def form_of(text: bytes) -> bytes:
    """The text with 0 for each digit, and for each of a hexadecimal number; as long as it was."""
    form = text.translate(DIGITS)
    return _HEX.sub(lambda hit: b"0x" + b"0" * (len(hit[0]) - 2), form) if b"0x" in form else form


class Forms:
    """The forms of the fruitless lines of one source. ``is_labelled``: labels teach something, and belong to the form."""

    def __init__(self, literals: Literals) -> None:
        self.is_labelled = False
        self._literals = literals
        self._fruitless = 0
        self._seen: set[bytes] = set()
        self._outcomes: dict[bytes, int | None] = {}
        self._sure: dict[bytes, int] = {}  # the same of forms of which every line holds a literal

    def forms_of(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """The lines with 0 for each digit, and for each of a hexadecimal number.

        Of too few lines to remember one the forms are empty.
        """
        if self._fruitless + len(lines) < _WORTH:
            return [b""] * len(lines)
        forms = form_of(b"\n".join(lines)).split(b"\n")
        if not self.is_labelled:
            return forms
        fronts = (front[0] if (front := _FRONT.match(line)) else b"" for line in lines)
        return [front + b"\n" + form for front, form in zip(fronts, forms, strict=True)]

    def sure_outcomes(self, forms: Sequence[bytes]) -> list[int | None]:
        """The outcome of each form; None where it is unknown, or where a line of it may hold no literal."""
        return list(map(self._sure.get, forms))

    def outcome(self, form: bytes) -> int | None:
        """What a line of this form adds to the lines not understood; None where it has to be parsed."""
        return self._outcomes.get(form)

    def note_fruitless(self, line: Line, form: bytes, count: int) -> None:
        """Remember a line that gave nothing, at its second sight and where no line of its form can give anything."""
        self._fruitless += 1
        if (line.mark.task is not None or line.mark.local_rank is not None) and b"\n" not in form:
            self.is_labelled = True
            return
        if self._fruitless < _WORTH or form in self._outcomes:
            return
        if form in self._seen:
            if len(self._outcomes) < _MOST:
                text = form.rpartition(b"\n")[2]
                self._outcomes[form] = count if self._is_barren(line, text) else None
                if self._outcomes[form] is not None and self._literals.is_in_all(text):
                    self._sure[form] = count
        elif len(self._seen) < _MOST:
            self._seen.add(form)

    def _is_barren(self, line: Line, form: bytes) -> bool:
        if len(form) > _LONGEST or _ODD.search(form) or line.body.startswith("    ") or can_look_like_failure(line):
            return False
        text = form.decode("utf-8", "backslashreplace")
        is_logged = replace(line.mark, time=None).is_logged  # numbers decide whether a time is one
        return not any(can_speak(parser, text, is_logged=is_logged) for parser in self._literals.form_owners(text))
