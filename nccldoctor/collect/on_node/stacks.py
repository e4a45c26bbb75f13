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
    NATIVE_TOOLS,
    PYTHON_TOOLS,
    find_tool,
    last_line_of,
    stack_command,
    why_no_python_stacks,
    why_no_stacks,
)
from nccldoctor.collect.on_node.tar_answer import TarAnswer
from nccldoctor.words.stack_tools import PYTHON_STACKS

STACK_SECONDS = 20.0
"""Seconds that a tool may take for one stack."""


SETTLE_SECONDS = 0.5
"""Seconds in which a process shows whether a tool that was ended has left it stopped, and whether it goes on."""

SHARE = 0.6
"""The part of the time that is left that stacks may take: gdb needs a minute for each, and logs and dumps come behind."""


class StackLook:
    """One look at the stacks of all ranks of the job and of their workers.

    ``tools`` are the names of those that may run. No process of another job on the node is touched.
    """

    def __init__(self, answer: TarAnswer, tree: ProcessTree, look: int, tools: tuple[str, ...]) -> None:
        self.answer = answer
        self.tree = tree
        self.look = look
        self.until = time.monotonic() + SHARE * answer.seconds_left
        found = {name: find_tool(name, tree.ranks) for name in (*PYTHON_TOOLS, *NATIVE_TOOLS)}
        self.tools = [(name, path) for name, path in found.items() if path and name in tools]
        self.tried: dict[int, list[str]] = {}
        self.said: dict[int, tuple[str, bytearray]] = {}
        if tree.ranks and not any(found[name] for name in PYTHON_TOOLS):
            unused = [name for name in NATIVE_TOOLS if found[name] and name not in tools]
            answer.lacks(PYTHON_STACKS, why_no_python_stacks(tree.ranks, unused))

    def look_at_all(self) -> None:
        """The ranks first, all at about the same time, then a few workers of each."""
        ranks = self.tree.looked_at
        self._run_tools(ranks, 0)
        few: list[Process] = []
        for rank in ranks:
            few += [worker for worker in self.tree.workers if worker.of == rank.pid][:8]
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
            # gdb reads the symbols of all of PyTorch before its first word
            patience = 60.0 if name == "gdb" else STACK_SECONDS
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
        frame = re.search(rb"(?m)^ {1,8}\S.* \(.+\)$|^#\d+ |File \"", child.data)
        if child.late or child.status != 0 or frame is None:
            why = "did not answer in time" if child.late else last_line_of(child.data) or "printed nothing"
            self.tried.setdefault(process.pid, []).append(f"{name}: {why}")
            if child.data:
                self.said.setdefault(process.pid, (name, child.data))
            again.setdefault(attempt + 1, []).append(process)
        else:
            self._add_stack(process, name, child.data)

    def _give_up(self, process: Process) -> None:
        """No tool has given a stack: say what each said, and keep the words of the first."""
        said = self.said.get(process.pid)
        tried = self.tried.get(process.pid, ["no tool can look at a process that is stopped or blocked"])
        refused = any(re.search(r"[Pp]ermission [Dd]enied|not permitted|EPERM", why) for why in tried)
        if advice := why_no_stacks(process.pid) if refused else "":
            self.answer.lacks(PYTHON_STACKS, advice)
        self.answer.lacks(f"stack of {process.name}", "; ".join(filter(None, (advice, *tried))))
        if said is not None:
            self._add_stack(process, *said)

    def _add_stack(self, process: Process, tool: str, data: bytearray) -> None:
        who = f"worker-{process.pid}-" if process.of is not None else ""
        path = f"{folder(process, self.tree)}/{who}stack-{self.look}.txt"
        self.answer.add(path, "stack", bytes(data), process, self.look, tool=tool)

    def _unfreeze(self, process: Process, before: str, tool: str, child: Child) -> None:
        """A tool that was ended in the middle of its look may leave its process stopped: let that go on."""
        if not child.late or before in "Tt" or not _has_settled_in(process.pid, "T"):
            return
        send_signal(process.pid, signal.SIGCONT)
        goes_on = _has_settled_in(process.pid, "RSDZXI") or not state_of(process.pid)
        what = "SIGCONT set it running again" if goes_on else f"it still is: kill -CONT {process.pid}"
        self.answer.lacks(f"stack of {process.name}", f"{tool} was ended and left the process stopped; {what}")


def _has_settled_in(pid: int, states: str) -> bool:
    """True when a process gets into one of these states soon.

    A stop that a tool has asked for may follow the end of the tool.
    """
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        state = state_of(pid)
        if not state or state in states or time.monotonic() >= until:
            return bool(state) and state in states
        time.sleep(0.01)
