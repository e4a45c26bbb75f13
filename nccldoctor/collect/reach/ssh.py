"""Reaches hosts by ``ssh``. A host that wants a password counts as one that did not answer."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import ClassVar

from nccldoctor.collect.reach.way import Command, Target, Way, checked_name
from nccldoctor.model.errors import InputError

_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")


class Ssh(Way, frozen=True):
    """Hosts by name, ``user@host`` or an alias of ``~/.ssh/config``."""

    hosts: tuple[str, ...]
    reaches_all_jobs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for host in self.hosts:
            checked_name(host, "a host")

    def planned_targets(self, python: Command) -> tuple[Target, ...]:
        """One ``ssh`` for each host; the remote shell reads the last word."""
        return tuple(Target(host, ("ssh", *_OPTIONS, "--", host, shlex.join(python))) for host in self.hosts)


def read_hosts(path: Path) -> tuple[str, ...]:
    """The first word of each line that is no comment, each once: also hostfiles with ``slots=8``.

    Raises :class:`InputError` where the file cannot be read or names no host.
    """
    try:
        with path.open("rb") as file:
            text = file.read(4 << 20).decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    words = (line.partition("#")[0].split() for line in text.splitlines())
    hosts = tuple(dict.fromkeys(line[0] for line in words if line))
    if not hosts:
        raise InputError(f"{path} names no host", "write one host a line")
    return hosts
