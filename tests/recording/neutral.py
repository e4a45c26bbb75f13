"""Makes recorded files neutral: no host, user or folder of the machine that recorded them is left."""

from __future__ import annotations

import getpass
import pickle
import re
import socket
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nccldoctor

DUMP = "fr_trace_", "nccl_trace_rank_"
"""How the names of recorder dumps begin."""

_PATH = re.compile(r"(?<![\w./~:*$<>%+-])/(?:[\w.+@-]{1,80}/){1,20}[\w.+@-]{1,80}")
_KNOWN = re.compile(
    r"/(?:opt/(?:train|venv)|home/user|usr|var/log/train|proc|sys|dev|lib64|lib|bin|sbin|etc|run|build|pytorch|opt/conda|__w|tmp/nccldoctor-\w{8})/"
)
"""Folders of every Linux, those of :class:`Neutral`, those in which PyTorch's own builds are made, and capture's for its pipe."""

_SERIAL = re.compile(r"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?<=Serial Number)(\s*:\s*)\d+")


@dataclass(frozen=True, slots=True)
class Machine:
    """The names of a machine: its hosts, its users, and its folders with what stands for each."""

    hosts: tuple[str, ...]
    users: tuple[str, ...]
    folders: Mapping[str, str]

    @classmethod
    def here(cls, folders: Mapping[str, str]) -> Machine:
        """This machine; ``folders`` are those of the job."""
        users = set()
        with suppress(OSError, KeyError):  # a container may have no name for its user
            users.add(getpass.getuser())
        known = {
            str(Path(nccldoctor.__file__).parent): "/opt/venv/lib/python/site-packages/nccldoctor",
            str(Path(__file__).resolve().parents[2]): "/opt/venv/lib/python/site-packages",
            sysconfig.get_path("stdlib"): "/usr/lib/python{}.{}".format(*sys.version_info),
            sys.prefix: "/opt/venv",
            sys.base_prefix: "/usr",
            str(Path.home()): "/home/user",
        }
        hosts = {socket.gethostname(), socket.gethostname().partition(".")[0], socket.getfqdn()} - {"localhost", ""}
        folders = {old: new for old, new in (known | dict(folders)).items() if len(old) > 1}
        return cls(tuple(sorted(hosts)), tuple(sorted(users - {"root"})), folders)


class Neutral:
    """Replaces the names of a machine by neutral ones, which depend on the node that a file is of."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.folders = sorted(machine.folders.items(), key=lambda pair: -len(pair[0]))
        self.hosts = [_word(host) for host in sorted(machine.hosts, key=len, reverse=True)]
        self.users = [_word(user) for user in machine.users]
        self.known: dict[tuple[str, int], str] = {}

    def text(self, text: str, node: int) -> str:
        """``text`` as it would read on ``node``."""
        if (text, node) not in self.known:
            # One object for equal texts: a pickle then names each once, as torch's own does.
            self.known[text, node] = self._changed(text, node)
        return self.known[text, node]

    def _changed(self, text: str, node: int) -> str:
        for old, new in self.folders:
            text = text.replace(old, new)
        for host in self.hosts:
            text = host.sub(f"node{node}", text)
        for user in self.users:
            text = user.sub("user", text)
        return _SERIAL.sub(lambda hit: f"{hit[1] or ''}removed", text)

    def value(self, value: Any, node: int) -> Any:
        """A loaded dump with every text in it made neutral."""
        if isinstance(value, str):
            return self.text(value, node)
        if isinstance(value, list | tuple):
            return type(value)(self.value(v, node) for v in value)
        if isinstance(value, dict):
            return {self.value(k, node): self.value(v, node) for k, v in value.items()}
        return value

    def keep(self, source: Path, target: Path, node: int) -> None:
        """Write a neutral copy of a file of ours; an empty one is left out."""
        content = source.read_bytes()
        if source.name.startswith(DUMP) and content[:1] == b"\x80":
            # Written seconds ago by a process of ours; dumps of strangers are never loaded like this.
            content = pickle.dumps(self.value(pickle.loads(content), node), protocol=2)
        else:
            content = self.text(content.decode("utf-8", "replace"), node).encode()
        if content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)")


def leaks(folder: Path, machine: Machine) -> Iterator[str]:
    """What in the files of a folder, and in their names, still tells about the machine: ``rank_0.log: /data/me/train.py``.

    Any absolute path counts that is neither neutral nor one of every Linux.
    """
    names = [_word(name) for name in (*machine.hosts, *machine.users)]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        inside = path.relative_to(folder)
        text = f"{inside}\n" + path.read_bytes().decode("latin-1")
        found = {hit[0] for name in names for hit in name.finditer(text)}
        found |= {old for old in machine.folders if old in text and not _KNOWN.match(f"{old}/")}
        found |= {hit[0] for hit in _PATH.finditer(text) if not _KNOWN.match(hit[0])}
        yield from (f"{inside}: {name}" for name in sorted(found))
