"""Reads the state of processes: rows of ``ps`` and ``top``, and errors of stack tools that show it.

A debugger cannot stop a process that a signal has stopped already: py-spy 0.4 then prints *unexpected waitpid result … SIGSTOP*.
Sources: procps ``ps`` 3.3 and 4.0, Linux ``Documentation/filesystems/proc.rst``, py-spy 0.4, gdb 13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from nccldoctor.events import Event, Note, ProcessState, ProcessWork
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
    """``ps`` and ``top``: the processes of Python and their children, and any other that is stopped, blocked or gone."""
    head = line.body.split()
    state = next((name for name in _COLUMNS if name in head), None)
    if "PID" not in head or state is None or head[-1] not in _COMMANDS:
        return
    cut = ((row, row.body.split(None, len(head) - 1)) for row in line.following(MOST_ROWS))
    whole = takewhile(lambda row: len(row[1]) == len(head) and row[1][head.index("PID")].isdecimal(), cut)
    rows = [(row, dict(zip(head, cells, strict=True))) for row, cells in whole]
    below = (other.body for other in line.following(40))  # of one process the frames of its kernel stack
    in_kernel = telling_function(below) if len(rows) == 1 else None
    of_python = {cell["PID"] for _, cell in rows if _PYTHON.search(cell[head[-1]])}
    for row, cell in rows:
        letter, command, parent = cell[state][:1], cell[head[-1]].strip(), cell.get("PPID", "")
        waits_in = in_kernel or (cell["WCHAN"] if cell.get("WCHAN", "-") not in ("-", "0") else None)
        seen = "stopped" if waits_in == "do_signal_stop" else _STATES.get(letter, "")
        is_ours = parent in of_python or _PYTHON.search(command)
        if seen and (is_ours or (seen not in ("running", "sleeping") and command[0] != "[")):
            elapsed, starter = cell.get("ELAPSED", cell.get("ETIME")), int(parent) if parent.isdecimal() else None
            fields = common(row, pid=int(cell["PID"])) | {
                "command": command[:300],
                "parent": starter,
                "elapsed": elapsed,
            }
            yield ProcessState(**fields, state=seen, waits_in=waits_in, did=_work_in(cell), tool="ps")


def _work_in(cell: Mapping[str, str]) -> ProcessWork | None:
    """What the collector saw a process do between two looks."""
    counts = [cell.get(name.upper(), "") for name in ProcessWork.__struct_fields__]
    return ProcessWork(*map(int, counts)) if all(n.isdecimal() and len(n) < 16 for n in counts) else None


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
        if any("ermission denied" in one.body for one in causes):  # the process may well run
            yield Note(**common(line), what="stack-tool-failed", detail=line.body.strip()[:200])
            return
        fields = owner_of(line, 12).stack_fields(line)
        if "pid" in hit.re.groupindex:
            fields["pid"] = int(hit["pid"])
        yield ProcessState(**fields, state=state, tool="stack tool")
        return
