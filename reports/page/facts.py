"""The four facts of a ticket, the line above them, and the footer."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model import CauseClass, Confidence, Diagnosis, Family, Finding, Job
from nccldoctor.model.findings import stalls_of
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Involvement, WaitStart
from nccldoctor.reports.parts import incident_facts, incident_time, wording
from nccldoctor.version import __version__
from nccldoctor.words import lists, names, numbers, times
from nccldoctor.words.sanitize import line


class Fact(Struct, frozen=True):
    """One of at most four facts: a label, the value, what belongs to it."""

    label: str
    value: str
    detail: str


def tone(finding: Finding) -> str:
    """The colour of the verdict: ``bad`` where a cause is diagnosed, ``ok`` for none where that is proved, else ``open``."""
    if finding.family is Family.NONE and finding.confidence not in (Confidence.HIGH, Confidence.MEDIUM):
        return "open"
    return {Family.NONE: "ok", Family.UNDETERMINED: "open"}.get(finding.family, "bad")


def job_line(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What describes the job, a phrase each: its size, hosts, versions, the start of the stall."""
    job, call = diagnosis.job, diagnosis.verdict.stalled
    is_guessed = job.world_guessed and job.world_size is not None
    guessed = f" (rank {(job.world_size or 1) - 1} is the highest seen)" if is_guessed else ""
    phrases = [wording.world(job) + guessed] if job.world_size is not None or job.world_at_least > 1 else []
    if job.hosts:
        phrases.append(incident_facts.hosts_of_job(diagnosis, named=1))
    phrases += [f"{name} {line(value, 20)}" for name, value in (("PyTorch", job.torch), ("NCCL", job.nccl)) if value]
    if call is not None and call.since is not None:
        phrases.append(times.instant(call.since) + ("" if call.since.tzinfo is not None else " (time of the logs)"))
    return tuple(phrases)


def four(diagnosis: Diagnosis) -> tuple[Fact, ...]:
    """The culprits, the call or what ended a crashed rank, how long it stalls, and how many ranks wait."""
    is_crash = diagnosis.verdict.cause in (CauseClass.RAISED, CauseClass.DIED)
    what = (_end(diagnosis) if is_crash else None) or _call(diagnosis)
    found = (_who(diagnosis), what, _time(diagnosis), _reach(diagnosis, "Took down" if is_crash else "Blocked"))
    return tuple(fact for fact in found if fact is not None)


def _end(diagnosis: Diagnosis) -> Fact | None:
    """The exception of a crash with its place, else the signal or exit code; None where neither is on record."""
    row = next((row for row in diagnosis.standings if row.involvement is Involvement.CULPRIT), None)
    told = (
        row.last if row is not None else "",
        *(e.says for e in diagnosis.story if e.cause and e.kind == "exception"),
    )
    raised, _, place = next((text for text in told if " in " in text), "").partition(" in ")
    if diagnosis.verdict.cause is CauseClass.RAISED and place:
        end = f" · {row.end}" if row is not None and row.end else ""
        return Fact("Exception", line(raised, 60), line(f"in {place}{end}", 120))
    return Fact("Ended by", line(row.end, 60), line(row.last, 120)) if row is not None and row.end else None


def _who(diagnosis: Diagnosis) -> Fact | None:
    named, label = diagnosis.verdict.blamed, wording.culprit_label(diagnosis.verdict)
    if not named:
        return None
    return Fact(label, names.ranks_phrase(named, 4) + wording.others_may_be(diagnosis), _where(diagnosis, named))


def _where(diagnosis: Diagnosis, named: Ranks) -> str:
    """The hosts of the ranks, of a single one also its GPU and process; "" where none is known."""
    hosts = [line(h, 60) for h in dict.fromkeys(h for s in diagnosis.standings if s.ranks & named for h in s.hosts)]
    state = next((state for state in diagnosis.ranks if named == Ranks([state.rank])), None)
    if state is None:
        return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more hosts" if len(hosts) > 3 else "")
    parts = [*hosts[:1], line(state.device or "", 60), f"pid {state.pid}" if state.pid is not None else ""]
    return " · ".join(part for part in parts if part)


def _call(diagnosis: Diagnosis) -> Fact | None:
    finding, call = diagnosis.verdict, diagnosis.verdict.stalled
    if call is None and finding.cause is CauseClass.INIT:
        return Fact("Stalled call", "init", "no call can start before init ends")
    if call is None:
        return _unnumbered_call(diagnosis)
    parts = [names.group_title(call.group)] if call.group else []
    parts += [numbers.plural(call.numel_in, "element")] if call.numel_in else []
    parts += [line(call.dtype, 30)] if call.dtype else []
    parts += [arrived] if (arrived := wording.arrived(diagnosis, call)) else []
    label = "Stalled transfer" if call.kind == "p2p" else "Stalled collective"
    return Fact(label, names.call_title(call.op, call.seq), " · ".join(parts) or "group unknown")


def _unnumbered_call(diagnosis: Diagnosis) -> Fact | None:
    """The call that tracebacks of the victims show; they may stand in different places of the program."""
    label, waits = "Stalled call", incident_time.waits_of_victims(diagnosis)
    ops = list(dict.fromkeys(wait.call.op for wait in waits if wait.call.op is not None))
    sites = list(dict.fromkeys(line(wait.call.site, 60) for wait in waits if wait.call.site))
    if not ops:
        return Fact(label, "not named", sites[0]) if len(sites) == 1 else None
    if len(ops) > 1 or len(sites) > 1:
        return Fact(
            label, lists.and_list([names.call_title(op, None) for op in ops]), "in different places of the program"
        )
    return Fact(label, names.call_title(ops[0], None), sites[0] if sites else "no file numbers the call")


def _time(diagnosis: Diagnosis) -> Fact | None:
    label, call, told = "Stalled for", diagnosis.verdict.stalled, incident_time.began(diagnosis)
    moment = Fact("When", told, "") if told else None
    if call is None:
        is_crash = diagnosis.verdict.cause in (CauseClass.RAISED, CauseClass.DIED)
        return (moment if is_crash else None) or _time_of_waits(diagnosis) or moment
    limit = f"timeout {times.duration(call.timeout_ms)}" if call.timeout_ms and call.timeout_ms > 0 else ""
    at_least = f"{times.duration(call.timeout_ms or 0)} or more" if limit and diagnosis.alarm is not None else ""
    if call.since is None:
        return Fact(label, at_least, told or "the timeout ran out") if at_least else _silence(diagnosis) or moment
    began = times.instant(call.since)
    in_brackets = f" ({limit})" if limit else ""
    if call.until is None and at_least:
        return Fact(label, at_least, f"since {began}{in_brackets}")
    if call.until is None and (seen := diagnosis.job_end.seen) is not None and seen > call.since:
        value = f"{times.duration((seen - call.since).total_seconds() * 1000)} or more"
        return Fact(label, value, f"since {began}{in_brackets}, until the newest look")
    if call.until is None or (lasted := incident_time.lasting(call)) is None:
        return Fact("Stalled since", began, limit or "no end in the files")
    ended = times.instant(call.until)
    is_same_day = began.split(" ")[0] == ended.split(" ")[0]
    span = f"{began} → {ended.split(' ', 1)[1] if is_same_day else ended}".replace(" UTC →", " →")
    return Fact(label, times.duration(lasted), span + in_brackets)


def _time_of_waits(diagnosis: Diagnosis) -> Fact | None:
    """How long the victims waited in calls that no file numbers; None where none is known to wait."""
    waits = incident_time.waits_of_victims(diagnosis)
    waited = [ms for wait in waits if (ms := wait.times.waited_ms()) is not None]
    first, limit = incident_time.first_wait(diagnosis), incident_time.limit_of_waits(diagnosis)
    began = incident_time.clock_of(diagnosis, first) if first is not None else ""
    parts = ["at the latest"] if first is not None and first.start is WaitStart.AT_LATEST else []
    parts += [f"(timeout {times.duration(limit)})"] if limit else []
    if not waited and first is not None:
        return Fact("Stalled since", began, " ".join(parts) or "no end in the files")
    parts = [f"since {began}", *parts] if first is not None else parts
    return Fact("Stalled for", times.duration(max(waited)), " ".join(parts)) if waited else _silence(diagnosis)


def _silence(diagnosis: Diagnosis) -> Fact | None:
    """How long a log was silent when somebody noticed, where nothing tells how long the stall lasted."""
    side = incident_time.silent_log(diagnosis)
    if side is None or side.gap_ms is None:
        return None
    return Fact("Silent for", times.duration(side.gap_ms), f"rank {side.rank}'s log, until it was noticed")


_WAITING = (Involvement.WAITING, Involvement.BLOCKED)


def _reach(diagnosis: Diagnosis, label: str) -> Fact | None:
    job = diagnosis.job
    hit = len(wording.waiting_ranks(diagnosis))
    groups = {link.group for finding in diagnosis.findings for link in finding.chain if link.group}
    of_nccl = {group.members for group in job.groups if group.learned == "nccl"}
    total = len(job.groups) - sum(group.learned != "nccl" and group.members in of_nccl for group in job.groups)
    is_part = 0 < len(groups) <= total > 1
    parts = [f"{len(groups):,} of {numbers.plural(total, 'group')}"] if is_part else []
    direct, behind = (sum(len(s.ranks) for s in diagnosis.standings if s.involvement is part) for part in _WAITING)
    parts = [f"{direct:,} directly, {behind:,} behind them"] if direct and behind else parts
    is_one = len(diagnosis.findings) < 2 or stalls_of(diagnosis.findings)  # a verdict on several hangs sums them up
    parts += [] if is_one else [numbers.plural(len(diagnosis.findings), "finding")]
    if diagnosis.verdict.cause is CauseClass.INIT and (hit or diagnosis.verdict.ranks):
        return Fact(label, "the whole group", "every member is blocked in init")
    if not hit and diagnosis.verdict.family is Family.DISAGREE and diagnosis.verdict.suspects:
        return Fact(label, _of_all(len(diagnosis.verdict.suspects), job), "in calls that differ")
    if not hit:
        return None
    return Fact(label, _of_all(hit, job), " · ".join(parts) or "waiting")


def _of_all(count: int, job: Job) -> str:
    """``3 of 4 ranks``; without the second number where the size of the job is not known."""
    whole = job.world_size or 0
    return f"{count:,} of {whole:,} ranks" if whole >= count else numbers.plural(count, "rank")


def footer(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Tool, catalogue and input; nothing that differs between two runs on the same input."""
    total = numbers.size(sum(source.size for source in diagnosis.sources))
    read = f"{numbers.plural(len(diagnosis.sources), 'file')}, {total}"
    parts = (f"nccldoctor {__version__}", line(diagnosis.catalogue, 60), read)
    return tuple(part for part in parts if part)
