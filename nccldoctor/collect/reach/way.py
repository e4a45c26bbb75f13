"""Defines what every way to reach nodes has: commands that list the nodes, and one command for each node."""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from nccldoctor.model.errors import InputError
from nccldoctor.patterns import lazy

Command = tuple[str, ...]
"""The words of a command. No shell of this machine reads them."""

NODE = "NODE"
"""Stands for the name of a node, or of a pod, that no command has listed yet."""

LookUp = Callable[[Command], str]
"""Runs a command that lists nodes and returns its output."""

_NAME = lazy(r"[A-Za-z0-9_\[][A-Za-z0-9_.:@%\[\]-]{0,252}")


class Target(Struct, frozen=True):
    """A node or a pod, and the command that reads the collector from its standard input there.

    ``problem`` says why nobody can be asked there; ``command`` is then empty.
    """

    name: str
    command: Command = ()
    problem: str = ""


class Way(Struct, frozen=True):
    """One way to reach the nodes of a job. ``reaches_all_jobs`` is true of one that names nodes and no job."""

    reaches_all_jobs: ClassVar[bool] = False

    def listing(self) -> tuple[Command, ...]:
        """The commands that list the nodes; none where their names are given."""
        return ()

    def find_targets(self, look_up: LookUp, python: Command) -> tuple[Target, ...]:
        """Every node, with the command that runs ``python`` there.

        Raises :class:`~nccldoctor.model.errors.InputError` where the job has no nodes, or a name is unsafe.
        """
        return self.planned_targets(python)

    @abstractmethod
    def planned_targets(self, python: Command) -> tuple[Target, ...]:
        """The targets as far as they are known before a command runs; ``NODE`` stands for all that are not."""


def checked_name(name: str, of: str) -> str:
    """``name``, if a command line can hold it. Raises :class:`InputError` for ``-oProxyCommand=…`` and the like."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} can't be {of}", "letters, digits and . _ - : @ are allowed, and no - at the start"
        )
    return name


def command_lines(way: Way, targets: Iterable[Target], collector: Path) -> list[str]:
    """What a collection runs, as lines for a shell: the look-ups, then one line for each target."""
    lines = [shlex.join(command) for command in way.listing()]
    for target in targets:
        fed = f"{shlex.join(target.command)} < {shlex.quote(str(collector))}"
        lines.append(fed if target.command else f"# {target.name}: {target.problem}")
    return lines
