"""Compares what was read with what the job would leave behind, and says what that rules out.

There is a row for each kind of input, so that nothing is dropped silently. An input that was not there rules out nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.attempts import Broken
from nccldoctor.events import (
    CollectiveMismatch,
    CommInit,
    GpuError,
    IbError,
    KernelEvent,
    OutOfMemory,
    ProcessExit,
    RasStatus,
    SchedulerEvent,
    SocketError,
    Stack,
    StoreError,
)
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass, Condition, Confidence, Coverage, Family, Finding, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import and_list, first_of
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.numbers import plural
from nccldoctor.words.sanitize import line

ENVIRONMENT = "environment"
"""The kind of a file with the variables of a rank, in the manifest of a bundle."""

MOST_PROBLEMS = 12
"""Problems listed in one row; the rest are counted."""


def coverage(facts: Facts) -> tuple[Coverage, ...]:
    """One row for each kind of input."""
    case, liveness, nobody = facts.case, facts.liveness, Ranks()
    world = case.world if case.world_size is not None else nobody
    kernel_hosts = {s.host for s in case.sources if s.kind is SourceKind.KERNEL_LOG and s.host}
    kernel = Ranks(rank for rank, host in case.rank_host.items() if case.pods.place(host) in kernel_hosts)
    stacks = Ranks(e.rank for e in case.of(Stack) if e.rank is not None)
    exits = Ranks(e.rank for e in case.of(ProcessExit) if e.rank is not None)
    counted = Ranks(rank for counters in case.nccl_counters for rank in counters.last)
    members = Ranks(rank for counters in case.nccl_counters for rank in counters.members)
    known = {counters.comm for counters in case.nccl_counters}
    unknown = dict.fromkeys(e.comm_id for e in case.of(RasStatus) if e.comm_id and e.counts and e.comm_id not in known)
    problems = [f"communicator {comm}: the files don't say which ranks it connects" for comm in unknown]
    rows = [
        Coverage("flight recorder", world, liveness.dumped, _problems(case, SourceKind.RECORDER)),
        Coverage("logs", world, liveness.logged, (*_problems(case, SourceKind.LOG), *_unparsed(case))),
        Coverage("stacks", nobody, stacks, _problems(case, SourceKind.STACKS)),
        Coverage("kernel log", nobody, kernel, _problems(case, SourceKind.KERNEL_LOG)),
        Coverage("exit records", nobody, exits),
        Coverage("counts of NCCL", members, counted, _cut(problems)),
        Coverage("other input", nobody, nobody, _problems(case, None)),
    ]
    return tuple(r for r in rows if r.expected or r.found or r.problems or r.input in ("flight recorder", "logs"))


def left_out(mistakes: tuple[str, ...]) -> tuple[Coverage, ...]:
    """A row for remedies that could not be used, none where all could."""
    return (
        (Coverage("remedies", Ranks(), Ranks(), _cut([f"left out: {text}" for text in mistakes])),) if mistakes else ()
    )


def broken_parts(broken: Sequence[Broken]) -> tuple[Coverage, ...]:
    """A row for the parts of nccldoctor that failed on this input, none where all went well."""
    problems = [f"{part}; please report it" for part in broken]
    return (Coverage("nccldoctor itself", Ranks(), Ranks(), _cut(problems)),) if problems else ()


def _problems(case: Case, kind: SourceKind | None) -> tuple[str, ...]:
    """The gaps in the files of one kind; for None those of all kinds without a row of their own."""
    with_row = (SourceKind.RECORDER, SourceKind.LOG, SourceKind.STACKS, SourceKind.KERNEL_LOG)
    kinds = {source.id: source.kind for source in case.sources if source.kind in with_row}
    gaps = [gap for gap in case.gaps if kinds.get(-1 if gap.source is None else gap.source) is kind]
    empty = {source.id for source in case.sources if source.kind is SourceKind.EMPTY}
    told = [f"{gap.what}: {gap.why}" for gap in gaps if gap.source not in empty]
    silent = [gap.what for gap in gaps if gap.source in empty]
    return _cut([*told, *([f"{first_of(silent)}: empty"] if silent else [])])


def _cut(problems: list[str]) -> tuple[str, ...]:
    if len(problems) <= MOST_PROBLEMS:
        return tuple(problems)
    return (*problems[:MOST_PROBLEMS], f"and {len(problems) - MOST_PROBLEMS} more")


def _unparsed(case: Case) -> tuple[str, ...]:
    """For each file how many of its lines that look like signals were understood, the least understood first.

    The environment.txt of a bundle is left out: its lines are variables, not log lines.
    """
    paths = {source.id: source.path for source in case.sources}
    own = {
        source.id for source in case.sources if source.collected is not None and source.collected.kind == ENVIRONMENT
    }
    left = sorted(
        (r for r in case.readings if r.understood < r.candidates and r.source not in own),
        key=lambda r: r.understood - r.candidates,
    )
    return _cut(
        [
            f"{paths[r.source]}: {r.understood} of {r.candidates} lines that look like signals were understood; the first other one, "
            f"{r.first_unknown_at}: {line(r.first_unknown, 120)}"
            for r in left
        ]
    )


def ruled_out(facts: Facts, verdict: Finding) -> tuple[Condition, ...]:
    """The hypotheses that the input rules out, and those that it lacks the files to check."""
    case = facts.case
    no_kernel = _missing_kernel_logs(case)
    kernels = plural(sum(s.kind is SourceKind.KERNEL_LOG for s in case.sources), "kernel log")
    logs = plural(sum(s.kind is SourceKind.LOG for s in case.sources), "log")
    has_all_exits = case.world_size is not None and case.world <= facts.liveness.exited
    no_exits = f"no exit record of {ranks_phrase(case.world - facts.liveness.exited) if case.world else 'any rank'}"
    has_gpu_fault = any(e.is_of_board for e in case.of(GpuError))
    is_storage_slow = any(e.what in ("nfs", "blocked-task") for e in case.of(KernelEvent))
    was_killed = any(e.exitcode in (-9, 137) for e in case.of(ProcessExit))  # memory may have been the reason
    is_told = any(e.what.startswith(("oom", "out-of-memory")) for e in case.of(SchedulerEvent))
    had_transport_error = (
        any(not e.echo for e in case.of(SocketError)) or any(case.of(IbError)) or any(case.of(StoreError))
    )
    had_memory_kill = was_killed or is_told or any(case.of(OutOfMemory))
    rows = [
        _hypothesis("network", CauseClass.NETWORK, verdict, had_transport_error,
             f"no transport error in {logs}", _missing_warnings(facts)),
        _hypothesis("GPU fault", CauseClass.HARDWARE, verdict, has_gpu_fault,
             f"no GPU error in {kernels}", no_kernel),
        _hypothesis("out of memory", CauseClass.DIED, verdict, had_memory_kill,
             "no rank was killed for memory, by the exit records of all ranks" if no_kernel else f"no OOM kill in {kernels}",
             f"{no_kernel}, and {no_exits}" if no_kernel and not has_all_exits else ""),
        _hypothesis("mismatched calls", CauseClass.SIZE_MISMATCH, verdict, any(case.of(CollectiveMismatch)),
             f"op, size and dtype agree in the dumps of all {len(case.world)} ranks", _missing_dumps(facts, verdict)),
        _hypothesis("storage stall", CauseClass.NOT_ARRIVED, verdict, is_storage_slow,
             f"no blocked task or file server error in {kernels}", no_kernel),
    ]  # fmt: skip
    return tuple(r for r in rows if r is not None)


def _missing_kernel_logs(case: Case) -> str:
    """The kernel logs that are not in the input; "" where that of every host of the job was read."""
    read = {s.host for s in case.sources if s.kind is SourceKind.KERNEL_LOG}
    wanted = {case.pods.place(case.rank_host[r]) if r in case.rank_host else None for r in case.world}
    if read and case.world_size is not None and wanted <= read - {None}:
        return ""
    files = plural(len(case.sources), "file")
    if not read:
        return f"no kernel log among the {files}" if len(case.sources) > 1 else "no kernel log in the input"
    if None in read:
        return "the kernel log doesn't name its host" if len(read) == 1 else "not every kernel log names its host"
    hosts = sorted(host for host in wanted - read if host is not None)
    if not hosts:
        return "the kernel logs don't name the host of every rank"
    return f"no kernel log from {and_list(hosts if len(hosts) < 4 else [*hosts[:2], f'{len(hosts) - 2} more hosts'])}"


def _missing_warnings(facts: Facts) -> str:
    """The logs of NCCL's warnings that are not in the input: with them off silence proves nothing; "" for none."""
    world, logged = facts.case.world, facts.liveness.logged
    if not logged & world:
        return "no rank logs in the input"
    if silent := world - logged:
        return f"no logs from {ranks_phrase(silent)}"
    prints = Ranks(e.rank for e in facts.case.of(CommInit) if e.rank is not None)
    if silent := world - prints:
        return f"no NCCL output in the log of {ranks_phrase(silent)}"
    return "unknown world size" if facts.case.world_size is None else ""


def _missing_dumps(facts: Facts, verdict: Finding) -> str:
    """The flight recorder dumps that are missing, or what they lack; "" where all groups were compared."""
    has_dtypes = any(any(dtypes) for dtypes in facts.case.vocabulary.dtypes)
    is_whole = facts.case.world_size is not None and facts.case.world <= facts.progress.recorded_ranks
    if has_dtypes and is_whole and verdict.confidence_in.cause in (Confidence.HIGH, Confidence.MEDIUM):
        return ""
    if not facts.progress.recorded_ranks:
        return "no flight recorder dumps in the input"
    if silent := facts.case.world - facts.progress.recorded_ranks:
        return f"no flight recorder dump from {ranks_phrase(silent)}"
    return "the flight recorder dumps don't settle it"


def _hypothesis(
    what: str, cause: CauseClass, verdict: Finding, seen: bool, clean: str, missing: str
) -> Condition | None:
    """A hypothesis without a sign: ruled out where no input is missing. None where it was ``seen`` or is the verdict."""
    is_verdict = verdict.family is Family.DISAGREE if what == "mismatched calls" else cause is verdict.cause
    if seen or (is_verdict and what in ("network", "GPU fault", "mismatched calls")):
        return None
    return Condition(what, None if missing else False, missing or clean)
