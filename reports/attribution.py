"""The verdict as data for a scheduler (``schema/attribution.json``): what to leave out of the next run, and whether one helps.

Nothing is left out unless its finding has high confidence in ranks and class: docs/restart.md says why.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Diagnosis, Family
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import json_document, json_names
from nccldoctor.version import __version__

Outlook = Literal["may-help", "same-fault-returns", "unknown"]

_OUTLOOKS: dict[str, Outlook] = {
    "now": "may-help",
    "after-fix": "same-fault-returns",
    "after-replacing-node": "same-fault-returns",
    "unknown": "unknown",
}
_OF_DEVICES = (CauseClass.HARDWARE, CauseClass.DEVICE_STALLED)


class FaultyDevice(Struct, frozen=True):
    """A device at fault: that of a rank, on its node."""

    node: str | None
    device: str
    rank: int


class Exclusion(Struct, frozen=True):
    """What the next run is to leave out."""

    nodes: tuple[str, ...]
    pods: tuple[str, ...]
    devices: tuple[FaultyDevice, ...]


class Retry(Struct, frozen=True):
    """What another run may bring: ``unchanged``, or ``without_excluded``, and why."""

    unchanged: Outlook
    without_excluded: Outlook
    why: str


class Attribution(Struct, frozen=True):
    """The whole document; ``withheld`` are nodes and pods under suspicion that are not sure enough to leave out."""

    family: Family
    class_: CauseClass
    confidence: ConfidenceIn
    headline: str
    job_id: str | None
    ranks: Ranks
    suspects: Ranks
    exclude: Exclusion
    withheld: tuple[str, ...]
    retry: Retry
    evidence: tuple[json_names.NumberedEvidence, ...]


def to_json(diagnosis: Diagnosis) -> str:
    """The document that ``analyze --format attribution`` prints."""
    head = {"schema_version": json_document.SCHEMA_VERSION, "tool": {"name": "nccldoctor", "version": __version__}}
    return json_document.written(head | json_names.row(attribution_of(diagnosis), Attribution))


def attribution_of(diagnosis: Diagnosis) -> Attribution:
    """Who is at fault, what to leave out, and what a retry may bring."""
    verdict, action = diagnosis.verdict, diagnosis.action
    nodes, pods = (tuple(host for host in named if host in action.sure) for named in (action.cordon, action.pods))
    is_sure = verdict.confidence in (Confidence.HIGH, Confidence.MEDIUM)
    unchanged = _OUTLOOKS[action.restart] if is_sure else "unknown"
    has_device = verdict.cause in _OF_DEVICES and verdict.confidence is Confidence.HIGH
    at_fault = [state for state in diagnosis.ranks if has_device and state.rank in verdict.ranks]
    devices = tuple(FaultyDevice(one.host, one.device, one.rank) for one in at_fault if one.device)
    can_help = action.restart == "after-replacing-node" and bool(nodes or pods)
    return Attribution(
        family=verdict.family,
        class_=verdict.cause,
        confidence=verdict.confidence_in,
        headline=verdict.headline,
        job_id=diagnosis.job.id,
        ranks=verdict.ranks,
        suspects=verdict.suspects,
        exclude=Exclusion(nodes, pods, devices),
        withheld=tuple(host for host in (*action.cordon, *action.pods) if host not in action.sure),
        retry=Retry(unchanged, "may-help" if can_help else unchanged, action.why),
        evidence=json_names.with_evidence_ids(verdict.evidence),
    )
