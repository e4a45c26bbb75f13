"""What was read, against what the job would leave: nothing is silently dropped.

One row for each kind of input, never none. Silence of an input that was not there rules out nothing, and is said so.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.align.facts import Facts
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
from nccldoctor.model import CauseClass, Condition, Coverage, Finding, SourceKind
from nccldoctor.model.ranks import Ranks

MOST_PROBLEMS = 12
"""Problems listed in one row; the rest are counted."""


def coverage(facts: Facts) -> tuple[Coverage, ...]:
    """One row for each kind of input."""
    case, presence = facts.case, facts.liveness
    world = case.world if case.world_size is not None else Ranks()
    kernel = Ranks(r for h in _kernel_hosts(case) for r, host in case.rank_host.items() if host == h)
    rows = [
        Coverage("flight recorder", world, presence.dumped, _problems(case, SourceKind.RECORDER)),
        Coverage("logs", world, presence.logged, (*_problems(case, SourceKind.LOG), *_unparsed(case))),
        Coverage(
            "stacks",
            Ranks(),
            Ranks(e.rank for e in case.of(Stack) if e.rank is not None),
            _problems(case, SourceKind.STACKS),
        ),
        Coverage("kernel log", Ranks(), kernel, _problems(case, SourceKind.KERNEL_LOG)),
        Coverage("exit records", Ranks(), Ranks(e.rank for e in case.of(ProcessExit) if e.rank is not None), ()),
        _counts(case),
        Coverage("other input", Ranks(), Ranks(), _other(case)),
    ]
    return tuple(r for r in rows if r.expected or r.found or r.problems or r.input in ("flight recorder", "logs"))


def _counts(case: Case) -> Coverage:
    """Whose calls NCCL's own observers counted, and the communicators of which they do not say which ranks they hold."""
    found = Ranks(r for one in case.nccl_counters for r in one.last)
    expected = Ranks(r for one in case.nccl_counters for r in one.members)
    known = {one.comm for one in case.nccl_counters}
    unknown = dict.fromkeys(e.comm_id for e in case.of(RasStatus) if e.comm_id and e.counts and e.comm_id not in known)
    problems = [f"communicator {comm}: which ranks of the job it holds is not told" for comm in unknown]
    return Coverage("counts of NCCL", expected, found, _cut(problems))


def left_out(mistakes: tuple[str, ...]) -> tuple[Coverage, ...]:
    """A row for remedies that could not be used, none where all could."""
    return (
        (Coverage("remedies", Ranks(), Ranks(), _cut([f"left out: {text}" for text in mistakes])),) if mistakes else ()
    )


def _kernel_hosts(case: Case) -> set[str]:
    return {s.host for s in case.sources if s.kind is SourceKind.KERNEL_LOG and s.host}


def _problems(case: Case, kind: SourceKind) -> tuple[str, ...]:
    """The gaps of the files of one kind."""
    kinds = {s.id: s.kind for s in case.sources}
    return _cut([f"{g.what}: {g.why}" for g in case.gaps if g.source is not None and kinds.get(g.source) is kind])


def _other(case: Case) -> tuple[str, ...]:
    known = {SourceKind.RECORDER, SourceKind.LOG, SourceKind.STACKS, SourceKind.KERNEL_LOG}
    kinds = {s.id: s.kind for s in case.sources}
    return _cut([f"{g.what}: {g.why}" for g in case.gaps if g.source is None or kinds.get(g.source) not in known])


def _cut(problems: list[str]) -> tuple[str, ...]:
    if len(problems) <= MOST_PROBLEMS:
        return tuple(problems)
    return (*problems[:MOST_PROBLEMS], f"and {len(problems) - MOST_PROBLEMS} more")


def _unparsed(case: Case) -> Iterator[str]:
    """How many lines looked like signals and were not understood, with the first example."""
    left = sum(r.candidates - r.understood for r in case.readings)
    first = next((r for r in case.readings if r.first_unknown), None)
    if left > 0 and first is not None:
        lines = "1 line that looks like a signal was" if left == 1 else f"{left} lines that look like signals were"
        yield f"{lines} not understood, first {first.first_unknown_at}: {first.first_unknown[:120]}"


def ruled_out(facts: Facts, verdict: Finding) -> tuple[Condition, ...]:
    """Hypotheses that were looked at: ruled out with the evidence, or not checked for want of an input."""
    case = facts.case
    kernel = bool(_kernel_hosts(case)) or any(s.kind is SourceKind.KERNEL_LOG for s in case.sources)
    # Where nobody knows why a call does not end, silence about the network proves nothing unless NCCL itself was heard.
    told = verdict.cause not in (CauseClass.UNFINISHED, CauseClass.UNDETERMINED) or any(True for _ in case.of(CommInit))
    nccl = bool(facts.liveness.logged) and told
    dumps = len(facts.progress.recorded_ranks) > 1  # a dump without entries agrees with nobody
    rows = [
        _row("network", CauseClass.NETWORK, verdict, _transport_complains(case), nccl,
             "no transport error in the logs", "logs of the ranks with NCCL_DEBUG=WARN, or a kernel log, would tell"),
        _row("GPU fault", CauseClass.HARDWARE, verdict, any(not e.software and e.weight == "fault" for e in case.of(GpuError)), kernel,
             "no device error in the kernel log", "the kernel log of each host would tell (dmesg -T)"),
        _row("out of memory", CauseClass.DIED, verdict, _killed_for_memory(case), kernel or bool(facts.liveness.exited),
             "no process was killed for memory", "the kernel log or the launcher's exit table would tell"),
        _row("mismatched calls", CauseClass.SIZE_MISMATCH, verdict, bool(list(case.of(CollectiveMismatch))), dumps,
             "the recorded calls of all dumped ranks agree", "flight-recorder dumps of the ranks would tell"),
        _row("storage stall", CauseClass.NOT_ARRIVED, verdict, any(e.what in ("nfs", "blocked-task") for e in case.of(KernelEvent)), kernel,
             "no blocked task or file server in the kernel log", "the kernel log of each host would tell"),
    ]  # fmt: skip
    return tuple(r for r in rows if r is not None)


def _transport_complains(case: Case) -> bool:
    """Whether a line speaks of a connection or store that failed of itself: then a network fault is not ruled out."""
    own = any(not e.echo for e in case.of(SocketError))
    return own or any(True for kind in (IbError, StoreError) for _ in case.of(kind))


def _killed_for_memory(case: Case) -> bool:
    """Whether a process was killed for want of memory, or by a SIGKILL that may have been for that."""
    return (
        any(True for _ in case.of(OutOfMemory))
        or any(e.what.startswith(("oom", "out-of-memory")) for e in case.of(SchedulerEvent))
        or any(e.exitcode in (-9, 137) for e in case.of(ProcessExit))
    )


def _row(
    what: str, cause: CauseClass, verdict: Finding, seen: bool, readable: bool, clean: str, missing: str
) -> Condition | None:
    if (
        seen
        or (cause is verdict.cause and what in ("network", "GPU fault"))
        or (what == "mismatched calls" and verdict.family.value == "disagree")
    ):
        return None
    return Condition(what, False if readable else None, clean if readable else missing)
