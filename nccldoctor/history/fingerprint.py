"""What incidents of one defect have in common: class, line of the program, role of the process group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks

_NUMBER = re.compile(r"[\s_:(#-]*\d+\)?")
"""The number of a group among its sisters: `` (1)`` of ``TENSOR_MODEL_PARALLEL_GROUP (1)``, ``_3`` of ``tp_3``."""

_RECORDED = "newest recorded call: "
"""How the frames of a recorded call are introduced, where no stack of the rank was taken."""

_OPEN = CauseClass.UNDETERMINED.value


class Fingerprint(Struct, frozen=True):
    """Two incidents with the same one have probably the same defect.

    ``site`` is the function and file where the rank at fault was by its stack: ``refresh_expert_table (train.py)``, without the line,
    which moves with every change of the program; without a stack, those that issued the call that differs, or the one that hung.
    ``group_role`` is the name of the group without its number. Each is empty where the report does not know it.
    """

    cause: str
    site: str = ""
    group_role: str = ""

    def __str__(self) -> str:
        return " · ".join(part for part in (self.cause, self.site, self.group_role) if part)


def differences(a: Fingerprint, b: Fingerprint) -> list[str]:
    """The parts in which two fingerprints differ, of those that both know."""
    parts = {
        "class": (a.cause if a.cause != _OPEN else "", b.cause if b.cause != _OPEN else ""),
        "line of the program": (a.site, b.site),
        "process group": (a.group_role, b.group_role),
    }
    return [name for name, (left, right) in parts.items() if left and right and left != right]


def same_defect(a: Fingerprint, b: Fingerprint) -> bool | None:
    """Whether two incidents have one defect: one class at one line of the program. None where one of them leaves that open.

    A class in one kind of group is no signature: many jobs have a ``default_pg``.
    """
    if differences(a, b):
        return False
    return True if a.cause == b.cause != _OPEN and a.site and a.site == b.site else None


def fingerprint_of(document: Mapping[str, Any]) -> Fingerprint:
    """The fingerprint of a document of ``analyze --format json``."""
    verdict = document["verdict"]
    stalled = verdict.get("stalled") or {}
    return Fingerprint(str(verdict["class"]), _site(document), _NUMBER.sub("", str(stalled.get("group") or "")).strip())


def ranks_in(text: object) -> Ranks:
    """A rank set of a document. Raises ValueError for ranks above any job, which would take all memory."""
    if re.search(r"\d{7}", str(text or "")):
        raise ValueError(f"no job has so many ranks: {str(text)[:40]}")
    return Ranks.parse(str(text or ""))


def _site(document: Mapping[str, Any]) -> str:
    """Where the rank at fault was by its stack.

    Else the line that issued its call that differs, or the call that hung; one that it finished before says nothing of either.
    """
    at_fault = ranks_in(document["verdict"]["ranks"])
    stalled = document["verdict"].get("stalled") or {}
    for side in _objects(document.get("stacks")):
        if side.get("rank") in at_fault and (_is_of_stack_tool(side) or _is_newest_call(side, stalled)):
            return _own_function(side)
    streams = document.get("streams") or {}
    for row in _objects(streams.get("rows")):
        own, other = ("left", "right") if streams.get("left") in at_fault else ("right", "left")
        call = row.get(own) or (row.get(other) if _is_call(row.get(other), stalled) else None)
        if row.get("kind") != "same" and isinstance(call, Mapping) and call.get("site"):
            function, _, place = str(call["site"]).rpartition(" (")
            return f"{_bare(function)} ({re.sub(r':[0-9]+[)]$', ')', place)}"
    peers = (side for side in _objects(document.get("stacks")) if _is_newest_call(side, stalled))
    return next(filter(None, map(_own_function, peers)), "")


def _is_of_stack_tool(side: Mapping[str, Any]) -> bool:
    """True of a stack of a thread; else the frames are those of the newest call that the rank recorded."""
    return not str(side.get("what")).startswith(_RECORDED)


def _is_newest_call(side: Mapping[str, Any], stalled: Mapping[str, Any]) -> bool:
    """True where the newest recorded call is the one that hung: ``newest recorded call: all_reduce #7 in default_pg (0) …``."""
    number, group = stalled.get("seq"), stalled.get("group")
    named = f"#{number} in {group} "
    return number is not None and bool(group) and not _is_of_stack_tool(side) and named in f"{side.get('what')} "


def _is_call(call: object, stalled: Mapping[str, Any]) -> bool:
    """True where a row of the calls side by side is the call that hung."""
    return isinstance(call, Mapping) and all(
        call.get(name) is not None and call.get(name) == stalled.get(name) for name in ("seq", "group")
    )


def _own_function(side: Mapping[str, Any]) -> str:
    """The innermost frame of the program's own code, ``refresh_expert_table (train.py)``; "" where there is none."""
    own = (frame for frame in _objects(side.get("frames")) if frame.get("own"))
    return next((f"{_bare(str(frame.get('function')))} ({_base(str(frame.get('file')))})" for frame in own), "")


def _bare(function: str) -> str:
    """``fetch`` of ``Client.fetch``: py-spy names the class, faulthandler and the recorder don't."""
    return function.rpartition(".")[2]


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _objects(value: object) -> Iterable[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else ()
