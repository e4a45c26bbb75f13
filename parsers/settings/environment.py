"""Environment variables where they are set: shells, job scripts, containers, Python, dumps of an environment.

A mention is no setting: advice in error messages (``consider passing CUDA_LAUNCH_BLOCKING=1``), comments and prose
are passed over, which is why each form is tied to the shape of its line. Only variables of libraries that take part
in distributed training count; values with secret-looking names are masked, and the event's text holds the variable
alone, not its line.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Setting
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table
from nccldoctor.parsers.settings.assignments import MOST, NEEDS, assignments
from nccldoctor.words.secrets import MASK, is_secret, masked


def shown_value(name: str, value: str) -> str:
    """The value without quotes, and masked where the name looks like a secret or an address holds a password."""
    text = value.strip().rstrip("\\").strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return MASK if is_secret(name) else masked(text)[:300]


@reads(*Table(__file__).literals, needs=NEEDS)
def environment(line: Line) -> Iterator[Event]:
    """One event for each variable that a line sets.

    Each variable once per line, in order; the value is empty where the line says only that it is set.
    """
    seen: set[str] = set()
    for name, value in assignments(line):
        if name in seen:
            continue
        seen.add(name)
        shown = shown_value(name, value)
        yield Setting(**common(line, text=f"{name}={shown}"), name=name, value=shown)
        if len(seen) == MOST:
            return
