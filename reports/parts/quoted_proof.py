"""The exhibits of the proof in few lines of text, for places without tables: the terminal and the ticket."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model import Diagnosis, Family, Place
from nccldoctor.model.exhibits import CallsTable, CountsRow, CountsTable, Exhibit, Part, QuotedLines
from nccldoctor.model.figures import CallDiff, IssuedCall
from nccldoctor.patterns import lazy
from nccldoctor.words import names
from nccldoctor.words.sanitize import line, sanitize, shortened
from nccldoctor.words.sentences import sentence

LINES = 2
"""Lines of one exhibit."""

TEXT = 400

_SOURCE_FOLDERS = lazy(r"(?<![\w.-])/(?:[\w.+-]{1,80}/){2,40}(?=[\w.+-]{1,80}\.(?:cc|cpp|cu|cuh|c|h|hpp):\d)")
"""Two folders or more before a C++ file and its line; Python quotes its files in lines of their own."""


class ProofLine(Struct, frozen=True):
    """One line: its number or rank, its text, and the stretch of the text that decides (empty where none does)."""

    gutter: str
    text: str
    mark: tuple[int, int] = (0, 0)


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


def marked_part(row: ProofLine, room: int) -> tuple[str, int]:
    """The part of a long line that holds its mark, and how many characters were cut before it."""
    if row.mark[1] <= room - 1 or len(row.text) <= room:
        return shortened(row.text, room), 0
    start = max(min(row.mark[0] - room // 3, len(row.text) - room), 0)
    return "…" + shortened(row.text[start + 1 :], room - 1), start


def decisive_lines(proof: QuotedProof, room: int) -> tuple[str, ...]:
    """The lines that decide, for a place without gutter: of a dump those of both ranks."""
    if proof.is_formatted:
        return tuple(
            (f"{row.gutter}: " if row.gutter else "") + marked_part(row, room)[0] for row in proof.lines if row.text
        )
    marked = [row for row in proof.lines if row.mark[1]] or list(proof.lines)
    return (marked[-1].text if len(marked[-1].text) <= room else marked_part(marked[-1], room)[0],)


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
        ProofLine(str(row.number), text, _found(text, cites) if row in deciding else (0, 0))
        for row in rows
        for text in (_SOURCE_FOLDERS.sub("…/", sanitize(row.text.expandtabs(4).strip(), TEXT)),)
    )


def _found(text: str, values: tuple[str, ...]) -> tuple[int, int]:
    """The stretch of the longest value in the text; a single digit is too little to point at."""
    for value in sorted(values, key=len, reverse=True):
        match = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) if len(value) > 1 else None
        if match:
            return match.span()
    return 0, 0


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
            out.append(ProofLine(f"rank {side.rank}", f"{start}no entry", (len(start), len(start) + len("no entry"))))
            continue
        fields = {"op": names.op_name(cell.op), "sizes": cell.sizes, "dtype": cell.dtype, "state": cell.state}
        text, mark = start, (0, 0)
        for name, value in fields.items():
            if value:
                text += value + (", " if name == "dtype" else " ")
                stretch = (len(text.rstrip(", ")) - len(value), len(text.rstrip(", ")))
                mark = stretch if name in row.differs and not mark[1] else mark
        shown = f"{text.rstrip(', ')}{f' at {cell.site}' if cell.site else ''}"
        out.append(ProofLine(f"rank {side.rank}", line(shown, TEXT), mark))
    return tuple(out)


def _order_lines(diff: CallDiff) -> tuple[ProofLine, ...]:
    """The calls of both ranks from the first difference on, each in its own order."""
    first = next((number for number, row in enumerate(diff.rows) if row.kind != "same"), 0)
    rows = diff.rows[first : first + 3]
    return tuple(
        ProofLine(f"rank {rank}", line(" then ".join(_call(call) for call in calls if call is not None), TEXT))
        for rank, calls in ((diff.left, [row.left for row in rows]), (diff.right, [row.right for row in rows]))
    )


def _call(call: IssuedCall) -> str:
    return f"{names.call_title(call.op, call.seq)} ({names.group_title(call.group)})"


def _count_line(table: CountsTable, row: CountsRow) -> ProofLine:
    told = (
        f"{head} {cell}" if cell else f"{head}: no record" for head, cell in zip(table.heads, row.cells, strict=True)
    )
    text = line(", ".join(told), TEXT)
    return ProofLine(names.ranks_phrase(row.ranks, 4), text, (0, len(text)) if row.lags else (0, 0))


def _dumps(exhibit: Exhibit) -> str:
    return ", ".join(dict.fromkeys(entry_place(where) for where in exhibit.places[:LINES])) or "the dumps"
