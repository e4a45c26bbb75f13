"""The four facts of a ticket, the line above them, and the footer."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import CauseClass, Diagnosis, Family, Finding, RankState
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.sanitize import line
from nccldoctor.version import __version__


@dataclass(frozen=True, slots=True)
class Fact:
    """One of the four facts: a label, the value, what belongs to it."""

    label: str
    value: str
    detail: str


def tone(finding: Finding) -> str:
    """The colour of the verdict: ``bad`` where something is diagnosed, ``ok``, or ``open`` where it cannot be told."""
    return {Family.NONE: "ok", Family.UNDETERMINED: "open"}.get(finding.family, "bad")


def meta(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """What job this is, as far as the input says: pairs of a name and a value."""
    job, call = diagnosis.job, diagnosis.verdict.stalled
    world = wording.plural(job.world_size, "rank") if job.world_size is not None else "size not known"
    out = [("World", world + (" (guessed from the highest)" if job.world_guessed else ""))]
    if job.hosts:
        out.append(("Hosts", line(job.hosts[0], 60) if len(job.hosts) == 1 else str(len(job.hosts))))
    if job.groups:
        out.append(("Process groups", f"{len(job.groups):,}"))
    out += [(name, line(value, 30)) for name, value in (("PyTorch", job.torch), ("NCCL", job.nccl)) if value]
    if call is not None and call.since is not None:
        out.append(("Since", wording.instant(call.since)))
    return tuple(out)


def four(diagnosis: Diagnosis) -> tuple[Fact, ...]:
    """Who, in which call, for how long, how far it spread: always four."""
    return _who(diagnosis), _call(diagnosis), _time(diagnosis), _reach(diagnosis)


def _who(diagnosis: Diagnosis) -> Fact:
    finding = diagnosis.verdict
    label = wording.culprit_label(finding)
    named = finding.ranks or finding.suspects
    if not named:
        value = "nobody" if finding.family is Family.NONE else "cannot be told"
        return Fact(label, value, "" if finding.family is Family.NONE else "the evidence names nobody")
    states = [state for state in diagnosis.ranks if state.rank in named]
    return Fact(label, wording.ranks_phrase(named, 4) + wording.others_may_be(diagnosis), _where(states, len(named)))


def _where(states: list[RankState], named: int) -> str:
    if named == 1 and states:
        state = states[0]
        parts = [line(text, 60) for text in (state.host, state.device) if text]
        parts += [f"pid {state.pid}"] if state.pid is not None else []
        return " · ".join(parts) or "host not known"
    hosts = list(dict.fromkeys(line(state.host, 60) for state in states if state.host))
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more hosts" if len(hosts) > 3 else "") or "host not known"


def _call(diagnosis: Diagnosis) -> Fact:
    finding, call = diagnosis.verdict, diagnosis.verdict.stalled
    if call is None and finding.cause is CauseClass.INIT:
        return Fact("Stalled call", "group set-up", "no call can start before it")
    if call is None:
        return Fact("Stalled call", "none seen", "no call is seen to stall")
    parts = [wording.group_name(call.group)] if call.group else []
    parts += [wording.plural(call.numel_in, "element")] if call.numel_in else []
    parts += [line(call.dtype, 30)] if call.dtype else []
    parts += [arrived] if (arrived := wording.arrived(diagnosis, call)) else []
    label = "Stalled transfer" if call.kind == "p2p" else "Stalled collective"
    return Fact(label, wording.call_name(call.op, call.seq), " · ".join(parts) or "group not known")


def _time(diagnosis: Diagnosis) -> Fact:
    label, call = "Stalled for", diagnosis.verdict.stalled
    if call is None and diagnosis.verdict.cause is CauseClass.INIT:
        return Fact(label, "not known", "the set-up leaves no times")
    if call is None and diagnosis.verdict.family is Family.UNDETERMINED:
        return Fact(label, "not known", "no call is seen to stall")
    if call is None:
        return Fact(label, "no stall", "no call is seen to stall")
    limit = f"limit {wording.duration(call.timeout_ms)}" if call.timeout_ms and call.timeout_ms > 0 else ""
    if call.since is None and limit and diagnosis.alarm is not None:
        return Fact(label, f"{wording.duration(call.timeout_ms or 0)} or more", "the limit ran out")
    if call.since is None:
        return Fact(label, "not known", limit or "no times in what was read")
    if call.until is None or (call.since.tzinfo is None) != (call.until.tzinfo is None) or call.until < call.since:
        since = f"since {wording.instant(call.since)}" + (f" ({limit})" if limit else "")
        if limit and diagnosis.alarm is not None and call.until is None:
            return Fact(label, f"{wording.duration(call.timeout_ms or 0)} or more", since)
        return Fact(label, "not known", since)
    ended, began = wording.instant(call.until), wording.instant(call.since)
    same_day = began.split(" ")[0] == ended.split(" ")[0]
    span = f"{began} → {ended.split(' ', 1)[1] if same_day else ended}"
    span = span.replace(" UTC →", " →")
    value = wording.duration((call.until - call.since).total_seconds() * 1000)
    return Fact(label, value, span + (f" ({limit})" if limit else ""))


def _reach(diagnosis: Diagnosis) -> Fact:
    label, job = "Blast radius", diagnosis.job
    hit = len({rank for finding in diagnosis.findings for ranks in (finding.ranks, finding.victims) for rank in ranks})
    groups = {link.group for finding in diagnosis.findings for link in finding.chain if link.group}
    known = 0 < len(groups) <= len(job.groups)
    parts = [f"{len(groups):,} of {wording.plural(len(job.groups), 'group')}"] if known else []
    parts += [wording.plural(len(diagnosis.findings), "finding")] if len(diagnosis.findings) > 1 else []
    if diagnosis.verdict.cause is CauseClass.INIT:
        return Fact(label, "the whole group", "whoever is to be in it waits for the set-up")
    if not hit:
        well = diagnosis.verdict.family is Family.NONE
        return Fact(label, "none", "nobody waits") if well else Fact(label, "not known", "who waits cannot be told")
    whole = job.world_size or 0
    value = f"{hit:,} of {whole:,} ranks" if whole >= hit else wording.plural(hit, "rank")
    waits = any(finding.victims for finding in diagnosis.findings)
    return Fact(label, value, " · ".join(parts) or ("at fault or waiting" if waits else "nobody is seen to wait"))


def footer(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Tool, catalogue and what was read; nothing that differs between two runs on the same input."""
    kinds: dict[str, int] = {}
    for source in diagnosis.sources:
        kinds[source.kind.value] = kinds.get(source.kind.value, 0) + 1
    total = wording.size(sum(source.size for source in diagnosis.sources))
    read = f"read {wording.plural(len(diagnosis.sources), 'file')}, {total}"
    detail = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    parts = [f"nccldoctor {__version__}", f"catalogue: {line(diagnosis.catalogue, 60)}" if diagnosis.catalogue else ""]
    return tuple(part for part in (*parts, read + (f" ({detail})" if detail else "")) if part)
