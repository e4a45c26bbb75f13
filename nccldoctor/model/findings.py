"""Conclusions with their evidence, and the remedies that fit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nccldoctor.model.causes import CauseClass, Confidence, Family
from nccldoctor.model.inputs import Place
from nccldoctor.model.ranks import Ranks


@dataclass(frozen=True, slots=True)
class Evidence:
    """One statement with its place. ``observer`` names who saw it and by which kind of record
    (``"dump:3"``, ``"log:5"``, ``"stack:5"``, ``"launcher"``, ``"kernel:host"``): only different
    observers count as independent.
    """

    where: Place | None
    quote: str
    says: str
    supports: bool = True
    observer: str = ""


@dataclass(frozen=True, slots=True)
class Stalled:
    """The call that somebody waits in: the root of the chain (see the contract, *Which call*).

    ``since`` and ``until`` are when the first member entered it and when the first of them gave up, None where
    unknown: aware where the input names a zone, year 1900 where it has no year.
    """

    op: str | None
    seq: int | None
    kind: str = "collective"
    group: str | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    dtype: str | None = None
    entered: Ranks = field(default_factory=Ranks)
    missing: Ranks = field(default_factory=Ranks)
    timeout_ms: int | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One step of the chain: these ranks wait for those, in this call."""

    waiting: Ranks
    for_: Ranks
    group: str
    op: str | None
    seq: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One conclusion. It cannot be built without evidence."""

    id: str
    cause: CauseClass
    confidence: Confidence
    headline: str
    evidence: tuple[Evidence, ...]
    ranks: Ranks = field(default_factory=Ranks)
    suspects: Ranks = field(default_factory=Ranks)
    victims: Ranks = field(default_factory=Ranks)
    stalled: Stalled | None = None
    chain: tuple[Link, ...] = ()
    refuted_by: str = ""

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"finding {self.id} ({self.cause}) has no evidence")

    @property
    def family(self) -> Family:
        """The family of its class."""
        return self.cause.family

    @property
    def inside(self) -> Ranks:
        """The ranks known to wait inside the stalled call; empty where the finding names no call."""
        return self.stalled.entered if self.stalled is not None else Ranks()

    @property
    def members(self) -> Ranks:
        """All ranks that take part in the stalled call, and those that should."""
        return self.stalled.entered | self.stalled.missing if self.stalled is not None else Ranks()


@dataclass(frozen=True, slots=True)
class Avoid:
    """Advice against something; ``where`` is the place it was seen in the input, if it was."""

    what: str
    why: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a remedy as it turned out: ``met`` is None where it could not be checked.

    ``says`` is the evidence for it, what to look for, or the input that is missing.
    """

    text: str
    met: bool | None
    says: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class RemedyAdvice:
    """One remedy of the catalogue as it fits this incident. ``origin`` is whose it is: ``built-in``, or the name of a
    site's own catalogue.
    """

    id: str
    title: str
    finding: str
    fit: str
    conditions_met: int
    conditions: int
    confirm: tuple[str, ...]
    fix: tuple[str, ...]
    prevent: tuple[str, ...]
    avoid: tuple[Avoid, ...]
    sources: tuple[str, ...]
    summary: str = ""
    topic: str = ""
    checks: tuple[Condition, ...] = ()
    origin: str = "built-in"


def stalls_of(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings that a verdict about several stalls sums up: each names some of its culprits."""
    parts = parts_of_verdict(findings)
    calls = {(f.stalled.group, f.stalled.kind, f.stalled.seq) if f.stalled is not None else f.id for f in parts}
    return parts if len(calls) == len(parts) else ()  # several ranks that are missing in one call are one stall


def parts_of_verdict(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of the verdict's class that share out its culprits among them; empty where it stands alone."""
    verdict = findings[0]
    if verdict.family in (Family.NONE, Family.UNDETERMINED) or len(verdict.ranks) < 2:
        return ()
    parts = tuple(f for f in findings[1:] if f.cause is verdict.cause and f.ranks and f.ranks < verdict.ranks)
    apart = sum(len(f.ranks) for f in parts) == len(verdict.ranks) == len({r for f in parts for r in f.ranks})
    return parts if apart else ()
