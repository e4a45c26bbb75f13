"""The picture beside *Do now*: the one that makes the class of the incident obvious."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from nccldoctor.model import CauseClass, Diagnosis, Family
from nccldoctor.model.figures import FieldDiff, Snapshots
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts.chain import ChainPicture, chain_picture
from nccldoctor.reports.charts.crossed import CrossedCalls, crossed_calls
from nccldoctor.reports.charts.link import LinkPicture, link_picture
from nccldoctor.reports.charts.stall import BESIDE, StallPicture, stall_picture
from nccldoctor.words import names, times
from nccldoctor.words.sanitize import line

FIELDS = 8
"""Fields of a call that are shown, the differing ones first."""

EFFECTS = ("state", "created")
"""Fields that may differ between ranks that issued the same call."""

_ORDERS = (CauseClass.ORDER_INVERSION, CauseClass.MISSED_CALL, CauseClass.EXTRA_CALL)


class FieldTable(Struct, frozen=True):
    """The fields of one call, a column for each side; the last one holds the culprits."""

    call: str
    sides: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...], bool], ...]
    source: str


class SnapshotTable(Struct, frozen=True):
    """What ranks stood in at each look: label, frames, whether they are at fault, and whether they moved."""

    times: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...], bool, bool], ...]


Drawing = FieldTable | SnapshotTable | CrossedCalls | LinkPicture | ChainPicture | StallPicture


class FirstPicture(Struct, frozen=True):
    """The picture with its title and a line below it; ``kind`` is its template: fields, order, link, snapshots, gap, chain."""

    kind: str
    title: str
    sub: str
    drawing: Drawing


def first_picture(diagnosis: Diagnosis) -> FirstPicture | None:
    """The most telling picture that shows the culprits and the stalled call; None where none has signal."""
    if diagnosis.verdict.family in (Family.NONE, Family.UNDETERMINED):
        return None
    return (
        _differing_fields(diagnosis.fields)
        or _call_order(diagnosis)
        or _broken(diagnosis)
        or _stacks_over_time(diagnosis.snapshots)
        or _gap(diagnosis)
        or cycle(diagnosis)
    )


def _gap(diagnosis: Diagnosis) -> FirstPicture | None:
    """One side at work while the other waits, to scale: a chain of two boxes says no more than that."""
    standings = [s for s in diagnosis.standings if s.distance is not None]
    is_one_edge = sorted(s.distance or 0 for s in standings) == [0, 1] and diagnosis.verdict.ranks <= standings[0].ranks
    drawing = stall_picture(diagnosis, BESIDE) if is_one_edge else None
    return None if drawing is None else FirstPicture("gap", "The stall, to scale", drawing.subtitle, drawing)


def _differing_fields(diff: FieldDiff | None) -> FirstPicture | None:
    if diff is None:
        return None
    shown = diff.fields[:FIELDS]
    operations = {value for field in diff.fields if field.name == "operation" for value in field.values}
    table = FieldTable(
        call=names.call_title(diff.op, diff.seq) if len(operations) < 2 else f"call #{diff.seq}",
        sides=tuple(names.ranks_phrase(side, 4) for side in diff.sides),
        rows=tuple(
            (f.name, tuple(line(value, 80) for value in f.values), f.is_different and f.name not in EFFECTS)
            for f in shown
        ),
        source=diff.source,
    )
    return FirstPicture("fields", "What differs", "", table)


def _call_order(diagnosis: Diagnosis) -> FirstPicture | None:
    """The order of calls, where it holds the stalled one and shows a difference."""
    verdict, diff = diagnosis.verdict, diagnosis.streams
    if verdict.cause not in _ORDERS or diff is None or diff.left not in verdict.ranks:
        return None
    if all(row.kind == "same" for row in diff.rows):
        return None
    drawing = crossed_calls(diff)
    if verdict.stalled is not None and verdict.stalled.seq not in drawing.seqs:
        return None
    if verdict.cause is CauseClass.ORDER_INVERSION and not drawing.is_swapped:
        return None
    title = "Calls in opposite order" if drawing.is_swapped else "Where the calls part"
    return FirstPicture("order", title, "Each rank's calls from top to bottom, from the dumps.", drawing)


def _broken(diagnosis: Diagnosis) -> FirstPicture | None:
    link = diagnosis.link
    if link is None:
        return None
    named = link.near.ranks | link.far.ranks
    if not diagnosis.verdict.ranks <= named:
        return None
    return FirstPicture("link", "The broken connection", "", link_picture(link, diagnosis.verdict.ranks))


def _stacks_over_time(found: Snapshots | None) -> FirstPicture | None:
    if found is None or any(row.is_culprit and row.has_moved for row in found.rows):
        return None
    clocks = (None if at is None else f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}" for at in found.times)
    frames = [tuple(line(frame, 80) or "-" for frame in row.frames) for row in found.rows]
    table = SnapshotTable(
        times=tuple(clock or f"snapshot {n}" for n, clock in enumerate(clocks, 1)),
        rows=tuple(
            (names.ranks_phrase(row.ranks, 4), seen, row.is_culprit, row.has_moved)
            for row, seen in zip(found.rows, frames, strict=True)
        ),
    )
    first, last = found.times[0], found.times[-1]
    apart = f", {times.duration((last - first) * 1e3)} apart" if first is not None and last is not None else ""
    moved = [row for row in found.rows if row.has_moved]
    sub = "Nothing moved on any rank shown." if not moved else "No rank at fault moved."
    return FirstPicture("snapshots", f"{_COUNTS.get(len(found.times), 'Several')} snapshots{apart}", sub, table)


_COUNTS = {2: "Two", 3: "Three"}


def cycle(diagnosis: Diagnosis) -> FirstPicture | None:
    """Who waits for whom, where the culprits are in the drawing."""
    drawing, ends = chain_picture(diagnosis.standings), diagnosis.verdict.blamed
    if drawing is None:
        return None
    needed = Ranks(r for s in diagnosis.standings if s.ranks & ends for r in s.waits_for)
    both = Ranks(r for s in diagnosis.standings if s.waits_for & ends for r in s.ranks) & needed
    if both:
        words = f"{names.ranks_phrase(ends, 4).capitalize()} and {names.ranks_phrase(both, 4)} wait for each other."
        return FirstPicture("chain", "The cycle", words, drawing)
    words = f"Every chain ends at {names.ranks_phrase(ends, 4)}." if ends else ""
    return FirstPicture("chain", "Who waits for whom", words, drawing)
