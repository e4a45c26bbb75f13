"""Stacks that tools printed as text: py-spy, faulthandler, gdb and pystack, alone, in a log, or collected by
``torch.distributed.debug``.

Sources: output of py-spy 0.4, CPython ``Python/traceback.c`` (3.8 to 3.14), gdb ``thread apply all bt``, pystack
1.3; pytorch ``torch/distributed/debug/_frontend.py`` 2.13 for ``=== Rank 3: http://… ===`` and ``PARTIAL DATA``.
What comes out has the innermost frame first, as py-spy and faulthandler print it; ids of faulthandler are those of
pthread, not of the system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, Stack
from nccldoctor.parsers.base import Line, finds
from nccldoctor.parsers.stacks import frames as sf
from nccldoctor.parsers.stacks.owner import FAR, NEAR, owner_of, stacks
from nccldoctor.patterns import lazy

_PYSPY = lazy(
    r"Thread (?P<id>\d{1,10}|0x[0-9A-Fa-f]{1,16}) \((?P<state>idle|active(?:\+gil)?|idle\+gil)\)(?::"
    r" \"(?P<name>[^\"]{0,100})\")?"
)
_MODULE = lazy(r"^ {0,8}<module> \(\S{1,300}\.py:\d{1,7}\)$")
_FAULTHANDLER = lazy(
    r"(?:(?:Current thread|Thread) 0x(?P<id>[0-9a-f]{4,16})(?: \[(?P<name>[^\]]{0,100})\])?|Stack) \(most recent"
    r" call first\):"
)


@finds(_PYSPY, " (idle)", " (active)", " (active+gil)", " (idle+gil)")
def py_spy(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """``py-spy dump``, with or without ``--native``, ``--locals`` and ``--subprocesses``.

    One stack for each thread with frames; that of a data loader's worker is no main thread of a rank.
    """
    frames = sf.collect(line, sf.pyspy_frame)
    if not frames:
        return
    named_other = hit["name"] not in (None, "MainThread")
    above = owner_of(line, NEAR if named_other else FAR)
    main = hit["name"] == "MainThread" or (
        hit["name"] is None and (hit["id"] == str(above.pid) if above.pid is not None else sf.is_of_program(frames))
    )
    is_helper = (above.is_helper and not sf.is_spawned_rank(frames)) or sf.is_helper_process(frames)
    yield Stack(
        **above.stack_fields(line),
        thread=hit["name"],
        ident=hit["id"],
        frames=frames,
        main=main and not is_helper,
        helper=main and is_helper,
        state=hit["state"],
        tool="py-spy",
    )


@finds(_MODULE, "<module> (")
def py_spy_without_head(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The frames of ``py-spy dump`` without the head, down to the module on which a main thread rests."""
    frames, first = [sf.pyspy_frame(line.body)], line
    for above in line.preceding(sf.MOST_FRAMES):
        if _PYSPY.search(above.body):
            return
        frame = sf.pyspy_frame(above.body)
        if frame:
            frames, first = [frame, *frames], above
        elif above.body[:1] != " ":
            break
    if len(frames) > 1 and not any(sf.pyspy_frame(below.body) for below in line.following(1)):
        yield from stacks(first, tuple(filter(None, frames)), "py-spy", main=True)


@finds(_FAULTHANDLER, "Current thread 0x", "Thread 0x", "Stack (most recent call first)")
def faulthandler(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """CPython's ``faulthandler``: by signal, by timer, or as the last words of a crash.

    One stack for each thread; the main thread rests on ``<module>``, or is cut off and printed last.
    """
    frames = sf.collect(line, sf.faulthandler_frame)
    if not frames:
        return
    main = frames[-1].startswith("<module> ") or (
        not sf.is_started_by_threading(frames)
        and not sf.is_helper_name(hit["name"] or "")
        and not _has_thread_below(line, len(frames))
    )
    yield from stacks(line, frames, "faulthandler", main, hit["name"], ident=hit["id"])


def _has_thread_below(line: Line, depth: int) -> bool:
    """True when the same dump goes on with another thread."""
    for number, below in enumerate(line.following(depth + 8)):
        if _FAULTHANDLER.search(below.body):
            return True
        if number >= depth and below.body.strip() and not sf.is_inside_dump(below.body):
            return False
    return False


_PYTHON_THREAD = lazy(r"^# Thread \d{1,20}$")


@finds(_PYTHON_THREAD, "# Thread ")
def formatted_stack(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """What ``traceback.format_stack`` prints below ``# Thread 140213``, outermost frame first: Ray's stacks without py-spy."""
    frames = sf.collect(line, sf.faulthandler_frame)[::-1]
    yield from stacks(line, frames, "traceback", sf.is_of_program(frames))
