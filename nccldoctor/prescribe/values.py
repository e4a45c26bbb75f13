"""Finds the values that a remedy's texts and commands are filled in with: rank, host, process, call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nccldoctor.align.world.hosts import find_hosts
from nccldoctor.events import GpuError, IbError, ProcessExit, SocketError, StoreError
from nccldoctor.model import CauseClass, Family, Finding
from nccldoctor.model.hosts import endpoint_address
from nccldoctor.prescribe.catalogue.words import PLACEHOLDERS, as_text, node_of_pod
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.prescribe.conditions.work import work_of
from nccldoctor.prescribe.culprit_frame import culprit_frame
from nccldoctor.questions.answers import quoted
from nccldoctor.words.names import group_title, op_name, ranks_phrase
from nccldoctor.words.times import duration, instant


def fault_hosts(finding: Finding, survey: Survey) -> tuple[str, ...]:
    """The hosts whose device faults the finding quotes: of a pod's rank the node, where its kernel log is quoted."""
    quoted = {evidence.where for evidence in finding.evidence}
    faults = (e for e in survey.events_of(GpuError) if e.is_of_board and e.place in quoted and e.host is not None)
    return tuple(sorted({survey.case.pods.place(e.host) for e in faults if e.host is not None}))


def _unreached(survey: Survey) -> dict[str, object]:
    """The host and the port of the first store, or the host of the first peer, out of reach."""
    printed = next((e.address for e in survey.events_of(StoreError) if e.address and ":" in e.address), "")
    host, _, port = printed.rpartition(":")
    peer = next((e.peer for e in survey.events_of(SocketError) if e.peer and "localRank" not in e.peer), None)
    return {"unreached_host": host.strip("[]") or peer, "unreached_port": port or None}


def probable_host(rank: int, survey: Survey) -> str | None:
    """The host of a rank that no line places, where the ranks around it fill that host."""
    case = survey.case
    if rank < 0 or rank in case.rank_host or not case.rank_host:
        return None
    name = find_hosts(case).around(rank)
    return name if name and not case.pods.is_pod(name) else None


def _quoted_host(finding: Finding, survey: Survey) -> str | None:
    """Where nobody is named: the one host, else address, that lost connections lead to, else whose lines the finding quotes."""
    lost = [f for f in survey.facts.failures if f.cause is CauseClass.NETWORK]
    far = set(survey.machines_of(rank for failure in lost for rank in failure.suspects)) or {
        endpoint_address(e.peer) for failure in lost for e in failure.events if isinstance(e, IbError) and e.peer
    }
    if len(far) == 1:
        return far.pop()
    quoted = {evidence.where for evidence in finding.evidence if evidence.supports}
    hosts = {survey.case.pods.place(e.host) for e in survey.case.events if e.host and e.place in quoted}
    return hosts.pop() if len(hosts) == 1 else None


def _work(finding: Finding, survey: Survey) -> dict[str, object]:
    """The line that shows the work of the culprit, how long it took, and the timeout."""
    done, limit = work_of(finding, survey), finding.stalled.timeout_ms if finding.stalled is not None else None
    took = duration(done.took_s * 1000) if done is not None and done.took_s is not None else None
    shown = f"{quoted(done.shown_by)} ({done.shown_by.place})" if done is not None else None
    return {"took": took, "limit": duration(limit) if limit else None, "work_at": shown}


def _machines(finding: Finding, ranks: Iterable[int], survey: Survey) -> tuple[str, ...]:
    """The hosts of ranks; where their nodes are not known, those whose device faults are quoted."""
    if hosts := survey.machines_of(ranks):
        return hosts
    return tuple(host for host in fault_hosts(finding, survey) if not survey.case.pods.is_pod(host))


def _one_rank(finding: Finding) -> int:
    """The first of the ranks that remedies are for; -1 where they are many, or not known."""
    return next(iter(finding.blamed), -1) if len(finding.blamed) <= 8 else -1


def _named_ranks(finding: Finding, survey: Survey) -> str | None:
    """The ranks in words; ``some ranks`` where all are suspects, or no side of a mismatch has a majority."""
    is_tie = finding.family is Family.DISAGREE
    if not finding.ranks and finding.suspects and (is_tie or finding.suspects == survey.case.world):
        return "some ranks"
    return ranks_phrase(finding.blamed) if finding.blamed else None


def placeholder_values(finding: Finding, survey: Survey) -> dict[str, str]:
    """The values of the placeholders of a remedy in this finding; only those that are known."""
    case = survey.case
    rank = _one_rank(finding)
    ends = (e for e in survey.events_of(ProcessExit) if e.rank in finding.blamed or not finding.blamed)
    waiting = next(iter(finding.victims), -1)
    stalled = finding.stalled
    frame = culprit_frame(finding, survey)
    # the adapter whose port failed, by the lines that the finding quotes, else by the first that names one
    quoted = {evidence.where for evidence in finding.evidence}
    named = [error for error in survey.events_of(IbError) if error.hca]
    first = min(named, key=lambda e: (not e.is_of_own_end, e.place not in quoted), default=None)
    values: dict[str, object] = {
        "rank": rank if rank >= 0 else None,
        "ranks": _named_ranks(finding, survey),
        "host": next(iter(_machines(finding, [rank], survey)), None),
        "hosts": ", ".join(_machines(finding, finding.blamed, survey)[:8]) or None,
        "pid": case.rank_pid.get(rank),
        "device": case.rank_device.get(rank),
        **_unreached(survey),
        **({"frame": frame.function, "frame_at": frame.place} if frame is not None else {}),
        "job": survey.case.job_id,
        "ended_at": next((instant(e.time) for e in ends if e.time is not None), None),
        "port": first.hca if first is not None else None,
        **_work(finding, survey),
        "waiting_rank": waiting if waiting >= 0 else None,
        "waiting_host": next(iter(survey.machines_of([waiting])), None),
        "group": group_title(stalled.group) if stalled and stalled.group else None,
        "op": op_name(stalled.op) if stalled and stalled.op else None,
        "seq": stalled.seq if stalled else None,
    }
    if values["host"] is None:
        values["host"] = probable_host(rank, survey) if finding.blamed else _quoted_host(finding, survey)
    if values["hosts"] is None:
        values["hosts"] = values["host"]
    if (place := case.rank_host.get(rank)) is not None and values["host"] is None:
        values[PLACEHOLDERS["host"]] = node_of_pod(place)
    return {name: str(value) for name, value in values.items() if value is not None}


def values_inside(known: Mapping[str, str], finding: Finding, survey: Survey) -> Mapping[str, str]:
    """The values for steps beside a process: in its pod, whose process ids are not the node's."""
    pod = survey.case.rank_host.get(_one_rank(finding), "")
    if not survey.case.pods.is_pod(pod):
        return known
    return {**known, "host": "", PLACEHOLDERS["host"]: f"pod {as_text(pod)} (kubectl exec)"}
