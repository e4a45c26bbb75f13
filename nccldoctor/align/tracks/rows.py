"""The tracks of all ranks as rows, for a person to check against the files."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nccldoctor.align.descriptions import describe, describe_group
from nccldoctor.align.facts import Facts, align
from nccldoctor.align.tracks.spans import Span
from nccldoctor.identify.case import Case
from nccldoctor.model import Place
from nccldoctor.model.standings import TrackRow


def track_rows(case: Case) -> Iterator[TrackRow]:
    """What each rank of a case did, oldest first; one row that says why, where nothing is known."""
    facts = align(case)
    for rank in facts.case.world:
        track = facts.tracks.track(rank)
        yield from (_row_of_span(facts, rank, span) for span in track.spans)
        if track.silence:
            yield TrackRow(rank, "silent", track.silence, None, None, -math.inf, math.inf, "", None)


def _row_of_span(facts: Facts, rank: int, span: Span) -> TrackRow:
    call = facts.wait_graph.calls[span.key] if span.key is not None else None
    return TrackRow(
        rank,
        span.doing.value,
        describe(facts, call) if call is not None else span.what,
        describe_group(facts, call.group) if call is not None else None,
        call.seq if call is not None else None,
        span.began.earliest,
        span.began.latest,
        span.began.known_by,
        _shown_at(facts, span),
    )


def _shown_at(facts: Facts, span: Span) -> Place | None:
    calls, dumps = facts.case.calls, facts.case.dumps
    if span.row < 0:
        return span.event.place if span.event is not None else None
    dump = dumps[calls.dump[span.row]]
    return Place(dump.source, dump.path, entry=int(calls.entry[span.row]))
