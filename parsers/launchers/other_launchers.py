"""Ends of processes as other parents than torchrun and Slurm tell them.

Sources: torch ``multiprocessing/spawn.py`` (1.8 to 2.13), DeepSpeed ``launcher/launch.py``, Open MPI and MPICH
``mpirun``, Lightning ``strategies/launchers/subprocess_script.py``, Horovod ``runner``, Ray ``gcs`` and
``exceptions.py``, vLLM ``multiproc_worker_utils.py``, Accelerate ``commands/launch.py``. The command that DeepSpeed
and Accelerate quote is the last one they started, not the one that failed: its ``--local_rank`` is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nccldoctor.events import Event, ProcessExit, TearDown
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.exit_codes import number_of, signal_named, signal_of
from nccldoctor.patterns import lazy


@dataclass(frozen=True, slots=True)
class _Form:
    """One wording. Its groups: code or signal, pid, rank (global), local (index on this host), host."""

    reporter: str
    pattern: str
    first: bool = False


_SCRIPT = r"CalledProcessError: Command '\[.{0,2000}?(?:\.py|torchrun|torch\.distributed).{0,2000}\]' "
_MPI = r"(?:mpi\w{3,4}|prte?run) noticed that process rank (?P<rank>\d{1,7}) with PID (?P<pid>\d{1,10}) on node (?P<host>\S{1,99})"
_RAY = r"A worker died or was killed while executing a task by an unexpected system error"

_FORMS = (
    _Form("spawn", r"process (?P<local>\d{1,7}) terminated with signal (?P<signal>\w{1,20})", True),
    _Form("spawn", r"process (?P<local>\d{1,7}) terminated with exit code (?P<code>-?\d{1,6})", True),
    _Form("spawn", r"-- Process (?P<local>\d{1,7}) terminated with the following error:", True),
    _Form("mpirun", _MPI + r" exited on signal (?P<signal>\d{1,2})", True),
    _Form("mpirun", r"Process name: \[\[\d{1,9},\d{1,9}\],\s?(?P<rank>\d{1,7})\]", True),
    _Form("mpirun", r"PID (?P<pid>\d{1,10}) RUNNING AT (?P<host>[\w.-]{1,200})"),
    _Form("deepspeed", r"\] exits with return code = (?P<code>-?\d{1,6})", True),
    _Form(
        "lightning", r"Child process with PID (?P<pid>\d{1,10}) terminated with code (?P<code>-?\d{1,6})\. Forcef", True
    ),
    _Form("horovod", r"Process (?P<rank>\d{1,7}) exit with status code (?P<code>-?\d{1,6})", True),
    _Form("vllm", r"Worker \S{1,100} pid (?P<pid>\d{1,10}) died, exit code: (?P<code>-?\d{1,6})", True),
    _Form("vllm", r"Worker proc [A-Za-z]\w{0,60}-(?P<rank>\d{1,5}) died unexpectedly"),
    _Form("vllm", r"Engine core proc \S{1,100} died unexpectedly"),
    _Form("ray", _RAY + r".{0,600}?worker with pid (?P<pid>\d{1,10})"),
    _Form("ray", _RAY + r".{0,600}?Worker IP address: (?P<host>\S{1,64}).{0,60}?Worker PID: (?P<pid>\d{1,10})"),
    _Form("ray", _RAY + r"|The actor is dead because its worker process has died"),
    _Form("accelerate", _SCRIPT + r"returned non-zero exit status (?P<code>\d{1,3})"),
    _Form("accelerate", _SCRIPT + r"died with <Signals\.(?P<signal>SIG\w{2,6}):"),
)


_PATTERNS = tuple((form, lazy(form.pattern)) for form in _FORMS)


_KILLING = lazy(r"Killing subprocess (\d{1,10})")
_EXIT_CODE = lazy(r"(?:Exit code|EXIT CODE): {1,6}(-?\d{1,6})")


@line_parser
class Spawners(LineParser):
    """One *process-exit* for each process that a parent saw end; the index of a spawned process is a local one."""

    literals = (
        " terminated with signal ",
        " terminated with exit code ",
        " terminated with the following error",
        " noticed that process rank ",
        "Process name: [[",
        " RUNNING AT ",
        "exits with return code = ",
        " terminated with code ",
        " exit with status code ",
        " died, exit code: ",
        "died unexpectedly",
        "by an unexpected system error",
        "its worker process has died",
        "returned non-zero exit status ",
        "' died with <Signals.",
        "Killing subprocess ",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """See :class:`LineParser`."""
        if killed := _KILLING.search(line.body):
            yield TearDown(**common(line, what="closing-signal", pid=int(killed[1])))
            return
        for form, pattern in _PATTERNS:
            if match := pattern.search(line.body):
                yield _exit(line, form, match)
                return


def _exit(line: Line, form: _Form, match: re.Match[str]) -> Event:
    told: dict[str, str] = {name: value for name, value in match.groupdict().items() if value is not None}
    code = int(told["code"]) if "code" in told else None
    if code is None and form.reporter == "mpirun" and "signal" not in told:
        code = _code_below(line)
    signal = signal_named(told["signal"]) if "signal" in told else signal_of(code) if code is not None else None
    if code is None and signal is not None:
        number = number_of(signal)
        code = -number if number is not None else None
    if form.reporter == "spawn" and "following error" in match[0]:
        code = 1
    fields: dict[str, Any] = {"pid": None}  # the line's own is the parent's
    if form.reporter == "ray" and not told:
        told |= _actor_above(line)
    for name in ("rank", "pid"):
        if name in told:
            fields[name] = int(told[name])
    if "host" in told:
        fields["host"] = told["host"]
    return ProcessExit(
        **common(line, **fields),
        exitcode=code,
        signal=signal,
        local_rank=int(told["local"]) if "local" in told else None,
        first=form.first,
        reporter=form.reporter,
    )


_ACTOR_FIELD = lazy(r"^\s{0,40}(?:(?P<pid>pid): (\d{1,10})|(?P<host>ip): (\S{1,64}))\s{0,9}$")


def _actor_above(line: Line) -> dict[str, str]:
    """The process and the address of an actor, which Ray lists above the sentence that it died."""
    out: dict[str, str] = {}
    for above in line.preceding(8):
        if match := _ACTOR_FIELD.match(above.body):
            out["pid" if match["pid"] else "host"] = match[2] or match[4]
    return out


def _code_below(line: Line) -> int | None:
    for below in line.following(4):
        if match := _EXIT_CODE.search(below.body):
            return int(match[1])
    return None
