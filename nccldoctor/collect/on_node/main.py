"""Gathers everything in the order of its worth, and reads the options."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from functools import partial

from nccldoctor.collect.on_node.children import INTERRUPTION, Stopped
from nccldoctor.collect.on_node.evidence.captured import add_captured
from nccldoctor.collect.on_node.evidence.dumps import add_dumps, add_triggered_dumps, trigger_dumps
from nccldoctor.collect.on_node.evidence.logs import LOG_TAIL, add_logs, log_sizes
from nccldoctor.collect.on_node.machine import NODE_COMMANDS, add_node
from nccldoctor.collect.on_node.network import DEBUG_SERVER_PORT, add_network_reports
from nccldoctor.collect.on_node.process_tree import ProcessTree, note_ends, tell_missing_ranks
from nccldoctor.collect.on_node.stack_tools import NATIVE_TOOLS, PYTHON_TOOLS, stack_command
from nccldoctor.collect.on_node.stacks import STACK_SECONDS, StackLook
from nccldoctor.collect.on_node.states import add_environments, look_at_states, note_work
from nccldoctor.collect.on_node.tar_answer import TarAnswer

NO_PROCESSES = "training processes"
"""What is missing on a node without a process of the job."""


class Looks:
    """The stacks of a first look, and a second look so many seconds after their end; ``tools`` may read stacks."""

    def __init__(self, answer: TarAnswer, tree: ProcessTree, pause: float, tools: tuple[str, ...]) -> None:
        self.answer = answer
        self.tree = tree
        self.pause = pause
        self.tools = tools
        self.ended = time.monotonic()

    def look_at_first_stacks(self) -> None:
        """Add the first stacks, and note when they were there, and what each process had done by then."""
        StackLook(self.answer, self.tree, 1, self.tools).look_at_all()
        if self.pause:
            note_work(self.tree)
        self.ended = time.monotonic()

    def look_again(self) -> None:
        """Wait, and add states and stacks once more."""
        left = self.pause - (time.monotonic() - self.ended)
        time.sleep(max(0.0, min(left, self.answer.seconds_left - STACK_SECONDS)))
        look_at_states(self.answer, self.tree, 2)
        StackLook(self.answer, self.tree, 2, self.tools).look_at_all()


def gather(answer: TarAnswer, tree: ProcessTree, twice: float, tools: tuple[str, ...]) -> None:
    """What shows most comes first: a stream that is cut has it. A part that fails costs itself alone."""
    answer.processes = [*tree.ranks, *tree.workers]
    if not tree.ranks:
        answer.lacks(
            NO_PROCESSES,
            "no Python process has RANK and WORLD_SIZE in its environment, or what mpirun or srun sets instead; name them with --pid",
        )
    asked: dict[int, float] = {}
    sizes: dict[tuple[int, int], int] = {}
    looks = Looks(answer, tree, twice, tools)
    parts: list[tuple[str, Callable[[], object]]] = [
        ("ranks that should run here", partial(tell_missing_ranks, answer, tree)),
        ("states of processes", partial(look_at_states, answer, tree, 1)),
        ("what capture left", partial(add_captured, answer, tree)),
        *([("sizes of logs", lambda: sizes.update(log_sizes(tree)))] if twice else []),
        ("stacks", looks.look_at_first_stacks),
        ("variables", partial(add_environments, answer, tree)),
        ("flight recorder dumps", partial(add_dumps, answer, tree, "dump-2-existing")),
        ("new flight recorder dumps", lambda: asked.update(trigger_dumps(answer, tree))),
        ("reports of RAS", partial(add_network_reports, answer, tree)),
        ("the state of the machine", partial(add_node, answer, tree)),
        ("new flight recorder dumps", lambda: add_triggered_dumps(answer, tree, asked)),
        *([("a second look", looks.look_again)] if twice else []),
        ("logs", lambda: add_logs(answer, tree, sizes)),
        ("which ranks have ended", partial(note_ends, tree)),
    ]
    for what, part in parts:
        try:
            part()
        except Exception as error:
            answer.lacks(what, f"the collector failed with {type(error).__name__} ({error})")
        answer.tell()


def printed(tools: tuple[str, ...]) -> list[str]:
    """Every command and read of :func:`gather`; PID stands for each process of the job."""
    proc = "stat, environ (allowed variables only), cmdline, exe, maps, status, io, fd, fdinfo, net/tcp, task/*/{stat,status,wchan}, stack"
    stacks = [" ".join(stack_command(name, name, "PID", False, False) or []) for name in tools]
    return [
        f"read /proc/PID/: {proc}",
        *(f"{'or ' if number else ''}{line}" for number, line in enumerate(stacks)),
        "read $TORCH_FR_DUMP_TEMP_FILE<rank>, $TORCH_NCCL_DEBUG_INFO_TEMP_FILE<rank>, ~/.cache/torch/*_trace_rank_<rank>, "
        "/tmp/nccl_trace_rank_<rank>",
        "read rank_<rank>.log, dumps/, stacks/ and processes/ in the folder of nccldoctor.capture that the sidecar of a rank names",
        "write one byte to $TORCH_NCCL_DEBUG_INFO_PIPE_FILE<rank>.pipe or a *<rank>.pipe that the rank reads: PyTorch writes a dump",
        "connect to $NCCL_RAS_ADDR or localhost:28028: VERBOSE STATUS",
        f"GET http://localhost:{DEBUG_SERVER_PORT}/fr_trace_json, where rank 0 listens there",
        *(" ".join(words) for _, _, words in NODE_COMMANDS),
        "read /proc/self/mounts, /proc/loadavg, /proc/meminfo; names of *.dist-info beside the mapped torch",
        f"read the last {LOG_TAIL // 1_000_000} MB of each log that a process of the job has open for writing: /proc/PID/fd/N",
    ]


def stack_tools(with_native: bool) -> tuple[str, ...]:
    """The tools that may read stacks: those that stop a process for seconds only where they are asked for."""
    return (*PYTHON_TOOLS, *NATIVE_TOOLS) if with_native else PYTHON_TOOLS


def pid_list(text: str) -> set[int] | None:
    """``all`` or numbers with commas."""
    if text == "all":
        return None
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError("all, or process ids with commas")
    return {int(pid) for pid in text.split(",")}


def main() -> int:
    """Parse the options, gather, and end the stream."""
    parser = argparse.ArgumentParser(
        description="Writes what shows why a training job on this node stands as a tar stream."
    )
    parser.add_argument("--pid", type=pid_list, default=None, help="all training processes, or these")
    parser.add_argument(
        "--where", action="append", default=[], metavar="NAME=VALUE", help="only processes with this variable"
    )
    parser.add_argument(
        "--gdb", action="store_true", help="let eu-stack and gdb read stacks, too: they stop a process for seconds"
    )
    parser.add_argument(
        "--job", default="", help="read stacks of this job alone (default: the one with the most ranks here)"
    )
    parser.add_argument("--survey", action="store_true", help="tell which processes there are, and nothing else")
    parser.add_argument("--twice", type=float, default=0.0, metavar="SECONDS", help="look again after so many seconds")
    parser.add_argument("--limit-mb", type=int, default=512, help="most MB that are written")
    parser.add_argument("--seconds", type=float, default=90.0, help="most seconds for all of it")
    parser.add_argument("--print", action="store_true", dest="only_print", help="print what would be run and read")
    options = parser.parse_args()
    if options.only_print:
        print("\n".join(printed(stack_tools(options.gdb))))
        return 0
    answer = TarAnswer(sys.stdout.buffer, options.limit_mb << 20, options.seconds + options.twice)
    INTERRUPTION.heed()
    try:
        try:
            where = dict(pair.partition("=")[::2] for pair in options.where)
            tree = ProcessTree(answer, options.pid, where, options.job)
            if options.survey:
                answer.processes = tree.ranks
            else:
                gather(answer, tree, options.twice, stack_tools(options.gdb))
        except (Exception, Stopped) as error:
            answer.lacks("the rest of this node", f"the collector failed with {type(error).__name__} ({error})")
        answer.conclude()
    except Stopped:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to write has no reader
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
