"""How late the ranks at fault issued their last calls, drawn only where they stand out from their peers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import NEVER, Lateness, RankLateness
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.charts.call_strip import SMALL, StripBox, StripHead, StripPicture, column_width, grid
from nccldoctor.reports.charts.text_width import fitting
from nccldoctor.reports.parts import standing_titles
from nccldoctor.words import names, numbers, times
from nccldoctor.words.sanitize import line

CALLS = 9
"""Calls that are drawn, up to the stalled one."""

SHORTEST, TIMES_MEDIAN = 5.0, 3.0
"""A rank is late from so many milliseconds on, and from so many times the median of its peers."""

TIMES_LATEST_PEER = 2.0
"""A rank that is not so many times later than the latest of its peers is late by chance."""

OFTEN = 2
"""Calls before the stalled one in which a rank has to be late: one may be chance."""

LEGEND = (("done", "on time"), ("differs", "late or never called"))


def late_calls(diagnosis: Diagnosis) -> StripPicture | None:
    """The drawing; None where no rank at fault was late again and again before the stall."""
    found, blamed = diagnosis.run_up, diagnosis.verdict.blamed
    if found is None:
        return None
    at_fault = [row for row in found.rows if row.rank in blamed]
    peers = [row for row in found.rows if row.rank not in blamed]
    if not at_fault or not peers:
        return None
    known = [ms for row in peers for ms in row.late_ms if ms >= 0]
    bound = max(SHORTEST, TIMES_MEDIAN * float(np.median(known))) if known else SHORTEST
    worst = _latest_peers(peers)
    shown = [row for row in at_fault if _times_late(row, worst, bound) >= OFTEN]
    if not shown:
        return None
    drawn = _drawn(found, peers, shown[:2], bound)
    if diagnosis.verdict.stalled is not None:
        return drawn
    heads = tuple(replace(head, is_stalled=False) for head in drawn.heads)  # no call of a slow rank stands out
    return replace(drawn, title="Late in the last calls", heads=heads)


def _latest_peers(peers: Sequence[RankLateness]) -> tuple[float, ...]:
    """Milliseconds of the latest peer in each call."""
    return tuple(max(values) for values in zip(*(row.late_ms for row in peers), strict=True))


def _times_late(row: RankLateness, worst: Sequence[float], bound: float) -> int:
    """In how many calls before the last one a rank was clearly later than the latest of its peers."""
    first = min((ms for ms in row.late_ms if ms >= 0), default=0.0)  # a clock that is off makes all of them late
    pairs = zip(row.late_ms[:-1], worst[:-1], strict=True)
    return sum(ms - first > bound and ms >= TIMES_LATEST_PEER * peer for ms, peer in pairs if ms >= 0)


def _drawn(found: Lateness, peers: list[RankLateness], shown: list[RankLateness], bound: float) -> StripPicture:
    seqs, ops = found.seqs[-CALLS:], found.ops[-CALLS:]
    worst = _latest_peers(peers)[-CALLS:]
    step = column_width(len(seqs))
    lines = [(Ranks(row.rank for row in peers), worst), *((Ranks([row.rank]), row.late_ms[-CALLS:]) for row in shown)]
    labels = ("peers, the latest", *(standing_titles.ranks_title(ranks) for ranks, _ in lines[1:]))
    boxes = tuple(
        StripBox(
            *grid(at, number, step), *_text_and_kind(ms, max(bound, TIMES_LATEST_PEER * peer), is_peer=number == 0)
        )
        for number, (_, values) in enumerate(lines)
        for at, (ms, peer) in enumerate(zip(values, worst, strict=True))
    )
    heads = tuple(
        StripHead(grid(at, 0, step)[0], f"#{seq}", fitting(line(op, 60), SMALL, step - 8), at == len(seqs) - 1)
        for at, (seq, op) in enumerate(zip(seqs, ops, strict=True))
    )
    return StripPicture.in_grid(
        "late",
        "Late before the stall",
        f"Time behind the first rank in the last {numbers.plural(len(seqs), 'call')} of {names.group_title(found.group)}.",
        heads,
        tuple(
            (label, str(ranks), number > 0)
            for number, (label, (ranks, _)) in enumerate(zip(labels, lines, strict=True))
        ),
        boxes,
        LEGEND,
    )


def _text_and_kind(ms: float, bound: float, *, is_peer: bool) -> tuple[str, str]:
    if ms == NEVER:
        return "never", "differs"
    if ms < 0:
        return "", "none"
    return times.duration(ms), "done" if is_peer or ms <= bound else "differs"
