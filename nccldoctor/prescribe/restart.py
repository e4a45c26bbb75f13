"""May the job be restarted as it is? A table, read from the top; see docs/restart.md for the reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from nccldoctor.events import GpuError, IbError, KernelEvent, OutOfMemory, SchedulerEvent
from nccldoctor.model import Action, CauseClass, Confidence, Family, Finding
from nccldoctor.model.hosts import host_key
from nccldoctor.prescribe.conditions.survey import Survey

REPEATED = 2
"""Link faults of one host from which the host, and not a passing flap, is taken for the cause."""
TRANSIENT = ("preempted", "node-failure", "requeue")
_EVICTED_FOR_NODE = re.compile(r"TaintManager|EvictionByEvictionAPI")
"""An eviction for the node's sake. Every other one is the kubelet's, for want of a resource."""
_EVICTED_FOR_USAGE = re.compile(r"was using|larger consumption|exceeds (?:its|the)\b")
_CORDON_SHOWN = 16


@dataclass(frozen=True, slots=True)
class _Row:
    holds: Callable[[Finding, Survey], bool]
    restart: str
    why: str
    cordon: bool = False


def _class(*causes: str) -> Callable[[Finding, Survey], bool]:
    return lambda finding, survey: finding.cause.value in causes


def _is_unsure(finding: Finding, survey: Survey) -> bool:
    return finding.confidence in (Confidence.LOW, Confidence.CANNOT_TELL)


def _has_failing_link(finding: Finding, survey: Survey) -> bool:
    return finding.cause is CauseClass.NETWORK and bool(_link_hosts(finding, survey))


def _was_preempted(finding: Finding, survey: Survey) -> bool:
    if finding.cause is not CauseClass.DIED:
        return False
    told = any(event.what in TRANSIENT for event in survey.of(SchedulerEvent)) or _was_evicted(
        survey, _EVICTED_FOR_NODE
    )
    return told and not _has_device_fault(finding, survey)


def _was_evicted(survey: Survey, why: re.Pattern[str]) -> bool:
    """Whether a pod was evicted in these words."""
    return any(
        event.what == "evicted" and why.search(event.detail or event.text) for event in survey.of(SchedulerEvent)
    )


def _used_more_than_granted(finding: Finding, survey: Survey) -> bool:
    return finding.cause is CauseClass.DIED and _was_evicted(survey, _EVICTED_FOR_USAGE)


def _was_out_of_memory(finding: Finding, survey: Survey) -> bool:
    return finding.cause is CauseClass.DIED and any(True for _ in survey.of(OutOfMemory))


def _has_device_fault(finding: Finding, survey: Survey) -> bool:
    """Whether a host of the culprits shows a device fault, which a restart would meet again."""
    hosts = {host_key(host) for host in survey.hosts_of(finding.ranks)}
    return any(
        isinstance(about.event, GpuError) and about.event.weight == "fault" and about.host in hosts
        for about in survey.surveyed(GpuError)
    )


_TABLE: tuple[_Row, ...] = (
    _Row(_class("none"), "unknown", "nothing wrong was found in what was read: there is nothing to restart for"),
    _Row(_class("undetermined"), "unknown", "the cause is not known"),
    _Row(_is_unsure, "unknown", "the finding is not sure enough to act on: confirm it first"),
    _Row(
        _class("hardware"),
        "after-replacing-node",
        "a device reports errors; on the same host it will fail again",
        cordon=True,
    ),
    _Row(_has_failing_link, "after-replacing-node", "the same host's link fails again and again", cordon=True),
    _Row(_has_device_fault, "after-replacing-node", "the host's kernel log shows a device fault", cordon=True),
    _Row(
        _used_more_than_granted,
        "after-fix",
        "a pod was evicted for what it used itself; the same run will use as much again",
    ),
    _Row(
        _was_preempted,
        "now",
        "the scheduler took the node away; the program is not at fault: resume from the last checkpoint",
    ),
    _Row(
        _was_out_of_memory, "after-fix", "a process was killed for want of memory; the same run will need as much again"
    ),
    _Row(_class("raised"), "after-fix", "the program raised an error of its own and would raise it again"),
    _Row(
        lambda finding, survey: finding.family is Family.DISAGREE,
        "after-fix",
        "the ranks issue different calls: the program will do so again at the same point",
    ),
    _Row(_class("died"), "unknown", "why the process ended is not known; a restart may end the same way"),
    _Row(_class("frozen"), "unknown", "what holds the process is not known: look at its host before it is used again"),
    _Row(
        _class("device-stalled"),
        "unknown",
        "one GPU stopped: check that host's kernel log and GPU before it is used again",
    ),
    _Row(_class("network"), "unknown", "a link reported an error once: look at its counters before the next run"),
    _Row(_class("init"), "unknown", "the job did not come up; the same launch will wait for the same rank"),
    _Row(_class("unfinished"), "unknown", "all ranks are in the call and nothing says why it does not end"),
    _Row(
        _class("straggler"), "unknown", "the rank was late, not broken: find what held it up, or it will be late again"
    ),
)


def decide(findings: tuple[Finding, ...], survey: Survey) -> Action:
    """The action for the whole job: the most restrictive row over the verdict and all other findings of some
    certainty.
    """
    if not findings:
        return Action("unknown", "nothing was found")
    sure = [finding for finding in findings[1:] if not _is_unsure(finding, survey)]
    rows = [(_row(finding, survey), finding) for finding in (findings[0], *sure)]
    order = ("after-replacing-node", "after-fix", "unknown", "now")
    row, finding = min(rows, key=lambda pair: order.index(pair[0].restart))
    hosts = sorted({host for each, about in rows if each.cordon for host in _cordoned(about, survey)})
    return Action(
        row.restart, f"{row.why} ({finding.id})" if len(findings) > 1 else row.why, tuple(hosts[:_CORDON_SHOWN])
    )


def _row(finding: Finding, survey: Survey) -> _Row:
    late = "what kept the rank away is not known; a restart may meet it again"
    return next((row for row in _TABLE if row.holds(finding, survey)), _Row(_class(), "unknown", late))


def _cordoned(finding: Finding, survey: Survey) -> tuple[str, ...]:
    """The hosts to take out: those with the faults, else the culprits'."""
    if finding.cause is CauseClass.NETWORK:
        return _link_hosts(finding, survey)
    return survey.hosts_of(finding.ranks)


def _link_hosts(finding: Finding, survey: Survey) -> tuple[str, ...]:
    """Culprit hosts whose own port failed :data:`REPEATED` times or more; a peer's time-out says nothing about one's
    own port.
    """
    own = [
        about for about in survey.surveyed(IbError) if isinstance(about.event, IbError) and about.event.what == "port"
    ]
    own += [
        about
        for about in survey.surveyed(KernelEvent)
        if isinstance(about.event, KernelEvent) and about.event.what == "link-down"
    ]
    counts = Counter(about.host for about in own)
    return tuple(host for host in survey.hosts_of(finding.ranks) if counts[host_key(host)] >= REPEATED)
