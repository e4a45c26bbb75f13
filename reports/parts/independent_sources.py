"""How many independent sources a finding rests on, and their kinds: one count and one list for all reports."""

from __future__ import annotations

from nccldoctor.model import Family, Finding
from nccldoctor.model.evidence_sources import OF_A_RANK, observers

_KINDS = {
    "dump": "flight recorder",
    "stack": "stacks",
    "log": "logs",
    "launcher": "exit codes",
    "scheduler": "scheduler",
    "kernel": "kernel log",
    "ras": "NCCL RAS",
    "proxy": "NCCL's proxy",
    "inspector": "NCCL Inspector",
    "debug": "debug server",
    "port": "adapter events",
    "file": "logs",
}
"""What a reader calls each kind of observer, in the order in which they are told."""

OTHER = "other files"


def source_names(finding: Finding, *, supports: bool = True) -> tuple[str, ...]:
    """The independent sources on one side: ``rank 4's logs``, ``peers' logs``, ``kernel log``.

    Watchdogs of ranks 0-6 that gave up on ALLREDUCE #18 are one source; with the stack of rank 7 there are two.
    """
    told = [item for item in finding.evidence if item.supports is supports]
    seen = observers(told, finding.ranks, supports=supports)
    order = [*_KINDS]
    known = sorted(seen, key=lambda one: (order.index(kind) if (kind := one.partition(":")[0]) in order else 99, one))
    unnamed = [OTHER] if told and not known else []  # what no observer vouches for proves nothing beside the others
    return (*dict.fromkeys(_source_name(one, finding) for one in known), *unnamed)


def _source_name(observer: str, finding: Finding) -> str:
    kind, _, side = observer.partition(":")
    noun = _KINDS.get(kind, OTHER)
    if kind not in OF_A_RANK:
        return noun
    if side == "culprit":
        return f"rank {min(finding.ranks)}'s {noun}" if len(finding.ranks) == 1 else f"{noun} of these ranks"
    if finding.ranks:
        return f"peers' {noun}"
    return noun


def sources_words(finding: Finding) -> str:
    """``2 independent sources: peers' logs, kernel log``, with what contradicts; "" where nothing is judged."""
    found = source_names(finding)
    if finding.family is Family.UNDETERMINED or not found:
        return ""
    against = len(source_names(finding, supports=False))
    contradicted = f"; {against:,} contradict{'s' if against == 1 else ''}" if against else ""
    counted = "1 source" if len(found) == 1 else f"{len(found)} independent sources"
    return f"{counted}: {', '.join(found)}{contradicted}"
