"""One pass for all literals, where the optional package ``hyperscan`` is installed (extra ``fast``).

It finds every literal of hundreds in one pass, three times as fast as the automata of ``literals.py``; the lines that come out are
the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Search = Callable[[memoryview], tuple[list[int], bool]]
"""Gives the offsets of all literals in a block, ascending, perhaps twice; and whether the block holds an escape character."""

_ESCAPE = b"\x1b"


@cache
def _engine() -> Any:
    """The module, None where it is not installed or does not work here.

    Its wheels need SSE 4.2, and a version before 0.8 searches no view of a block.
    """
    try:
        import hyperscan

        _compiled(hyperscan, (b"a",)).scan(memoryview(b"a"), match_event_handler=lambda *_: None)
    except Exception:  # an engine that is broken must not cost the analysis
        return None
    return hyperscan


def _compiled(engine: Any, literals: Sequence[bytes]) -> Any:
    """A database that tells of each hit how long its literal is, and 0 for the first escape character."""
    database = engine.Database()
    flags = [engine.HS_FLAG_SINGLEMATCH if literal == _ESCAPE else 0 for literal in literals]
    lengths = [0 if literal == _ESCAPE else len(literal) for literal in literals]
    database.compile(expressions=list(literals), ids=lengths, elements=len(literals), flags=flags, literal=True)
    return database


def one_pass(literals: Sequence[bytes]) -> Search | None:
    """A search for all of these, None where the engine is missing; each thread has a database of its own."""
    if _engine() is None or not literals:
        return None
    own = threading.local()

    def search(view: memoryview) -> tuple[list[int], bool]:
        if not hasattr(own, "database"):
            own.database = _compiled(_engine(), [*literals, _ESCAPE])
        found: list[int] = []
        escapes: list[int] = []

        def note(length: int, _start: int, end: int, _flags: int, _context: object) -> None:
            (found if length else escapes).append(end - length)

        own.database.scan(view, match_event_handler=note)
        found.sort()
        return found, bool(escapes)

    return search
