"""Reads which process is which rank from any line that holds both: ``rank=2 pid=32715``, ``started rank 1 as 6864``.

A worker that a rank starts has a pid of its own, and lines about such workers tie no rank to a process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, ProcessId
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.patterns import lazy

_RANK = r"(?<![\w-])(?P<kind>local[_ -]?|global[_ -]?|world_)?rank\"?\s?[=:#]?\s?(?P<rank>\d{1,7})(?![\d.]\d)"
_PID = r"(?<![\w-])(?:pid|process(?:[ _]id)?)\"?\s?[=:#]?\s?(?P<pid>\d{1,10})(?![\d.]\d)"
_BETWEEN = r"(?P<between>[^\n]{0,80}?)"
_NO_OTHER_PID = r"(?P<between>(?:(?!\bpid\b)[^\n]){0,80}?)"
"""Ray names the pid of the process that prints, and then that of the rank."""

_FORMS = tuple(
    (words, lazy(form, re.IGNORECASE))
    for words, form in (
        (("pid", "process"), rf"{_RANK}{_BETWEEN}{_PID}"),
        (("pid", "process"), rf"{_PID}{_NO_OTHER_PID}{_RANK}"),
        (
            ("start", "launch", "spawn", "fork"),
            rf"\b(?:start|launch|spawn|fork)(?:ed|ing) (?:\w{{1,12}} ){{0,2}}{_RANK} (?:as|with|in|is)"
            r" (?:\w{1,12} ){0,2}(?P<pid>\d{1,10})\b",
        ),
    )
)
"""Each with words of which a line must hold one: to look for these takes a tenth of the time."""

_ROW = lazy(rf"\W{{0,3}}{_RANK}\s{{0,3}}(?:->|=>|→|:)\s{{0,3}}(?P<pid>\d{{2,10}})$", re.IGNORECASE)
"""A whole line with nothing else in it."""

_SIGNS = tuple(dict.fromkeys((":", "->", "=>", "→", *(word for words, _ in _FORMS for word in words))))
"""Of these a line holds one that names a process."""

_OWN = lazy(r"(?:\w{1,12}[ =:]{1,2}){0,3}?(?:my |own )?pid\s?[=:#]?\s?(?P<pid>\d{1,10})\b", re.IGNORECASE)
_OF_OTHERS = lazy(r"worker|loader|child|parent|\bppid|agent|daemon|dump", re.IGNORECASE)
_TROUBLE = lazy(r"exit|signal|kill|fail|error|timed out|abort|terminat|=   RANK \d", re.IGNORECASE)
"""Lines about an end, such as the last block of Intel MPI, are read elsewhere; of others they may name a peer."""


@reads("pid", "PID", "rank ", "process id", sampled=True)
def process_ids(line: Line) -> Iterator[Event]:
    """*process-id* of a rank; a line without one whose writer is known says its own pid."""
    body = line.raw[:1000]
    words = body.lower()
    if not any(map(words.__contains__, _SIGNS)):
        return
    hit = _tie(body, words)
    own = _OWN.match(line.body[:200]) if hit is None and line.mark.rank is not None else None
    if (hit is None and own is None) or _TROUBLE.search(body):
        return
    if hit is not None:
        number, is_local = int(hit["rank"]), (hit["kind"] or "").lower().startswith("local")
        rank = line.mark.rank if is_local else number
        yield ProcessId(
            **common(line, rank=rank, pid=int(hit["pid"])), local_rank=number if is_local else line.mark.local_rank
        )
    elif own is not None and not _OF_OTHERS.search(body):
        yield ProcessId(**common(line, pid=int(own["pid"])), local_rank=line.mark.local_rank)


def _tie(body: str, words: str) -> re.Match[str] | None:
    """What ties a rank to a process in a line, which is ``words`` in small letters."""
    if "rank" not in words:
        return None
    for signs, form in _FORMS:
        hit = form.search(body) if any(sign in words for sign in signs) else None
        if hit is not None and not _OF_OTHERS.search(hit.groupdict().get("between") or ""):
            return hit
    return _ROW.match(body)
