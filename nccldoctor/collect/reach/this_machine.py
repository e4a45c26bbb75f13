"""Reaches the processes of this machine: the same collector, in a process of its own."""

from __future__ import annotations

import socket
import sys

from nccldoctor.collect.reach.way import Command, Target, Way


class ThisMachine(Way, frozen=True):
    """The machine that nccldoctor runs on, under its host name."""

    def planned_targets(self, python: Command) -> tuple[Target, ...]:
        """One target that runs the Python of nccldoctor itself."""
        return (Target(socket.gethostname(), (sys.executable, *python[1:])),)
