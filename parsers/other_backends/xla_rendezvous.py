"""XLA's rendezvous: the threads of one process, one for each device, that meet before a collective.

Each line is of one thread that waits; of a clique it tells the device of that thread (``reached``).
Sources: XLA ``service/rendezvous.cc``, 2024 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import AbsenceReport, AbsenceWarning, Event
from nccldoctor.parsers.base import Line, common, finds
from nccldoctor.parsers.event_details import waiting_device
from nccldoctor.patterns import lazy

_WAITS = lazy(
    r"(?P<begin>This thread has been waiting|Termination timeout) for `(?P<call>[^`]{1,300})` (?:for|of) "
    r"(?P<seconds>\d{1,9}) seconds"
)
_EXPECTED = lazy(
    r"Expected (?P<size>\d{1,7}) threads to join the rendezvous(?:, but only (?P<arrived>\d{1,7}) of them)?"
)
_ALL = lazy(r"All (?P<size>\d{1,7}) threads joined the rendezvous")


@finds(_WAITS, "This thread has been waiting for `", "Termination timeout for `")
def xla_rendezvous(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*absence-warning* after the first limit and *absence-report* after the last one, at which the process ends itself."""
    kind = AbsenceReport if hit["begin"].startswith("Term") else AbsenceWarning
    call, seconds = hit["call"].partition(";")[0].partition(" for rank ")[0][:120], int(hit["seconds"])
    here = waiting_device(hit["call"])
    told = {"reached": here} | _counts(line.body)
    yield kind(**common(line), by="XLA", what="collective", call=call, seconds=seconds, **told)


def _counts(text: str) -> dict[str, Any]:
    if every := _ALL.search(text):
        return {"arrived": int(every["size"]), "size": int(every["size"])}
    if expected := _EXPECTED.search(text):
        arrived = expected["arrived"]
        return {"arrived": int(arrived) if arrived else None, "size": int(expected["size"])}
    return {}
