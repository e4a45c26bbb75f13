"""The recorder dumps among the files of a job: whose they are, and what they hold."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping
from typing import Any

NAME = re.compile(r"^(?P<stem>.*?)(?P<rank>\d{1,7})$")
PICKLE = b"\x80"
"""The first byte of a pickle of protocol 2 and later, in which PyTorch writes its recorder dumps."""


def recorder_dumps(files: Mapping[str, bytes]) -> dict[int, str]:
    """The recorder dumps as PyTorch writes them: rank to path.

    A dump is a pickle whose name ends in the rank. Of several sets with different names the largest counts, of equal ones the last.
    """
    sets: dict[str, dict[int, str]] = {}
    for path in sorted(files):
        named = NAME.match(path)
        if named and files[path].startswith(PICKLE):
            sets.setdefault(named["stem"], {})[int(named["rank"])] = path
    return max(reversed(sets.values()), key=len, default={})


def content_of(dump: bytes) -> dict[str, Any]:
    """What a whole dump of format 1 and later holds; empty for any other, and for one that could run code."""
    try:
        content = _PlainPickle(io.BytesIO(dump)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError):
        return {}
    return content if isinstance(content, dict) else {}


def has_unnamed_groups_only(files: Mapping[str, bytes]) -> bool:
    """True where there are dumps, and none says who is in a process group: so PyTorch writes them for gloo."""
    read = (content_of(files[path]) for path in recorder_dumps(files).values())
    dumps = [content for content in read if "pg_config" in content]
    return bool(dumps) and not any(_members(group) for dump in dumps for group in dump["pg_config"].values())


def _members(group: Mapping[str, Any]) -> str:
    return str(group.get("ranks", "")).strip("[]")


class _PlainPickle(pickle.Unpickler):
    """Loads lists, dictionaries, numbers and texts, and nothing that could run."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")
