"""Decides whether the job may be restarted as it is: the first row of ``restart.toml`` that fits a finding.

docs/restart.md gives the reasons.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from nccldoctor.events import GpuError, IbError, KernelEvent, OutOfMemory, SchedulerEvent
from nccldoctor.model import Action, CauseClass, Confidence, Finding
from nccldoctor.model.hosts import host_key
from nccldoctor.parsers.event_details import was_evicted_for_node, was_evicted_for_usage
from nccldoctor.prescribe.catalogue.words import SHOWS_NODE
from nccldoctor.prescribe.conditions.survey import Survey

REPEATED = 2
"""Link faults of one host from which the host, and not a passing flap, is taken for the cause."""
TRANSIENT = ("preempted", "node-failure", "requeue")
_CORDON_SHOWN = 16


@dataclass(frozen=True, slots=True)
class _Row:
    """One row: it fits by class, by family, by sign, or any finding where it has none of them."""

    restart: str
    why: str
    class_: tuple[str, ...] = ()
    family: str = ""
    sign: str = ""
    cordon: bool = False

    def is_for(self, finding: Finding, survey: Survey) -> bool:
        """True where the row fits a finding."""
        if self.sign:
            return _SIGNS[self.sign](finding, survey)
        if self.family:
            return finding.family == self.family
        return not self.class_ or finding.cause in self.class_


@cache
def _restart_rows() -> tuple[_Row, ...]:
    rows = tomllib.loads((files("nccldoctor.prescribe") / "restart.toml").read_text(encoding="utf-8"))["row"]
    return tuple(_Row(class_=tuple(row.pop("class", ())), **row) for row in rows)


def decide(findings: tuple[Finding, ...], survey: Survey) -> Action:
    """The action for the whole job: the most restrictive row of the verdict and of all other sure findings."""
    if not findings:
        return Action("unknown", "nothing was found")
    sure = [finding for finding in findings[1:] if not _is_unsure(finding, survey)]
    rows = [(_row_for(finding, survey), finding) for finding in (findings[0], *sure)]
    order = ("after-replacing-node", "after-fix", "unknown", "now")
    row, finding = min(rows, key=lambda pair: order.index(pair[0].restart))
    hosts = sorted({host for each, about in rows if each.cordon for host in _cordoned(about, survey)})
    machines = [host for host in hosts if not survey.case.pods.is_pod(host)]
    why = f"{row.why} ({finding.id})" if len(findings) > 1 else row.why
    return Action(row.restart, why + _unknown_nodes(hosts, survey), tuple(machines[:_CORDON_SHOWN]))


def _unknown_nodes(hosts: Sequence[str], survey: Survey) -> str:
    """How to find the nodes to take out where only their pods are known."""
    pods = [host for host in hosts if survey.case.pods.is_pod(host)]
    if not pods:
        return ""
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return f"; take out the node of pod {pods[0]}{more}, which {SHOWS_NODE.format(pods[0])} shows"


def _row_for(finding: Finding, survey: Survey) -> _Row:
    return next(row for row in _restart_rows() if row.is_for(finding, survey))


def _cordoned(finding: Finding, survey: Survey) -> tuple[str, ...]:
    """The hosts to take out: those with the faults, else the culprits'."""
    if finding.cause is CauseClass.NETWORK:
        return _link_hosts(finding, survey)
    return fault_hosts(finding, survey) or survey.hosts_of(finding.ranks)


def fault_hosts(finding: Finding, survey: Survey) -> tuple[str, ...]:
    """The hosts whose device faults the finding quotes: of a pod's rank the node, where its kernel log is quoted."""
    quoted = {evidence.where for evidence in finding.evidence}
    faults = (e for e in survey.events_of(GpuError) if e.is_of_board and e.place in quoted and e.host is not None)
    return tuple(sorted({survey.case.pods.place(e.host) for e in faults if e.host is not None}))


def _link_hosts(finding: Finding, survey: Survey) -> tuple[str, ...]:
    """Culprit hosts whose own port failed :data:`REPEATED` times or more.

    A peer's time-out says nothing about one's own port.
    """
    ports = [s for s in survey.surveyed(IbError) if isinstance(s.event, IbError) and s.event.what == "port"]
    links = [
        s for s in survey.surveyed(KernelEvent) if isinstance(s.event, KernelEvent) and s.event.what == "link-down"
    ]
    counts = Counter(fault.host for fault in (*ports, *links))
    return tuple(host for host in survey.hosts_of(finding.ranks) if counts[host_key(host)] >= REPEATED)


def _is_unsure(finding: Finding, survey: Survey) -> bool:
    return finding.confidence in (Confidence.LOW, Confidence.CANNOT_TELL)


def _has_failing_link(finding: Finding, survey: Survey) -> bool:
    return finding.cause is CauseClass.NETWORK and bool(_link_hosts(finding, survey))


def _has_device_fault(finding: Finding, survey: Survey) -> bool:
    """True where a host of the culprits shows a device fault, which a restart would meet again."""
    hosts = {host_key(host) for host in survey.hosts_of(finding.ranks)}
    faults = (s for s in survey.surveyed(GpuError) if isinstance(s.event, GpuError) and s.event.weight == "fault")
    return any(fault.host in hosts for fault in faults)


def _has_hung_board(finding: Finding, survey: Survey) -> bool:
    """True where boards only stopped answering, and no line shows an error of one."""
    weights = {event.weight for event in survey.events_of(GpuError)}
    return finding.cause is CauseClass.HARDWARE and "hang" in weights and "fault" not in weights


def _was_evicted(survey: Survey, why: Callable[[str], bool]) -> bool:
    """True where a pod was evicted in these words."""
    events = survey.events_of(SchedulerEvent)
    return any(event.what == "evicted" and why(event.detail or event.text) for event in events)


def _was_evicted_for_usage(finding: Finding, survey: Survey) -> bool:
    return finding.cause is CauseClass.DIED and _was_evicted(survey, was_evicted_for_usage)


def _was_preempted(finding: Finding, survey: Survey) -> bool:
    if finding.cause is not CauseClass.DIED or _has_device_fault(finding, survey):
        return False
    transient = any(event.what in TRANSIENT for event in survey.events_of(SchedulerEvent))
    return transient or _was_evicted(survey, was_evicted_for_node)


def _was_out_of_memory(finding: Finding, survey: Survey) -> bool:
    return finding.cause is CauseClass.DIED and bool(survey.events_of(OutOfMemory))


_SIGNS: dict[str, Callable[[Finding, Survey], bool]] = {
    "unsure": _is_unsure,
    "hung-board": _has_hung_board,
    "failing-link": _has_failing_link,
    "device-fault": _has_device_fault,
    "evicted-for-usage": _was_evicted_for_usage,
    "preempted": _was_preempted,
    "out-of-memory": _was_out_of_memory,
}
