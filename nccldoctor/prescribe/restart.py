"""Decides whether the job may be restarted as it is: the first row of ``restart.toml`` that fits a finding.

docs/restart.md gives the reasons.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, convert

from nccldoctor.events import (
    ExceptionRaised,
    GpuError,
    IbError,
    KernelEvent,
    NcclWarn,
    Note,
    OutOfMemory,
    ProcessExit,
    SchedulerEvent,
    SocketError,
    StoreError,
)
from nccldoctor.model import Action, CauseClass, Confidence, Finding, SourceKind
from nccldoctor.model.hosts import host_key
from nccldoctor.model.steps import JobState
from nccldoctor.parsers.event_details import was_evicted_for_node, was_evicted_for_usage
from nccldoctor.prescribe.catalogue.words import fill_in_words
from nccldoctor.prescribe.conditions.findings import has_unknown_end
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.prescribe.conditions.work import work_of
from nccldoctor.prescribe.culprit_frame import culprit_frame, frame_of_rank
from nccldoctor.prescribe.job_end import job_end
from nccldoctor.prescribe.values import fault_hosts, placeholder_values
from nccldoctor.questions.process import at_prompt, stopped

REPEATED = 2
"""Link faults of one host from which the host, and not a passing flap, is taken for the cause."""
TRANSIENT = ("preempted", "node-failure", "requeue", "time-limit")
SCARCE = ("disk-full", "shm-exhausted", "fd-exhausted", "process-limit")
STANDING = (CauseClass.NOT_ARRIVED, CauseClass.FROZEN, CauseClass.UNFINISHED, CauseClass.INIT)
"""Classes of hangs whose cause only a look at the processes tells."""
_CORDON_SHOWN = 16
_UNSURE = (Confidence.LOW, Confidence.CANNOT_TELL)


class _Row(Struct, frozen=True, rename={"class_": "class"}):
    """One row: it fits where its class, its family and its sign do, those that it has."""

    restart: str
    why: str
    class_: tuple[str, ...] = ()
    family: str = ""
    sign: str = ""
    cordon: bool = False

    def is_for(self, finding: Finding, survey: Survey) -> bool:
        """True where the row fits a finding."""
        if (self.family and finding.family != self.family) or (self.class_ and finding.cause not in self.class_):
            return False
        return not self.sign or _SIGNS[self.sign](finding, survey)


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


ROWS = convert(_TABLE["row"], tuple[_Row, ...])
"""The rows of ``restart.toml`` in their order."""


def decide(findings: tuple[Finding, ...], survey: Survey) -> Action:
    """The action for the whole job: the most restrictive row of the verdict and of all other sure findings."""
    if not findings:
        return Action("unknown", "Nothing was found.")
    sure = [finding for finding in findings[1:] if finding.confidence not in _UNSURE]
    rows = [(next(row for row in ROWS if row.is_for(each, survey)), each) for each in (findings[0], *sure)]
    order = ("after-replacing-node", "after-fix", "unknown", "now")
    row, finding = min(rows, key=lambda pair: order.index(pair[0].restart))
    named = [(host, about) for each, about in rows if each.cordon for host in _cordoned(about, survey)]
    hosts = sorted({host for host, _ in named})
    machines = [host for host in hosts if not survey.case.pods.is_pod(host)]
    pods = [host for host in hosts if survey.case.pods.is_pod(host)]
    why = fill_in_words(row.why, placeholder_values(finding, survey))
    certain = tuple(sorted({host for host, about in named if about.confidence is Confidence.HIGH}))
    return Action(row.restart, why, tuple(machines[:_CORDON_SHOWN]), pods=tuple(pods[:_CORDON_SHOWN]), sure=certain)


def _cordoned(finding: Finding, survey: Survey) -> tuple[str, ...]:
    """The hosts to take out: those with the faults, else the culprits'."""
    if finding.cause is CauseClass.NETWORK:
        return _link_hosts(finding, survey)
    return fault_hosts(finding, survey) or survey.hosts_of(finding.ranks)


def _link_hosts(finding: Finding, survey: Survey) -> tuple[str, ...]:
    """Culprit hosts whose own port failed :data:`REPEATED` times or more. A peer's time-out says nothing about one's own port."""
    ports = [error for error in survey.events_of(IbError) if error.what in ("port", "adapter")]
    links = [event for event in survey.events_of(KernelEvent) if event.what == "link-down"]
    counts = Counter(map(survey.host_of, (*ports, *links)))
    return tuple(host for host in survey.hosts_of(finding.ranks) if counts[host_key(host)] >= REPEATED)


def _has_hung_board(finding: Finding, survey: Survey) -> bool:
    """True where boards only stopped answering, and no line shows an error of one."""
    weights = {event.weight for event in survey.events_of(GpuError)}
    return finding.cause is CauseClass.HARDWARE and "hang" in weights and "fault" not in weights


def _was_evicted(finding: Finding, survey: Survey, why: Callable[[str], bool] = lambda _: True) -> bool:
    """True where a pod was evicted in these words."""
    events = survey.events_of(SchedulerEvent)
    was_evicted = any(event.what == "evicted" and why(event.detail or event.text) for event in events)
    return finding.cause is CauseClass.DIED and was_evicted


def _was_out_of_memory(finding: Finding, survey: Survey) -> bool:
    return finding.cause in (CauseClass.DIED, CauseClass.RAISED, CauseClass.INIT) and (
        bool(survey.events_of(OutOfMemory)) or any(e.what == "oom" for e in survey.events_of(SchedulerEvent))
    )


def _was_out_of_resource(finding: Finding, survey: Survey) -> bool:
    """True where a process ended, or could not come up, because something of its host ran out."""
    if finding.cause not in (CauseClass.DIED, CauseClass.RAISED, CauseClass.INIT):
        return False
    is_full = any("no space left" in warn.message.lower() for warn in survey.events_of(NcclWarn))
    return is_full or any(note.what in SCARCE for note in survey.events_of(Note))


def _was_stopped_by_person(finding: Finding, survey: Survey) -> bool:
    ends = (*survey.events_of(ProcessExit), *survey.events_of(ExceptionRaised))
    return finding.cause in (CauseClass.DIED, CauseClass.RAISED) and any(
        event.is_stop_by_person and event.rank in finding.ranks for event in ends if event.rank is not None
    )


def _has_passing_error(finding: Finding, survey: Survey) -> bool:
    """True of an exception about a service outside the job, such as an object store."""
    if finding.cause is not CauseClass.RAISED:
        return False
    own = (e for e in survey.events_of(ExceptionRaised) if e.rank in set(finding.ranks) and e.origin == "own")
    return any(event.type.rpartition(".")[2] in _TABLE["passing"] for event in own)


def _ends_of(finding: Finding, survey: Survey) -> list[ProcessExit]:
    """The recorded exits of the culprits, and those without a rank that the finding cites."""
    cited = {evidence.where for evidence in finding.evidence}
    nameless = (end for end in survey.events_of(ProcessExit) if end.rank is None and end.place in cited)
    return [*nameless, *(end for rank in finding.ranks for end in survey.facts.liveness.activity(rank).exits)]


def _was_lost_with_host(finding: Finding, survey: Survey) -> bool:
    """True where all of two or more ranks of a host are gone, while other hosts are left."""
    case = survey.case
    keys = {rank: host_key(case.pods.place(host)) for rank, host in case.rank_host.items()}
    lost = {keys.get(rank) for rank in finding.ranks}
    on_them = {rank for rank, key in keys.items() if key in lost}
    return len(lost) == 1 and None not in lost and len(on_them) > 1 and on_them <= set(finding.ranks) < set(keys)


def _is_evidence_at_stake(finding: Finding, survey: Survey) -> bool:
    """True of a hang that still stands, without a stack of its culprits, or a dump where nobody is named."""
    if finding.cause not in STANDING or job_end(survey.case, finding).state is not JobState.RUNNING:
        return False
    if finding.ranks:
        return not any(survey.stacks.get(rank) for rank in finding.ranks) and not _is_stopped(finding, survey)
    return SourceKind.RECORDER not in survey.source_kinds


def _is_unheard(finding: Finding, survey: Survey) -> bool:
    """True where culprits are named, and neither a line nor a stack of any of them was read."""
    wrote = any(event.is_sign_of_life and event.rank in finding.ranks for event in survey.case.events)
    logs = any(s.kind is SourceKind.LOG and s.rank in finding.ranks and s.size > 0 for s in survey.case.sources)
    return bool(finding.ranks) and not (wrote or logs or any(survey.stacks.get(rank) for rank in finding.ranks))


def _is_stopped(finding: Finding, survey: Survey) -> bool:
    return stopped(survey.facts, finding.ranks).holds is True


def _has_user_frame(finding: Finding, survey: Survey) -> bool:
    """True where a culprit stands in a line of the user's code in which no waiting rank stands."""
    frame = culprit_frame(finding, survey)
    return frame is not None and all(frame_of_rank(rank, survey) != frame for rank in finding.victims)


_SIGNS: dict[str, Callable[[Finding, Survey], bool]] = {
    "unsure": lambda finding, _: finding.confidence in _UNSURE,
    "unsure-in-user-code": lambda finding, survey: finding.confidence in _UNSURE and _has_user_frame(finding, survey),
    "hardware-fault": lambda finding, survey: (
        finding.cause is CauseClass.HARDWARE and not _has_hung_board(finding, survey)
    ),
    "hung-board": _has_hung_board,
    "failing-link": lambda finding, survey: finding.cause is CauseClass.NETWORK and bool(_link_hosts(finding, survey)),
    "device-fault": lambda finding, survey: any(  # a restart there would meet it again
        e.weight == "fault" and survey.host_of(e) in set(map(host_key, survey.hosts_of(finding.ranks)))
        for e in survey.events_of(GpuError)
    ),
    "never-connected": lambda _, survey: any(error.what == "setup" for error in survey.events_of(IbError)),
    "evicted-for-usage": lambda finding, survey: _was_evicted(finding, survey, was_evicted_for_usage),
    "taken-away": lambda finding, survey: (
        _was_evicted(finding, survey, was_evicted_for_node)
        or (finding.cause is CauseClass.DIED and any(e.what in TRANSIENT for e in survey.events_of(SchedulerEvent)))
    ),
    "evicted": _was_evicted,
    "out-of-memory": _was_out_of_memory,
    "out-of-resource": _was_out_of_resource,
    "stopped-by-person": _was_stopped_by_person,
    "passing-error": _has_passing_error,
    "lost-host": _was_lost_with_host,
    "killed-unseen": lambda finding, survey: (
        SourceKind.KERNEL_LOG not in survey.source_kinds
        and not survey.events_of(SchedulerEvent)
        and any(end.signal == "SIGKILL" for end in _ends_of(finding, survey))
    ),
    "killed": lambda finding, survey: any(end.signal in ("SIGKILL", "SIGTERM") for end in _ends_of(finding, survey)),
    "evidence-at-stake": _is_evidence_at_stake,
    "unheard": _is_unheard,
    "stack-read": lambda finding, survey: survey.has_stacks_of(finding.ranks),
    "end-unknown": lambda finding, survey: has_unknown_end(finding, survey) and work_of(finding, survey) is None,
    "bus-error": lambda finding, survey: any(end.signal == "SIGBUS" for end in _ends_of(finding, survey)),
    "crashed": lambda finding, survey: any(end.signal is not None for end in _ends_of(finding, survey)),
    "chose-to-exit": lambda finding, survey: any(
        end.signal is None and end.exitcode is not None for end in _ends_of(finding, survey)
    ),
    "stopped": _is_stopped,
    "host-known": lambda finding, survey: bool(survey.hosts_of(finding.ranks)),
    "other-hosts": lambda finding, survey: bool(survey.hosts_of(finding.ranks)) and not survey.is_single_host(),
    "user-frame": _has_user_frame,
    "unreachable": lambda _, survey: (
        any(not e.echo or e.how == "setup" for e in survey.events_of(SocketError))
        or any(e.address and e.operation.endswith(("connect", "resolve", "-use")) for e in survey.events_of(StoreError))
    ),
    "slow-work": lambda finding, survey: (done := work_of(finding, survey)) is not None and not done.is_guess,
    "waits-for-person": lambda finding, survey: at_prompt(survey.facts, finding.blamed).holds is True,
}
