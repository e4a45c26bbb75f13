"""The JSON form of ``py-spy dump`` (0.4): a list of threads with their frames, innermost first."""

from __future__ import annotations

import json
from typing import Any

from nccldoctor.events import Stack
from nccldoctor.model import Gap, Place, Source
from nccldoctor.parsers.base import FileParser, Parsed, file_parser
from nccldoctor.parsers.json_stream import whole_number
from nccldoctor.parsers.stacks.frames import MOST_FRAMES, is_helper_process


@file_parser
class PySpyJsonParser(FileParser):
    """One stack for each thread of the document."""

    def claims(self, head: bytes, path: str) -> bool:
        """A JSON list whose first item has a thread and frames."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return start.startswith(b"[") and b'"frames"' in head and (b'"thread_id"' in head or b'"os_thread_id"' in head)

    def parse(self, source: Source, content: bytes) -> Parsed:
        """The stacks; a broken document gives a gap that says where it breaks."""
        try:
            threads = json.loads(content)
        except (ValueError, RecursionError) as error:
            gap = Gap(f"stacks in {source.path}", f"not readable as JSON: {error}"[:200], source=source.id)
            return Parsed(source, gaps=(gap,))
        threads = threads if isinstance(threads, list) else []
        stacks = [_stack(source, thread) for thread in threads[:4096] if isinstance(thread, dict)]
        events = tuple(stack for stack in stacks if stack.frames)
        return Parsed(
            source, events=events, lines=content.count(b"\n") + 1, candidates=len(stacks), understood=len(events)
        )


def _stack(source: Source, thread: dict[str, Any]) -> Stack:
    name, pid = thread.get("thread_name"), whole_number(thread.get("pid"))
    frames = thread.get("frames")
    read = (
        tuple(_frame_text(f) for f in frames[:MOST_FRAMES] if isinstance(f, dict)) if isinstance(frames, list) else ()
    )
    main = name == "MainThread" or (name is None and pid is not None and thread.get("os_thread_id") == pid)
    is_helper = main and is_helper_process(read)
    state = ("active" if thread.get("active") else "idle") + ("+gil" if thread.get("owns_gil") else "")
    return Stack(
        place=Place(source.id, source.path),
        text=f"{name or 'thread'} ({state}): {' < '.join(read[:3])}"[:500],
        rank=None,
        pid=pid,
        thread=name if isinstance(name, str) else None,
        frames=read,
        main=main and not is_helper,
        helper=is_helper,
        state=state,
        tool="py-spy",
    )


def _frame_text(frame: dict[str, Any]) -> str:
    line = frame.get("line")
    where = frame.get("filename") or frame.get("module") or "?"
    return f"{frame.get('name') or '?'} ({where}:{line})" if line else f"{frame.get('name') or '?'} ({where})"
