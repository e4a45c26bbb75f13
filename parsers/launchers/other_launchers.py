"""Ends of processes as launchers other than torchrun and Slurm, and shells, print them.

Sources: torch ``multiprocessing/spawn.py`` (1.8 to 2.13), DeepSpeed ``launcher/launch.py``, Open MPI and MPICH
``mpirun``, Lightning ``strategies/launchers/subprocess_script.py``, Horovod ``runner``, Ray ``gcs`` and
``exceptions.py``, vLLM ``multiproc_worker_utils.py``, Accelerate ``commands/launch.py``, bash ``jobs.c``, dash, zsh.
The command that DeepSpeed and Accelerate quote is the last one they started, not the one that failed: its
``--local_rank`` is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, ProcessExit, TearDown
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.exit_codes import WORDS, exit_and_signal, number_of, signal_named
from nccldoctor.parsers.rows import Row, Table, first_fit, needs_of
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_KILLING = lazy(r"Killing subprocess (\d{1,10})")
_DEAD_ACTOR = lazy(r"The actor is dead because its worker process has died")
_EXIT_CODE = lazy(r"(?:Exit code|EXIT CODE|Errorcode): {1,6}(-?\d{1,6})|KILLED BY SIGNAL: {1,6}(\d{1,2})")
_CODE_BELOW = ("mpirun", "sglang")
"""Reporters that print the exit code some lines below."""


@reads(*_TABLE.literals, needs=(_KILLING, _DEAD_ACTOR, *needs_of(_TABLE.rows)))
def other_launchers(line: Line) -> Iterator[Event]:
    """One *process-exit* for each process that a parent saw end; the index of a spawned process is a local one."""
    if killed := _KILLING.search(line.body):
        yield TearDown(**common(line, what="closing-signal", pid=int(killed[1])))
    if dead := _DEAD_ACTOR.search(line.body):
        yield _actor(line, line.body[: dead.start()])
    if fit := first_fit(_TABLE.rows, line.body):
        yield _exit(line, *fit)


def _exit(line: Line, row: Row, match: re.Match[str]) -> Event:
    fields = row.event_fields(match, ProcessExit)
    reporter, code = fields["reporter"], fields.get("exitcode")
    if code is None and reporter in _CODE_BELOW and "signal" not in fields:
        code = _code_below(line)
    signal = signal_named(fields["signal"]) if "signal" in fields else None
    ends = exit_and_signal(code, signal)
    if reporter == "spawn" and "following error" in match[0]:
        ends["exitcode"] = 1
    # the line's own process is the parent
    return ProcessExit(**common(line) | {"pid": None} | fields | ends)


_ACTOR_FIELD = lazy(r"(?:^|\s)(pid|name|ip): (\S{1,200})")
_OF_VERL = lazy(r"_(?P<node>\d{1,5}):(?P<local>\d{1,4})$")
"""The end of a worker's name: the number of its node in the group, and its number on that node."""


def _actor(line: Line, before: str) -> Event:
    """The actor that died. Ray lists its process, name and address above the sentence, or in front of it.

    verl names its workers by node and place (``single_controller/ray/base.py``): the ranks of the first node count from 0.
    """
    block = [before]
    for above in line.preceding(8) if "actor_id: " not in before else ():
        block.append(above.body)
        if "actor_id: " in above.body:
            break
    told = {hit[1]: hit[2] for text in reversed(block) for hit in _ACTOR_FIELD.finditer(text)}
    place = _OF_VERL.search(told.get("name", ""))
    local = int(place["local"]) if place else None
    return ProcessExit(
        **common(line)
        | {
            "rank": local if place and int(place["node"]) == 0 else None,
            "host": told.get("ip") or line.mark.host,
            "pid": int(told["pid"]) if told.get("pid", "").isdecimal() else None,
        },
        local_rank=local,
        name=told.get("name"),
        reporter="ray",
    )


def _code_below(line: Line) -> int | None:
    for below in line.following(4):
        if match := _EXIT_CODE.search(below.body):
            return int(match[1]) if match[1] else -int(match[2])
    return None


_SHELL = lazy(
    rf"(?:: line \d{{1,7}}: {{1,6}}(?P<pid>\d{{1,10}}) (?P<signal>{WORDS})\b"
    rf"|^(?:\S{{1,100}}: )?(?P<alone>{WORDS})(?: \(core dumped\))?\s*$)"
)


@reads(
    "Killed",
    "Aborted",
    "Segmentation fault",
    "Bus error",
    "Illegal instruction",
    "Floating point exception",
    "Terminated",
    needs=(_SHELL,),
)
def shell(line: Line) -> Iterator[Event]:
    """What a shell prints when a command died by a signal; *Killed* alone is often the host's memory."""
    match = _SHELL.search(line.raw) if "line " in line.raw else _SHELL.search(line.body)
    if match is None:
        return
    signal = signal_named(match["signal"] or match["alone"])
    number = number_of(signal) if signal else None
    pid = int(match["pid"]) if match["pid"] else None
    code = 128 + number if number is not None else None
    yield ProcessExit(**common(line, pid=pid), exitcode=code, signal=signal, reporter="shell")
