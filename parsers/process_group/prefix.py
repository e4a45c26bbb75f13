"""The process group and the rank in it, as ProcessGroupNCCL puts them before its messages.

``[Rank 3]`` up to PyTorch 2.2, ``[PG 0 Rank 3]`` in 2.3, ``[PG 0 (default_pg) Rank 3]`` in 2.4,
``[PG ID 0 PG GUID 0(default_pg) Rank 3]`` since 2.5 (pytorch ``ProcessGroupNCCL.cpp``, ``logPrefix`` /
``createLogPrefix``). The rank is the one *inside the group*; the global one is in the ``[rank3]:`` of the logger.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.events import GroupRef
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

PATTERN = lazy(
    r"\[PG (?:ID (?P<id>\d{1,9}) PG GUID (?P<guid>[^\s(\]]{1,200})(?:\((?P<desc>[^)\n]{0,200})\))?"
    r"|(?P<name>[^\s(\]]{1,200})(?: \((?P<desc2>[^)\n]{0,200})\))?) Rank (?P<rank>\d{1,7})\]"
)
_RANK = lazy(r"(?<!exception: )\[Rank (\d{1,7})\]")
"""The rank of a line without a group; what an exception repeats of it may be the rank in a group that a torn line has lost."""


def group_of(m: re.Match[str]) -> GroupRef:
    """The group named by a match of :data:`PATTERN`."""
    desc = m["desc"] or m["desc2"]
    return GroupRef(
        pg_id=int(m["id"]) if m["id"] else None,
        uid=m["guid"] or m["name"],
        desc=desc if desc and desc != "undefined" else None,
    )


def member(text: str) -> tuple[GroupRef | None, int | None]:
    """The group and the rank in it named last in ``text``, None where it names none.

    The rank of a ``[PG …]`` prefix goes before that of a ``[Rank 3]``: the latter is fixed by the first group that
    logged in the process and may belong to another group.
    """
    named = None
    for named in PATTERN.finditer(text):  # noqa: B007 - the last one counts
        pass
    if named:
        return group_of(named), int(named["rank"])
    ranks = _RANK.findall(text)
    return None, int(ranks[-1]) if ranks else None


def grouped(line: Line, before: str, /, **more: Any) -> dict[str, Any]:
    """The common fields of an event with the group and the rank in it that ``before`` names last."""
    group, group_rank = member(before)
    return common(line, group=group, group_rank=group_rank) | more


@for_rows
def group_before(line: Line, hit: re.Match[str]) -> dict[str, Any]:
    """The common fields with the group that stands before the words."""
    return grouped(line, line.body[: hit.start()])
