"""Runs ``nccldoctor collect``: asks the nodes, shows who answers, and says what is missing and why."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from nccldoctor.cli import terminal
from nccldoctor.cli.report_file import SUFFIXES, check_target
from nccldoctor.collect.bundle import Answer, BundleResult
from nccldoctor.collect.gather import gather_bundle, planned_commands
from nccldoctor.collect.node_options import NodeOptions
from nccldoctor.collect.on_node.main import NO_PROCESSES, printed, stack_tools
from nccldoctor.collect.one_file import collector_source
from nccldoctor.collect.reach.kubernetes import Pods
from nccldoctor.collect.reach.slurm import Slurm
from nccldoctor.collect.reach.ssh import Ssh, read_hosts
from nccldoctor.collect.reach.this_machine import ThisMachine
from nccldoctor.collect.reach.way import Target, Way
from nccldoctor.model.errors import InputError, OutputError
from nccldoctor.model.hosts import JobHere, chosen_job
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.numbers import plural, size
from nccldoctor.words.sanitize import line
from nccldoctor.words.stack_tools import PYTHON_STACKS
from nccldoctor.words.times import duration

ALL_ANSWERED, NOTHING, SOME_ANSWERED = 0, 2, 3

FEW = 16
"""So many nodes are told one by one as they answer; of more, failures and every tenth part."""

SHOWN = 12
"""Rows of one list in the summary."""

SUFFIX = ".tar.zst"


def collect_job(options: Mapping[str, Any], output: Path | None, force: bool) -> int:
    """Collect, or print what would be run; the exit code.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` for options that do not fit, and where no node can be asked.
    """
    if options["print_collector"]:
        terminal.out(collector_source())
        return ALL_ANSWERED
    way, node = chosen_way(options), node_options(options)
    if options["only_print"]:
        terminal.out("\n".join(plan(way, node, options["python"])) + "\n")
        return ALL_ANSWERED
    result = ask_nodes(way, node, bundle_path(output, force), options["python"])
    has_answer = any(node.has_answered for node in result.nodes)
    then = [f"next: nccldoctor analyze {shlex.quote(str(result.path))}"] if has_answer else []
    terminal.out("\n".join([*heading(result), *summary(result), *then]) + "\n")
    if not has_answer:
        return NOTHING
    return SOME_ANSWERED if not has_processes(result) or any(node.error for node in result.nodes) else ALL_ANSWERED


def chosen_way(options: Mapping[str, Any]) -> Way:
    """The one way that the options name. Raises :class:`InputError` for none, or several."""
    is_here = bool(options["local"] or options["pid"])
    ways = {"--pid or --local": is_here, "--slurm": options["slurm"], "--k8s": options["k8s"]}
    named = [name for name, given in (ways | {"--ssh": options["ssh"] is not None}).items() if given]
    if len(named) != 1:
        hint = "give one of --pid all, --slurm JOBID, --k8s -l LABEL, --ssh FILE"
        raise InputError(
            "choose how to reach the job" if not named else f"{' and '.join(named)} exclude each other", hint
        )
    if not options["k8s"] and (options["selector"] or options["namespace"] or options["container"]):
        raise InputError("-l, -n and -c belong to --k8s", "add --k8s")
    if options["slurm"]:
        return Slurm(options["slurm"], alone=not options["where"])
    if options["k8s"]:
        return Pods(options["selector"], options["namespace"], options["container"])
    return Ssh(read_hosts(options["ssh"])) if options["ssh"] else ThisMachine()


def node_options(options: Mapping[str, Any]) -> NodeOptions:
    """What each node is asked. Raises :class:`InputError` for process ids and variables of another form."""
    pid = options["pid"] or "all"
    if pid != "all" and not all(part.isdecimal() and len(part) < 9 for part in pid.split(",")):
        raise InputError(f"--pid takes all, or process ids with commas, not {pid[:40]!r}")
    for pair in options["where"]:
        if not pair.partition("=")[0].isidentifier() or "=" not in pair:
            raise InputError(f"--where takes NAME=VALUE, not {pair[:40]!r}")
    return NodeOptions(pid, options["where"], options["twice"], options["seconds"], options["limit_mb"], options["gdb"])


def plan(way: Way, node: NodeOptions, python: str) -> Iterator[str]:
    """Everything that a collection would run and read, as text."""
    yield "# on this machine"
    yield from planned_commands(way, node, python)
    yield "# on each node: reads, and commands where they exist"
    yield from (f"#   {row}" for row in printed(stack_tools(node.gdb)))


def bundle_path(output: Path | None, force: bool) -> Path:
    """Where the bundle goes. Raises :class:`OutputError` where a file is there already, or the name is of another kind."""
    if output is None:
        return Path(f"nccldoctor-{datetime.now():%Y%m%d-%H%M%S}{SUFFIX}")
    if output.suffix in SUFFIXES:
        hint = f"choose a name that ends in {SUFFIX}; a report is written by live --report {output}"
        raise OutputError(f"{output} isn't named like a bundle", hint)
    check_target(output, force, (SUFFIX,))
    return output


def ask_nodes(way: Way, node: NodeOptions, target: Path, python: str, *, failures_only: bool = False) -> BundleResult:
    """Ask all nodes and write the bundle, with progress on stderr."""
    progress = _Progress(failures_only)
    told = shlex.join(["nccldoctor", *sys.argv[1:]])
    return gather_bundle(
        way,
        node,
        target,
        python=python,
        told=line(told, 1000),
        on_targets=progress.report_targets,
        on_answer=progress.report_answer,
    )


class _Progress:
    """Tells on stderr who is asked and who answered."""

    def __init__(self, failures_only: bool) -> None:
        self._failures_only = failures_only
        self._all = self._done = 0

    def report_targets(self, targets: Sequence[Target]) -> None:
        """All targets are known."""
        self._all = len(targets)
        if self._failures_only:
            return
        click.echo(f"asking {plural(self._all, 'node')}: {_some([target.name for target in targets])}", err=True)

    def report_answer(self, answer: Answer) -> None:
        """One of them is done."""
        self._done += 1
        is_told = not self._failures_only and (self._all <= FEW or self._done % max(1, self._all // 10) == 0)
        if answer.error or is_told:
            said = answer.error or f"answered after {duration(1000 * answer.seconds)}"
            click.echo(f"{self._done}/{self._all} {line(answer.node, 120)}: {line(said)}", err=True)


def summary(result: BundleResult) -> Iterator[str]:
    """Who answered, who did not, what is missing and why, and where the bundle is."""
    answered = [node for node in result.nodes if node.has_answered]
    failed = [node for node in result.nodes if node.error]
    files = plural(sum(node.files for node in result.nodes), "file")
    ranks = f"{plural(len(result.ranks), 'rank')}, {files} ({ranks_phrase(result.ranks)})" if result.ranks else files
    said = f": {ranks}" if has_processes(result) else f": {files}, and no rank" if answered else ""
    yield f"{len(answered):,} of {plural(len(result.nodes), 'node')} answered{said}."
    if failed:
        yield "\nNot answered, or not in full:"
        yield from (f"  {line(node.name, 120)}: {line(node.error or '')}" for node in failed[:SHOWN])
        if len(failed) > SHOWN:
            yield f"  and {plural(len(failed) - SHOWN, 'more node')}"
    missing = _missing(result)
    if missing:
        yield "\nMissing:"
        yield from missing[:SHOWN]
        if len(missing) > SHOWN:
            yield f"  and {plural(len(missing) - SHOWN, 'more reason')}; manifest.json in the bundle has all"
    if answered:
        yield f"\nwrote {result.path} ({size(result.size)})"


def heading(result: BundleResult) -> Iterator[str]:
    """What to know before anything else: no Python stacks, and why; and which of several jobs is meant."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for node in result.nodes:
        for what, why in node.missing:
            if what == PYTHON_STACKS:
                nodes[why].append(node.name)
    for why, names in nodes.items():
        yield f"No {PYTHON_STACKS} on {_some(names)}: {line(why, 400)}.\n"
    yield from several_jobs(result)


def several_jobs(result: BundleResult) -> Iterator[str]:
    """Which of several jobs is meant and why, and the command for each other one."""
    jobs = result.jobs
    chosen = chosen_job(jobs)
    if chosen is None or len(jobs) == 1:
        return
    others = [job for job in jobs if job is not chosen and (job.running or _own_word(job, jobs))]
    yield f"{len(jobs)} jobs run here. We look at the one with {_own_word(chosen, jobs) or chosen.name}: {_why_chosen(chosen, others)}."
    yield "To look at another one instead:"
    for job in others[:SHOWN]:
        state = "" if job.running else ", all ended"
        yield f"  {_command_for(job, jobs)}   # {ranks_phrase(job.ranks)}{state}"
    if len(others) > SHOWN:
        yield f"  and {plural(len(others) - SHOWN, 'more job')}"
    yield ""


def _why_chosen(chosen: JobHere, others: Sequence[JobHere]) -> str:
    rivals = [job for job in others if bool(job.running) == bool(chosen.running)]
    if not rivals:
        return "all ranks of the other jobs have ended"
    most = max(len(job.ranks) for job in rivals)
    if len(chosen.ranks) > most:
        return f"it has {plural(len(chosen.ranks), 'rank')} here, more than any other that runs"
    return f"another one has {plural(most, 'rank')} here too, and nothing says which you mean"


def _own_word(job: JobHere, jobs: Sequence[JobHere]) -> str:
    """The first variable of a job that no other one has, such as ``MASTER_PORT=29501``; empty without one."""
    others = {word for other in jobs if other is not job for word in other.name.split(" ")}
    return line(next((word for word in job.name.split(" ") if word not in others), ""), 200)


def _command_for(job: JobHere, jobs: Sequence[JobHere]) -> str:
    """The command that was given, for one job: by a variable of its own, else by its processes."""
    word = _own_word(job, jobs)
    given = _words_without(sys.argv[1:], "-o", "--output")  # that file is there now
    if word:
        return line(shlex.join(["nccldoctor", *given, "--where", word]), 1000)
    pids = ",".join(map(str, job.running))
    return line(shlex.join(["nccldoctor", *_words_without(given, "--pid"), "--pid", pids]), 1000)


def _words_without(words: Sequence[str], *options: str) -> list[str]:
    """The words of a command without these options and their values."""
    named = {at for at, word in enumerate(words) if word in options}
    return [word for at, word in enumerate(words) if at not in named and at - 1 not in named]


def _missing(result: BundleResult) -> list[str]:
    """One row for each reason, whatever its numbers: what is missing by it, of which ranks and on which nodes."""
    by_reason: dict[str, list[_Lack]] = defaultdict(list)
    for node in result.nodes:
        for what, why in node.missing:
            if what != PYTHON_STACKS:  # the heading says it
                by_reason["".join(c for c in why if not c.isdigit())].append(_Lack(what, why, node.name))
    rows = sorted(by_reason.values(), key=lambda row: -len(row))
    return [f"  {_what_of(row)}: {line(row[0].why, 400)}" for row in rows]


class _Lack(Struct, frozen=True):
    """What one node could not get."""

    what: str
    why: str
    node: str

    @property
    def parts(self) -> tuple[str, int, str] | None:
        """What stands before the rank that it names, the rank, and what stands behind its pid; None without a rank."""
        before, named, rest = self.what.partition("rank ")
        number, _, behind = rest.partition(" ")
        if not named or not number.isdecimal():
            return None
        return before, int(number), behind.partition(")")[2] if behind.startswith("(pid ") else f" {behind}".rstrip()


def _what_of(row: Sequence[_Lack]) -> str:
    """``stack of ranks 0-3 on n1, n2``; of things with unlike names the first, and how many more."""
    nodes = _some(list(dict.fromkeys(lack.node for lack in row)))
    parts = [lack.parts for lack in row]
    forms = {part and (part[0], part[2]) for part in parts}
    form = forms.pop() if len(row) > 1 and len(forms) == 1 else None
    if form is not None:
        named = ranks_phrase(Ranks(part[1] for part in parts if part is not None))
        return f"{line(f'{form[0]}{named}{form[1]}', 100)} on {nodes}"
    whats = list(dict.fromkeys(lack.what for lack in row))
    return f"{_some([line(what, 100) for what in whats], 1)} on {nodes}"


def _some(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(line(name, 120) for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def has_processes(result: BundleResult) -> bool:
    """True when a node that answered has a process of the job, with a rank or without."""
    return any(node.has_answered and all(what != NO_PROCESSES for what, _ in node.missing) for node in result.nodes)
