"""Looks at the stacks of all ranks and of their workers, with the first tool that succeeds."""

from __future__ import annotations

import re
import signal
import time
from functools import partial

from nccldoctor.collect.on_node.children import Child, command, run_all, send_signal
from nccldoctor.collect.on_node.proc_files import state_of
from nccldoctor.collect.on_node.process import Process
from nccldoctor.collect.on_node.process_tree import ProcessTree, folder
from nccldoctor.collect.on_node.stack_tools import (
    STACK_TOOLS,
    find_tool,
    last_line_of,
    stack_command,
    why_no_stacks,
)
from nccldoctor.collect.on_node.tar_answer import TarAnswer

STACK_SECONDS = 20.0
"""Seconds that a tool may take for one stack."""


SYMBOL_SECONDS = 60.0
"""gdb reads the symbols of all of PyTorch before its first word."""


SHARE = 0.6
"""The part of the time that is left that stacks may take: gdb needs a minute for each, and logs and dumps come behind."""

MOST_STACKS = 8
"""Workers of each rank whose stacks are taken."""


class StackLook:
    """One look at the stacks of all ranks and of their workers."""

    def __init__(self, answer: TarAnswer, tree: ProcessTree, look: int) -> None:
        self.answer = answer
        self.tree = tree
        self.look = look
        self.until = time.monotonic() + SHARE * answer.seconds_left
        self.tools = [
            (name, path) for name, path in ((name, find_tool(name, tree.ranks)) for name in STACK_TOOLS) if path
        ]
        self.tried: dict[int, list[str]] = {}
        self.said: dict[int, tuple[str, bytearray]] = {}
        if not self.tools:
            answer.lacks(
                "stacks",
                f"none of {', '.join(STACK_TOOLS)} is on this node (pip install py-spy); states and wait channels were taken from /proc",
            )

    def look_at_all(self) -> None:
        """The ranks first, all at about the same time, then a few workers of each."""
        self._run_tools(self.tree.ranks, 0)
        few: list[Process] = []
        for rank in self.tree.ranks:
            few += [worker for worker in self.tree.workers if worker.of == rank.pid][:MOST_STACKS]
        self._run_tools(few, 0)

    def _run_tools(self, processes: list[Process], attempt: int) -> None:
        again: dict[int, list[Process]] = {}
        run_all([partial(self._start_tool, process, attempt, again) for process in processes])
        for number, failed in sorted(again.items()):
            self._run_tools(failed, number)

    def _start_tool(self, process: Process, attempt: int, again: dict[int, list[Process]]) -> Child | None:
        """Start the tool number ``attempt`` on a process; where it fails, the next one is tried afterwards."""
        state = state_of(process.pid)
        if not state or state in "ZX":
            self.answer.lacks(
                f"stack of {process.name}",
                "the process is gone" if not state else "the process has ended and waits for its parent (zombie)",
            )
            return None
        if attempt >= len(self.tools):
            if self.tools:
                self._give_up(process)
            return None
        if time.monotonic() > self.until - 1.0:
            self.answer.lacks(f"stack of {process.name}", "no time left (--seconds)")
            return None
        name, path = self.tools[attempt]
        words = stack_command(name, path, str(process.pid), state in "TtD", native=False)
        if words is None:
            again.setdefault(attempt + 1, []).append(process)
            return None
        try:
            patience = SYMBOL_SECONDS if name == "gdb" else STACK_SECONDS
            child = command(words, min(patience, self.until - time.monotonic()))
        except OSError as error:
            self.tried.setdefault(process.pid, []).append(f"{name} cannot be started: {error.strerror}")
            again.setdefault(attempt + 1, []).append(process)
            return None
        child.tidy = lambda child: self._unfreeze(process, state, name, child)
        child.then = lambda child: self._done(process, attempt, child, again)
        return child

    def _done(self, process: Process, attempt: int, child: Child, again: dict[int, list[Process]]) -> None:
        name, _ = self.tools[attempt]
        if child.late or child.status != 0 or not _has_frames(child.data):
            self._note_failure(process, name, child)
            again.setdefault(attempt + 1, []).append(process)
        else:
            self._add_stack(process, name, child.data)

    def _note_failure(self, process: Process, tool: str, child: Child) -> None:
        why = "did not answer in time" if child.late else last_line_of(child.data) or "printed nothing"
        self.tried.setdefault(process.pid, []).append(f"{tool}: {why}")
        if child.data:
            self.said.setdefault(process.pid, (tool, child.data))

    def _give_up(self, process: Process) -> None:
        """No tool has given a stack: say what each said, and keep the words of the first."""
        said = self.said.get(process.pid)
        tried = self.tried.get(process.pid, ["no tool can look at a process that is stopped or blocked"])
        refused = any(re.search(r"[Pp]ermission [Dd]enied|not permitted|EPERM", why) for why in tried)
        advice = why_no_stacks(process.pid) if refused else ""
        self.answer.lacks(f"stack of {process.name}", "; ".join(filter(None, (advice, *tried))))
        if said is not None:
            self._add_stack(process, *said)

    def _add_stack(self, process: Process, tool: str, data: bytearray) -> None:
        who = f"worker-{process.pid}-" if process.of is not None else ""
        path = f"{folder(process, self.tree)}/{who}stack-{self.look}.txt"
        self.answer.add(path, "stack", bytes(data), process, self.look, tool=tool)

    def _unfreeze(self, process: Process, before: str, tool: str, child: Child) -> None:
        """A tool that was ended in the middle of its look may leave its process stopped: let that go on."""
        if child.late and before not in "Tt" and state_of(process.pid) == "T":
            send_signal(process.pid, signal.SIGCONT)
            self.answer.lacks(
                f"stack of {process.name}",
                f"{tool} was ended and left the process stopped; SIGCONT set it running again",
            )


def look_at_stacks(answer: TarAnswer, tree: ProcessTree, look: int) -> None:
    """Add the stacks of all ranks and of their workers, as look number ``look``."""
    StackLook(answer, tree, look).look_at_all()


def _has_frames(data: bytearray) -> bool:
    return re.search(rb"(?m)^ {1,8}\S.* \(.+\)$|^#\d+ |File \"", data) is not None
