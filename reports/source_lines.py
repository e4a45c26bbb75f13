"""Lines of the input that a report quotes, read again from their file with what stands around them."""

from __future__ import annotations

from markupsafe import Markup
from msgspec import Struct

from nccldoctor.ingest.excerpts import LineReader
from nccldoctor.model import Diagnosis, Place
from nccldoctor.model.errors import InputError
from nccldoctor.model.excerpts import SourceLine
from nccldoctor.words.sanitize import line, sanitize


class SourceLines(Struct, frozen=True):
    """Lines as they stand in a file, or an entry of a dump in words. ``quoted`` are the numbers that the report quotes."""

    path: str
    lines: tuple[SourceLine, ...]
    quoted: frozenset[int]

    @property
    def text(self) -> str:
        """The lines as they are, joined by line ends."""
        return "\n".join(one.text for one in self.lines)

    def __repr__(self) -> str:
        width = len(str(self.lines[-1].number))
        rows = (
            f"{'>' if one.number in self.quoted else ' '} {one.number:>{width}}  {sanitize(one.text)}"
            for one in self.lines
        )
        return "\n".join([f"{line(self.path)}:{min(self.quoted)}", *rows])

    def _repr_html_(self) -> str:
        rows = (
            Markup("<b>{} {}</b>" if one.number in self.quoted else "{} {}").format(one.number, sanitize(one.text))
            for one in self.lines
        )
        head = Markup("<code>{}</code>").format(line(self.path))
        return str(Markup("{}<pre>{}</pre>").format(head, Markup("\n").join(rows)))


def read_again(diagnosis: Diagnosis, read: LineReader | None, name: str, context: int) -> SourceLines:
    """The lines of an exhibit or of a piece of evidence, with ``context`` lines on each side.

    Raises :class:`~nccldoctor.model.errors.InputError` where there are none to read.
    """
    place, shown = _place_of(diagnosis, name)
    if place.line is None:  # an entry of a dump, or the dump as a whole
        pieces = (piece for finding in diagnosis.findings for piece in finding.evidence if piece.where == place)
        claims = (exhibit.claim for exhibit in diagnosis.proof if exhibit.id == name)
        told = next((piece.quote or piece.says for piece in pieces), next(claims, ""))
        return SourceLines(place.path, (SourceLine(place.entry or 0, told),), frozenset({place.entry or 0}))
    if read is None:
        raise InputError("this incident holds no files to read again", hint="analyze the input, without redaction")
    first, last = (min(shown), max(shown)) if shown else (place.line, place.line)
    wanted = range(max(first - context, 1), last + context + 1)
    excerpts = read({place.source: wanted})
    lines = excerpts.between(place.source, wanted.start, wanted.stop)
    if not any(one.number == place.line for one in lines):
        raise InputError(f"{place} can't be read again", hint="put the file back where it was, or analyze again")
    return SourceLines(place.path, lines, frozenset(shown or {place.line}))


def _place_of(diagnosis: Diagnosis, name: str) -> tuple[Place, frozenset[int]]:
    """The place behind a name, and the lines that the report shows of it (empty: that one alone)."""
    exhibit = next((one for one in diagnosis.proof if one.id == name), None)
    if exhibit is not None and exhibit.places:
        lines = exhibit.lines
        return exhibit.places[0], frozenset(one.number for one in lines.shown) if lines is not None else frozenset()
    finding_id, dot, piece = name.rpartition(".")
    number = piece[1:] if piece[:1] == "E" and piece[1:].isdecimal() else "0"
    for finding in diagnosis.findings[: None if dot else 1]:
        item = finding.evidence[int(number) - 1 : int(number)] if int(number) else ()
        if finding_id in ("", finding.id) and item and item[0].where is not None:
            return item[0].where, frozenset()
    known = ", ".join(one.id for one in diagnosis.proof if one.places) or "none"
    evidence = f"E1..E{len(diagnosis.verdict.evidence)}"
    raise InputError(f"no exhibit or evidence {name!r}", hint=f"exhibits: {known}; evidence: {evidence}")
