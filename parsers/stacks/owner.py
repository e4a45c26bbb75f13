"""Finds the process of a stack in the lines above it.

Source: py-spy 0.4, and pytorch ``torch/distributed/debug/_frontend.py`` 2.13 for ``=== Rank 3: http://… ===``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.events import Stack
from nccldoctor.model.hosts import short_host
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.line_prefix.engine_places import rank_in_engine
from nccldoctor.parsers.stacks.frames import is_helper_process
from nccldoctor.patterns import lazy

FAR = 1500
"""How many lines a main thread may stand below the head of its process."""

NEAR = 60
"""The same for other threads, of which there may be hundreds."""

_HEAD = 4
"""Lines between py-spy's process and the debug server's rank above it."""

_ENGINES = ("sglang::scheduler", "VLLM::Worker")
"""Titles that SGLang and vLLM give to the processes of their ranks, with the place in the engine."""

_PROCESS = lazy(r"(?P<parent>Parent )?Process (?P<pid>\d{1,10}): (?P<command>.{0,300})")
RANK_HEAD = lazy(
    r"(?:=== |<h2>|^\s{0,12})Rank (?P<rank>\d{1,7}): https?://(?P<host>\[[0-9a-fA-F:.%]{1,60}\]|[\w.\-]{1,120})?.{0,200}"
)
"""The line of the debug server above the answer of each rank; copied out of a browser it has no marks."""

_JOINED = lazy(
    r"^\s{0,3}[=#*+>~-]{2,80}\s{0,3}(?:[\w./-]{1,200}[/_.-])?[Rr](?:ank|ANK)[ _:=#-]{0,2}(?P<rank>\d{1,7})(?![\d.]\d).{0,120}$"
)
"""A line between the stacks of two ranks in one file: ``===== rank 3 =====``, ``==> stacks/rank_3.txt <==``."""


_JOINED_PID = lazy(
    r"^\s{0,3}[=#*+>~-]{2,80}\s{0,3}(?:[\w./-]{1,200}[/_.-])?(?:[Pp]id|PID|[Pp]rocess)[ _:=#-]{0,2}(?P<pid>\d{2,10})(?![\d.]\d).{0,120}$"
    r"|^[+$#>] .{0,120}\b(?:py-spy dump|pystack remote|(?:cuda-)?gdb|eu-stack|[gp]stack)\b[^|]{0,80}?[ =](?P<asked>\d{2,10})\b"
)
"""The same with the number of a process: ``=== pid 4711 ===``, ``+ py-spy dump --pid 4711`` as a tracing shell prints it."""


class Owner(Struct, frozen=True):
    """The process above a thread: rank and host from the debug server, pid and command lines from py-spy."""

    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    command: str = ""
    parent: str | None = None

    @property
    def is_helper(self) -> bool:
        """A worker that the rank's process started; not a rank that its launcher started."""
        if "multiprocessing." in self.command:
            return True
        return self.parent is not None and self.parent == self.command

    def stack_fields(self, line: Line, **more: Any) -> dict[str, Any]:
        """The common fields of a stack below."""
        mark = line.mark
        rank = self.rank if self.rank is not None else mark.rank
        pid = self.pid if self.pid is not None else mark.pid
        return common(line, **({"rank": rank, "host": self.host or mark.host, "pid": pid} | more))


def owner_of(line: Line, reach: int = FAR) -> Owner:
    """The owner of the thread that begins on ``line``, from at most ``reach`` lines above it. Never raises.

    What was found above another thread serves those below it: there may be thousands.
    """
    noted, owner, far, left = line.window.noted, Owner(), 0, reach
    for far, above in enumerate(line.preceding(reach), 1):
        known, its_far = noted.get(("owner", reach, above.place, above.body), (None, 0))
        if known is not None and owner.pid is None:
            far += its_far
            owner = known if far <= reach else owner
            break
        owner, is_last = _with_line(owner, above.body)
        left = min(left - 1, _HEAD if owner.pid is not None else left)
        if is_last or left <= 0:
            break
    noted["owner", reach, line.place, line.body] = owner, far
    return owner


def _with_line(owner: Owner, body: str) -> tuple[Owner, bool]:
    """What is known of an owner with a further line above it, and whether none above that adds to it."""
    if "Rank " in body and (hit := RANK_HEAD.search(body)):
        return replace(owner, rank=int(hit["rank"]), host=short_host((hit["host"] or "").strip("[]")) or None), True
    if (joined := _JOINED.search(body)) is not None:
        return replace(owner, rank=int(joined["rank"])), True
    if owner.pid is None and (joined := _JOINED_PID.search(body)) is not None:
        return replace(owner, pid=int(joined["pid"] or joined["asked"])), True
    if "Process " in body and (hit := _PROCESS.search(body)):
        command = hit["command"].strip()
        if hit["parent"]:
            return replace(owner, parent=command), False
        if owner.pid is None:
            place = rank_in_engine(command) if command.startswith(_ENGINES) else None
            return replace(owner, rank=place, pid=int(hit["pid"]), command=command), False
    return owner, False


def stacks(
    line: Line,
    frames: tuple[str, ...],
    tool: str,
    main: bool,
    thread: str | None = None,
    pid: str = "",
    reach: int = 0,
    **more: Any,
) -> Iterator[Stack]:
    """*stack* of the thread that begins on ``line``, where it has frames. The main thread of a helper is that of no rank.

    ``pid`` is the number of a main thread, for a process that nothing above names. ``reach`` is how far the owner is looked for.
    """
    if frames:
        is_helper = main and is_helper_process(frames)
        fields = owner_of(line, reach or (FAR if main else NEAR)).stack_fields(line)
        if main and fields["pid"] is None and pid:
            fields["pid"] = int(pid)
        is_rank = main and not is_helper
        yield Stack(**fields, thread=thread, frames=frames, main=is_rank, helper=is_helper, tool=tool, **more)
