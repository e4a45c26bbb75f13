"""What ``py-spy record`` sampled over some time: folded stacks (``-f raw``) and speedscope's JSON.

Source: py-spy 0.3 and 0.4, ``src/flamegraph.rs``, ``src/speedscope.rs`` and ``src/stack_trace.rs``. Frames stand outermost first; only
``-t`` names threads, and threads that sleep are left out unless ``-i`` is given. A main thread that was in one function in nearly all
samples stands there, and gives a stack; one that moved gives a note of where it was most.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from nccldoctor.events import Note, Stack
from nccldoctor.model import Gap, Place, Source
from nccldoctor.parsers.base import FileParser, Parsed, file_parser
from nccldoctor.parsers.json_stream import whole_number
from nccldoctor.parsers.stacks.frames import MOST_FRAMES, is_helper_process, is_of_program
from nccldoctor.patterns import lazy

STANDS = 0.95
"""The share of its samples that a thread which stands still has in one function."""

_COUNTED = lazy(r"(?P<stack>\S.*\S) (?P<count>\d{1,12})\Z")
_FRAME = lazy(r"[^;()]{0,300}\S \([^()]{1,400}(?:\([^()]{0,80}\)[^()]{0,80})?\)\Z")
_THREAD = lazy(r"thread \(\w{1,40}\)(?:: (?P<name>.{1,200}))?\Z")
_PROCESS = lazy(r"(?i:process) (?P<pid>\d{1,10})\b")


class _Sampled(NamedTuple):
    """One stack, innermost frame first, and how much of the time it was seen."""

    weight: float
    pid: int | None
    thread: str | None
    frames: tuple[str, ...]


@file_parser
class SampledStacks(FileParser):
    """Where the main thread of each process of the file stands."""

    def claims(self, head: bytes, path: str) -> bool:
        """The schema of speedscope, or lines of frames between semicolons, each with a count."""
        lines = head.decode("utf-8", "replace").lstrip("\ufeff").splitlines()[:20]
        whole = lines[:-1] or lines  # the last one may be cut off
        return _is_speedscope(head) or (any(";" in line for line in whole) and all(map(_of_line, whole)))

    def parse(self, source: Source, content: bytes) -> Parsed:
        """A stack or a note for each process; a broken document gives a gap."""
        lines = content.decode("utf-8", "backslashreplace").splitlines()
        try:
            samples = list(
                _of_document(json.loads(content)) if _is_speedscope(content) else filter(None, map(_of_line, lines))
            )
        except (ValueError, RecursionError, TypeError, AttributeError, KeyError, OverflowError) as error:
            gap = Gap(f"stacks in {source.path}", f"not readable as speedscope's JSON: {error}"[:200], source=source.id)
            return Parsed(source, gaps=(gap,))
        by_process: dict[int | None, list[_Sampled]] = defaultdict(list)
        for sample in samples:
            by_process[sample.pid].append(sample)
        events = tuple(_standing(source, own) for own in list(by_process.values())[:4096])
        return Parsed(source, events, lines=len(lines), candidates=len(events), understood=len(events))


def _is_speedscope(head: bytes) -> bool:
    return (
        head[:99].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        and b"speedscope.app/file-format-schema" in head[: 64 << 10]
    )


def _of_line(line: str) -> _Sampled | None:
    if (hit := _COUNTED.match(line)) is None or int(hit["count"]) == 0:
        return None
    frames = hit["stack"].split(";")
    process = _PROCESS.match(frames[0]) if len(frames) > 1 else None
    thread = next(filter(None, map(_THREAD.match, frames[:-1][:2])), None)
    own = frames[(process is not None) + (thread is not None) :]
    if not all(map(_FRAME.match, own)):
        return None
    pid, name = int(process["pid"]) if process else None, thread["name"] if thread else None
    return _Sampled(int(hit["count"]), pid, name, tuple(own[: -MOST_FRAMES - 1 : -1]))


def _of_document(document: dict[str, Any]) -> Iterator[_Sampled]:
    """The samples of all threads. Raises what a document of another shape leads to."""
    named = [f"{one['name']} ({one.get('file') or '?'}:{one.get('line') or 0})" for one in document["shared"]["frames"]]
    for profile in document["profiles"]:
        name = str(profile.get("name"))[:200]
        process, thread = _PROCESS.search(name), "MainThread" if "MainThread" in name else None
        for stack, weight in zip(profile.get("samples", ()), profile.get("weights", ()), strict=False):
            indices = [whole_number(index) for index in stack[: -MOST_FRAMES - 1 : -1]]
            frames = tuple(named[index] for index in indices if index is not None and 0 <= index < len(named))
            if frames and 0 < float(weight) < 1e12:
                yield _Sampled(float(weight), int(process["pid"]) if process else None, thread, frames)


def _standing(source: Source, samples: list[_Sampled]) -> Stack | Note:
    """Where the main thread of a process stands; a note where it moved, or was not seen."""
    of_main = [s for s in samples if s.thread == "MainThread" or (s.thread is None and is_of_program(s.frames))]
    places, stacks = defaultdict[str, float](float), defaultdict[tuple[str, ...], float](float)
    for sample in of_main or samples:
        places[sample.frames[0].rpartition(":")[0]] += sample.weight
        stacks[sample.frames] += sample.weight
    place = max(places, key=places.__getitem__)
    frames = max((f for f in stacks if f[0].rpartition(":")[0] == place), key=stacks.__getitem__)
    share, whose = places[place] / sum(places.values()), "its main thread" if of_main else "a thread"
    text = f"py-spy saw {whose} in {share:.0%} of its samples in {' < '.join(frames[:3])}"[:500]
    at, pid, is_helper = Place(source.id, source.path), samples[0].pid, is_helper_process(frames)
    if not of_main or share < STANDS:
        return Note(place=at, text=text, pid=pid, what="sampled-stacks", detail=text[:300])
    return Stack(place=at, text=text, pid=pid, frames=frames, main=not is_helper, helper=is_helper, tool="py-spy")
