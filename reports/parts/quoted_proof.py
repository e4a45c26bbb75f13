"""The exhibits of the proof in few lines of text, for places without tables: the terminal and the ticket."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model import Diagnosis, Family, Place
from nccldoctor.model.exhibits import CallsTable, CountsRow, CountsTable, Exhibit, Part, QuotedLines
from nccldoctor.model.figures import CallDiff
from nccldoctor.patterns import lazy
from nccldoctor.words import names
from nccldoctor.words.sanitize import line, sanitize, shortened
from nccldoctor.words.sentences import sentence

LINES = 2
"""Lines of one exhibit."""

TEXT = 400

Stretch = tuple[int, int]
"""Where a part of a text begins, and where it ends."""

_SOURCE_FOLDERS = lazy(r"(?<![\w.-])/(?:[\w.+-]{1,80}/){2,40}(?=[\w.+-]{1,80}\.(?:cc|cpp|cu|cuh|c|h|hpp):\d)")
"""Two folders or more before a C++ file and its line; Python quotes its files in lines of their own."""


_RANK = lazy(r"\[?(?i:rank)[ _]?\d+\]?")


class ProofLine(Struct, frozen=True):
    """One line: its number or rank, its text, and the stretches of the text that decide, in order."""

    gutter: str
    text: str
    marks: tuple[Stretch, ...] = ()

    def cropped(self, room: int) -> ProofLine:
        """The line in ``room`` characters around what decides, with the rank that it names."""
        first = max(self.marks, key=lambda mark: mark[1] - mark[0])[0] if self.marks else 0
        if len(self.text) <= room or not self.marks or self.marks[-1][1] < room:
            return replace(self, text=shortened(self.text, room))
        named = _RANK.search(self.text)
        head = named.group() if named is not None and named.start() < first - room // 3 else ""
        start = max(min(first - (room - len(head)) // 3, len(self.text) - room + len(head)), len(head))
        text = f"{head}…{shortened(self.text[start + 1 :], room - len(head) - 1)}"
        shift = start - len(head)
        marks = ((a - shift, min(b - shift, len(text))) for a, b in self.marks if len(head) < b - shift)
        return ProofLine(self.gutter, text, tuple((max(a, len(head)), b) for a, b in marks if a < b))


class QuotedProof(Struct, frozen=True):
    """An exhibit as at most two lines. ``is_formatted`` is true of dumps, whose entries are no text of the input.

    ``is_of_culprit``: it shows what became of the culprit, and not what its peers saw.
    """

    id: str
    claim: str
    place: str
    is_formatted: bool
    lines: tuple[ProofLine, ...]
    is_of_culprit: bool = False


def all_quoted(diagnosis: Diagnosis) -> tuple[QuotedProof, ...]:
    """The exhibits of the verdict that have lines; one of an undetermined verdict, which proves nothing."""
    proofs = (replace(quoted(e), is_of_culprit=Part.CONDITION in e.parts) for e in diagnosis.proof)
    shown = tuple(proof for proof in proofs if any(row.text for row in proof.lines))
    return shown[:1] if diagnosis.verdict.family is Family.UNDETERMINED else shown


def decisive_lines(proof: QuotedProof) -> tuple[str, ...]:
    """The lines that decide, whole, for a place without gutter: of a dump those of both ranks."""
    if proof.is_formatted:
        return tuple((f"{row.gutter}: " if row.gutter else "") + row.text for row in proof.lines if row.text)
    return (decisive_line(proof).text,)


def decisive_line(proof: QuotedProof) -> ProofLine:
    """The last line with a mark, else the last one."""
    return next((row for row in reversed(proof.lines) if row.marks), proof.lines[-1])


def quoted(exhibit: Exhibit) -> QuotedProof:
    """The lines of an exhibit that decide."""
    claim = sentence(line(exhibit.claim, 240))
    if exhibit.lines is not None:
        found = exhibit.lines
        number = next((row.number for row in found.shown if row.number in found.marked), found.shown[0].number)
        place = f"{line(found.path, 200)}:{number}"
        return QuotedProof(exhibit.id, claim, place, is_formatted=False, lines=_text_lines(found, exhibit.cites))
    if exhibit.calls is not None:
        return QuotedProof(
            exhibit.id, claim, _table_place(exhibit.calls), is_formatted=True, lines=_table_lines(exhibit.calls)
        )
    if exhibit.order is not None:
        return QuotedProof(exhibit.id, claim, _dumps(exhibit), is_formatted=True, lines=_order_lines(exhibit.order))
    counts = exhibit.counts
    rows = (counts.rows[:1] + counts.rows[1:][-1:]) if counts is not None else ()
    lines = tuple(_count_line(counts, row) for row in rows) if counts is not None else ()
    return QuotedProof(exhibit.id, claim, _dumps(exhibit), is_formatted=True, lines=lines)


def _text_lines(found: QuotedLines, cites: tuple[str, ...]) -> tuple[ProofLine, ...]:
    """The first marked lines, with the line before where there is room: the head of a stack names its thread."""
    deciding = [row for row in found.shown if row.number in found.marked] or list(found.shown)
    at = found.shown.index(deciding[0])
    rows = deciding[:LINES] if len(deciding) >= LINES else found.shown[max(at - 1, 0) : at + 1]
    return tuple(
        ProofLine(str(row.number), text, _found(text, cites) if row in deciding else ())
        for row in rows
        for text in (_SOURCE_FOLDERS.sub("…/", sanitize(row.text.expandtabs(4).strip(), TEXT)),)
    )


def _found(text: str, values: tuple[str, ...]) -> tuple[Stretch, ...]:
    """Where the values stand in the text, the longest first; a single digit is too little to point at."""
    found: list[Stretch] = []
    for value in sorted(values, key=len, reverse=True):
        match = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) if len(value) > 1 else None
        if match and all(match.end() <= a or b <= match.start() for a, b in found):
            found.append(match.span())
    return tuple(sorted(found))


def _table_place(table: CallsTable) -> str:
    row = _deciding(table)
    return ", ".join(
        line(side.path, 160) if cell is None else entry_place(cell.where)
        for side, cell in zip(table.sides, table.rows[row].cells, strict=True)
    )


def entry_place(where: Place) -> str:
    """``dumps/fr_trace_0 entry 22``: the file and the number that ``inspect --entry`` takes."""
    return line(where.path, 160) + (f" entry {where.entry}" if where.entry is not None else "")


def _deciding(table: CallsTable) -> int:
    """The last row in which the sides differ, else the last row."""
    differing = [number for number, row in enumerate(table.rows) if row.differs]
    return differing[-1] if differing else len(table.rows) - 1


def _table_lines(table: CallsTable) -> tuple[ProofLine, ...]:
    row = table.rows[_deciding(table)]
    group = names.group_title(table.group) if table.group else ""
    out = []
    for side, cell in zip(table.sides, row.cells, strict=True):
        start = f"{group} #{row.seq}: ".lstrip()
        if cell is None:
            out.append(
                ProofLine(f"rank {side.rank}", f"{start}no entry", ((len(start), len(start) + len("no entry")),))
            )
            continue
        fields = {"op": names.op_name(cell.op), "sizes": cell.sizes, "dtype": cell.dtype, "state": cell.state}
        text, marks = start, list[Stretch]()
        for name, value in fields.items():
            if value:
                text += value + (", " if name == "dtype" else " ")
                stretch = (len(text.rstrip(", ")) - len(value), len(text.rstrip(", ")))
                marks += [stretch] if name in row.differs else []
        shown = f"{text.rstrip(', ')}{f' at {cell.site}' if cell.site else ''}"
        out.append(ProofLine(f"rank {side.rank}", line(shown, TEXT), tuple(marks)))
    return tuple(out)


def _order_lines(diff: CallDiff) -> tuple[ProofLine, ...]:
    """The calls of both ranks from the first difference on, each in its own order."""
    first = next((number for number, row in enumerate(diff.rows) if row.kind != "same"), 0)
    rows = diff.rows[first : first + 3]
    sides = ((diff.left, [row.left for row in rows]), (diff.right, [row.right for row in rows]))
    told = (
        (rank, [f"{names.call_title(c.op, c.seq)} ({names.group_title(c.group)})" for c in calls if c is not None])
        for rank, calls in sides
    )
    return tuple(ProofLine(f"rank {rank}", line(" then ".join(titles), TEXT)) for rank, titles in told)


def _count_line(table: CountsTable, row: CountsRow) -> ProofLine:
    told = (
        f"{head} {cell}" if cell else f"{head}: no record" for head, cell in zip(table.heads, row.cells, strict=True)
    )
    text = line(", ".join(told), TEXT)
    return ProofLine(names.ranks_phrase(row.ranks, 4), text, ((0, len(text)),) if row.lags else ())


def _dumps(exhibit: Exhibit) -> str:
    return ", ".join(dict.fromkeys(entry_place(where) for where in exhibit.places[:LINES])) or "the dumps"
