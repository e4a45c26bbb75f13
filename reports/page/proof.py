"""The blocks *Proof* and *Last lines*: each exhibit in words, and how its reader prints it again."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from msgspec import Struct

from nccldoctor.model import Diagnosis
from nccldoctor.model.exhibits import CallCell, Exhibit, LastLines, Part, QuotedLines
from nccldoctor.model.ranks import Ranks
from nccldoctor.words import names, times
from nccldoctor.words.sanitize import line

COMMANDS = 4


class ProofStep(Struct, frozen=True):
    """An exhibit: its claim, where it is from, and the commands that print its entries again.

    ``alike`` names further ranks of which the same is on record; ``note`` says what a word of the dumps means.
    """

    id: str
    claim: str
    alike: str
    note: str
    source: str
    label: str
    again: tuple[str, ...]
    exhibit: Exhibit

    @property
    def is_of_peer(self) -> bool:
        """True where it shows nothing of a culprit."""
        return set(self.exhibit.parts) <= {Part.PEER}


class LogSide(Struct, frozen=True):
    """The last lines of one rank: its role in words, and the gap."""

    lines: LastLines
    role: str
    gap: str


def proof_steps(diagnosis: Diagnosis) -> tuple[ProofStep, ...]:
    """The exhibits of the verdict."""
    return tuple(_step(exhibit, diagnosis) for exhibit in diagnosis.proof)


def _step(exhibit: Exhibit, diagnosis: Diagnosis) -> ProofStep:
    kind = "entry" if exhibit.lines is None else "stack" if exhibit.lines.frame else "line"
    alike = f"Same {kind} on {names.ranks_phrase(exhibit.alike, 6)}." if exhibit.alike else ""
    label = "quoted"
    if exhibit.counts is not None:
        listed = exhibit.counts.source.endswith("logs")
        label = f"from {exhibit.counts.source}, {'listed' if listed else 'formatted'}"
    elif exhibit.lines is None:
        label = "from the dumps"
    entries = [place for place in exhibit.places if place.entry is not None] if exhibit.calls is not None else []
    again = tuple(
        line(f"nccldoctor inspect {shlex.quote(place.path)} --entry {place.entry}", 240) for place in entries[:COMMANDS]
    )
    claim = line(exhibit.claim, 240)
    note = _note(exhibit) if exhibit.lines is None else _whose(exhibit, exhibit.lines, diagnosis)
    return ProofStep(exhibit.id, claim, alike, note, _source(exhibit), label, again, exhibit)


def _whose(exhibit: Exhibit, lines: QuotedLines, diagnosis: Diagnosis) -> str:
    """``Rank 4 is pid 27920 on node3.``: what ties a quoted line to its rank, where only that stands there."""
    text = " ".join((lines.path, *(row.text for row in lines.shown)))
    state = next((state for state in diagnosis.ranks if state.rank == exhibit.rank), None)
    if state is None:
        blamed = (one for one in diagnosis.ranks if one.rank in diagnosis.verdict.ranks)
        there = Ranks(one.rank for one in blamed if one.host and one.host in text)
        return f"{names.ranks_phrase(there, 6).capitalize()} ran on that host." if there else ""
    named = {cite.strip("[]").rpartition("ank")[2].strip(" _:=") for cite in exhibit.cites if "ank" in cite}
    known = (
        ("pid ", str(state.pid or "")),
        ("GPU ", (state.device or "").removeprefix("GPU ")),
        ("on ", state.host or ""),
    )
    shown = [f"{what}{value}" for what, value in known if value and value in text]
    is_told = str(state.rank) in named or (f"ank {state.rank}" in exhibit.claim and not shown)
    if is_told or (not shown and state.rank not in diagnosis.verdict.ranks):
        return ""
    tie = f"Rank {state.rank} is {line(' '.join(shown), 120)}." if shown else ""
    return tie or f"The line names no rank; by what the other ranks did, it is rank {state.rank}'s."


def _note(exhibit: Exhibit) -> str:
    """What *retired* means, where a table has it; "" elsewhere."""
    rows = exhibit.calls.rows if exhibit.calls is not None else ()
    is_retired = any(cell is not None and cell.state.endswith("retired") for row in rows for cell in row.cells)
    return "These dumps mark no call as completed: a retired call has ended." if is_retired else ""


def _source(exhibit: Exhibit) -> str:
    if exhibit.lines is not None:
        first, last = exhibit.lines.shown[0].number, exhibit.lines.shown[-1].number
        return line(f"{exhibit.lines.path}:{first}" + (f"-{last}" if last > first else ""), 200)
    if exhibit.order is not None:
        return f"rank {exhibit.order.left} and rank {exhibit.order.right}, each in its own order"
    if exhibit.calls is not None:
        return line(", ".join(side.path for side in exhibit.calls.sides), 200)
    return line(", ".join(dict.fromkeys(place.path for place in exhibit.places)), 200)


def call_cell(cell: CallCell, differs: Collection[str]) -> str:
    """``ALLREDUCE [64] Float, completed, train.py:55``: every field that may differ; an equal call without its line."""
    site = cell.site if differs else ""
    parts = [f"{names.op_name(cell.op)} {cell.sizes} {cell.dtype}".strip(), cell.state, site]
    return line(", ".join(part for part in parts if part), 200)


def log_sides(diagnosis: Diagnosis) -> tuple[LogSide, ...]:
    """The last lines of a culprit and of a waiting peer."""
    roles = dict.fromkeys(diagnosis.verdict.suspects, "suspect") | dict.fromkeys(diagnosis.verdict.ranks, "at fault")
    gaps = (times.duration(side.gap_ms) if side.gap_ms is not None else "" for side in diagnosis.last_lines)
    sides = zip(diagnosis.last_lines, gaps, strict=True)
    return tuple(LogSide(side, roles.get(side.rank, "waiting"), gap) for side, gap in sides)


def missing_log(diagnosis: Diagnosis) -> str:
    """One sentence about the side without log lines; "" where both are shown, or neither."""
    finding = diagnosis.verdict
    blamed = finding.blamed
    sides = diagnosis.last_lines
    if len(sides) != 1 or not blamed:
        return ""
    has_culprit = sides[0].rank in blamed
    is_quoted = any(e.lines is not None and not e.lines.frame and e.rank in blamed for e in diagnosis.proof)
    if is_quoted if not has_culprit else not (finding.inside or finding.victims) - blamed:
        return ""  # the proof quotes one, or nobody else waits
    return f"We parsed no log line of {'a waiting rank' if has_culprit else names.ranks_phrase(blamed, 4)} around that time."
