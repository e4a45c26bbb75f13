"""Reaches the processes of this machine: the same collector, in a process of its own."""

from __future__ import annotations

import socket
import sys

from nccldoctor.collect.reach.way import Command, LookUp, Target, Way


class ThisMachine(Way, frozen=True):
    """The machine that nccldoctor runs on, under its host name."""

    def listing(self) -> tuple[Command, ...]:
        """No command: there is one machine."""
        return ()

    def find_targets(self, look_up: LookUp, python: Command) -> tuple[Target, ...]:
        """One target that runs the Python of nccldoctor itself."""
        return self.planned_targets(python)

    def planned_targets(self, python: Command) -> tuple[Target, ...]:
        """The one target."""
        return (Target(socket.gethostname(), (sys.executable, *python[1:])),)
