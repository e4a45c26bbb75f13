"""Lines in which a rank says that it left out a batch, and with it the calls of that batch.

Example: ``batch of step 30 skipped: KeyError('caption')``, logged by an ``except`` that goes on with the next batch.
"""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.events import Note


def left_out_batches(facts: Facts) -> list[Note]:
    """The lines about batches that ranks left out before anybody gave up."""
    return [e for e in facts.case.of(Note) if e.what == "batch-skipped" and not _has_given_up_before(facts, e)]


def _has_given_up_before(facts: Facts, note: Note) -> bool:
    """True when the rank had given up before the note, or the first alarm came before it."""
    own = facts.liveness.activity(note.rank).secondary_errors if note.rank is not None else ()
    before = (e.place.source == note.place.source and (e.place.line or 0) < (note.place.line or 0) for e in own)
    return facts.liveness.is_after_alarm(note) or any(before)
