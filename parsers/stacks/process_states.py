"""Reads the state of processes: rows of ``ps`` and ``top``, and errors of stack tools that show it.

A debugger cannot stop a process that a signal has stopped already: py-spy 0.4 then prints *unexpected waitpid result … SIGSTOP*.
Sources: procps ``ps`` 3.3 and 4.0, Linux ``Documentation/filesystems/proc.rst``, py-spy 0.4, gdb 13.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from nccldoctor.events import Event, ProcessState
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.stacks.owner import owner_of
from nccldoctor.patterns import lazy
from nccldoctor.words.kernel_waits import telling_function

MOST_ROWS = 4096
"""Rows of one table of processes that are read."""

_STATES = {"T": "stopped", "t": "traced", "Z": "zombie", "X": "gone", "D": "blocked", "R": "running"}
_STATES |= {"S": "sleeping", "I": "sleeping"}

_COLUMNS = ("STAT", "S", "STATE", "ST")
_COMMANDS = ("COMMAND", "CMD", "ARGS", "COMM")
_PYTHON = lazy(r"\bpython[\d.]*\b|torchrun|\.py\b")


@reads("PID", needs=(lazy(rf"(?:{'|'.join(_COMMANDS)})\s*$"),))
def process_table(line: Line) -> Iterator[Event]:
    """``ps`` and ``top``: the processes of Python and their children, and any other that is stopped, blocked or gone.

    One event for each row below a head with the columns PID and state.
    """
    head = line.body.split()
    state = next((head.index(name) for name in _COLUMNS if name in head), None)
    if "PID" not in head or state is None or head[-1] not in _COMMANDS:
        return
    wait = head.index("WCHAN") if "WCHAN" in head else None
    rows = _table_rows(line, len(head), head.index("PID"))
    below = (other.body for other in line.following(40))  # of one process the frames of its kernel stack
    in_kernel = telling_function(below) if len(rows) == 1 else None
    own = head.index("PPID") if "PPID" in head else None
    of_python = {cells[head.index("PID")] for _, cells in rows if _PYTHON.search(cells[-1])}
    for row, cells in rows:
        parent = cells[own] if own is not None and cells[own].isdecimal() else ""
        letter, command = cells[state][:1], cells[-1].strip()
        waits_in = in_kernel or (cells[wait] if wait is not None and cells[wait] not in ("-", "0") else None)
        seen = "stopped" if waits_in == "do_signal_stop" else _STATES.get(letter, "")
        is_ours = parent in of_python or _PYTHON.search(command)
        if seen and (is_ours or (seen not in ("running", "sleeping") and command[0] != "[")):
            fields = common(row, pid=int(cells[head.index("PID")]))
            started = {"command": command[:300], "parent": int(parent) if parent else None}
            yield ProcessState(**fields | started, state=seen, waits_in=waits_in, tool="ps")


def _table_rows(line: Line, columns: int, pid: int) -> list[tuple[Line, list[str]]]:
    """The rows below the head of a table, each with its cells."""
    cut = ((below, below.body.split(None, columns - 1)) for below in line.following(MOST_ROWS))
    return list(takewhile(lambda row: len(row[1]) == columns and row[1][pid].isdecimal(), cut))


_STOPPED = lazy(r"unexpected waitpid result \w{1,30}\(Pid\((?P<pid>\d{1,10})\), SIG(?:STOP|TSTP|TTIN|TTOU)\b")
_GONE = lazy(
    r"Failed to get process executable name|ptrace: No such process|Failed to open process \d{1,10}"
    r"|[Pp]rocess (?:id )?\d{1,10} (?:does not exist|is not running)|given process id is not running"
)

_ZOMBIE = lazy(r"process (?P<pid>\d{1,10}) is a zombie - the process has already terminated")


@reads(
    "unexpected waitpid result",
    "Failed to get process executable name",
    "ptrace: No such process",
    "is a zombie - the process",
    "given process id is not running",
    "Failed to open process ",
    needs=(_STOPPED, _GONE, _ZOMBIE),
)
def tool_error(line: Line) -> Iterator[Event]:
    """The error of a stack tool instead of a stack: the process is stopped, gone, or a zombie."""
    for state, pattern in (("stopped", _STOPPED), ("gone", _GONE), ("zombie", _ZOMBIE)):
        hit = pattern.search(line.body)
        if hit is None:
            continue
        causes = (line, *line.window.near(line, 5)) if state == "gone" else ()
        if any("ermission denied" in one.body for one in causes):
            return  # the process may well run
        fields = owner_of(line, 12).stack_fields(line)
        if "pid" in hit.re.groupindex:
            fields["pid"] = int(hit["pid"])
        yield ProcessState(**fields, state=state, tool="stack tool")
        return
