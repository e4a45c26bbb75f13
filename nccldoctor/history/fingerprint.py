"""What incidents of one defect have in common: class, line of the program, role of the process group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from nccldoctor.dataclass import dataclass
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks

_NUMBER = re.compile(r"[\s_:(#-]*\d+\)?")
"""The number of a group among its sisters: `` (1)`` of ``TENSOR_MODEL_PARALLEL_GROUP (1)``, ``_3`` of ``tp_3``."""

_OPEN = CauseClass.UNDETERMINED.value


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Two incidents with the same one have probably the same defect.

    ``site`` is the function and file where the rank at fault was, or that issued its call: ``refresh_expert_table (train.py)``, without
    the line, which moves with every change of the program. ``group_role`` is the name of the group without its number. Each is empty
    where the report does not know it.
    """

    cause: str
    site: str = ""
    group_role: str = ""

    def __str__(self) -> str:
        return " · ".join(part for part in (self.cause, self.site, self.group_role) if part)

    @property
    def is_told(self) -> bool:
        """Whether it says more than the class, which many defects share."""
        return bool(self.site or self.group_role)


def same_defect(a: Fingerprint, b: Fingerprint) -> bool | None:
    """Whether two incidents have one defect. None where they agree in what both know, and one of them leaves the rest open."""
    if a == b and a.is_told:
        return True
    parts = [
        (a.cause if a.cause != _OPEN else "", b.cause if b.cause != _OPEN else ""),
        (a.site, b.site),
        (a.group_role, b.group_role),
    ]
    return False if any(left and right and left != right for left, right in parts) else None


def fingerprint_of(document: Mapping[str, Any]) -> Fingerprint:
    """The fingerprint of a document of ``analyze --format json``."""
    verdict = document["verdict"]
    stalled = verdict.get("stalled") or {}
    return Fingerprint(str(verdict["class"]), _site(document), _role(str(stalled.get("group") or "")))


def ranks_in(text: object) -> Ranks:
    """A rank set of a document. Raises ValueError for ranks above any job, which would take all memory."""
    if re.search(r"\d{7}", str(text or "")):
        raise ValueError(f"no job has so many ranks: {str(text)[:40]}")
    return Ranks.parse(str(text or ""))


def _site(document: Mapping[str, Any]) -> str:
    """Where the rank at fault was by its stack; else the line that issued its first call that differs."""
    at_fault = ranks_in(document["verdict"]["ranks"])
    for side in _objects(document.get("stacks")):
        if side.get("rank") in at_fault:
            for frame in _objects(side.get("frames")):
                if frame.get("own"):
                    return f"{frame.get('function')} ({_base(str(frame.get('file')))})"
    streams = document.get("streams") or {}
    for row in _objects(streams.get("rows")):
        call = row.get("left") if streams.get("left") in at_fault else row.get("right")
        if row.get("kind") != "same" and isinstance(call, Mapping) and call.get("site"):
            return re.sub(r":\d+\)$", ")", str(call["site"]))
    return ""


def _role(group: str) -> str:
    """``TENSOR_MODEL_PARALLEL_GROUP (1)`` and ``(2)`` are one role."""
    return _NUMBER.sub("", group).strip()


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _objects(value: object) -> Iterable[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else ()
