"""Conclusions with their evidence, and the remedies that fit them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from nccldoctor.model.causes import CauseClass, Confidence, Family
from nccldoctor.model.inputs import Place
from nccldoctor.model.ranks import Ranks


class Evidence(Struct, frozen=True):
    """One statement with its place. ``observer`` names who saw it and by which kind of record
    (``"dump:3"``, ``"log:5"``, ``"stack:5"``, ``"launcher"``, ``"kernel:host"``): only different
    observers count as independent.
    """

    where: Place | None
    quote: str
    says: str
    supports: bool = True
    observer: str = ""

    def __repr__(self) -> str:
        return f"<Evidence {self.where or 'of no place'}: {self.says[:100]}>"


class Stalled(Struct, frozen=True):
    """The call that somebody waits in, at the root of the chain.

    ``missing`` did not enter it: they are shown outside, or named as those who did not. Nothing shows of ``unseen`` whether they did.

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
    entered: Ranks = Ranks()
    missing: Ranks = Ranks()
    unseen: Ranks = Ranks()
    timeout_ms: int | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def members(self) -> Ranks:
        """All known members of its group."""
        return self.entered | self.missing | self.unseen


class Link(Struct, frozen=True):
    """One step of the chain: these ranks wait for those, in this call."""

    waiting: Ranks
    for_: Ranks
    group: str
    op: str | None
    seq: int | None


class ConfidenceIn(Struct, frozen=True):
    """The two confidences of a finding: in the ranks that it names, and in its class."""

    ranks: Confidence
    cause: Confidence

    @classmethod
    def same(cls, level: Confidence) -> ConfidenceIn:
        """One level for both."""
        return cls(level, level)

    @property
    def lower(self) -> Confidence:
        """The lower of the two: the confidence of the finding as a whole."""
        return Confidence.lowest((self.ranks, self.cause))


class Doubt(Struct, frozen=True):
    """A reason why a conclusion is not surer, with the most that it leaves of each confidence.

    Example: rank 7 is proven outside ALLREDUCE #18, but no stack, log or exit says what became of it. The doubt *nothing shows whether
    rank 7 was alive* leaves the ranks at high and the class at medium. ``key`` is its row among the doubts of the built-in rules.
    """

    says: str
    ranks: Confidence = Confidence.HIGH
    cause: Confidence = Confidence.HIGH
    key: str = ""


class Reason(Struct, frozen=True):
    """One observation that speaks for a finding (positive weight) or against it (negative).

    ``value`` is what was seen, *unknown* where no source would show it; the weight is 0 then. ``evidence`` is the number of the piece
    of evidence that shows it, counted from 1: None where none is quoted.
    """

    observation: str
    value: str
    observer: str
    weight: float
    evidence: int | None = None


class RunnerUp(Struct, frozen=True):
    """The best other explanation, and what would separate it from the finding."""

    cause: CauseClass
    ranks: Ranks
    separated_by: str


class Printed(Struct, frozen=True):
    """A line that a rank printed, without its prefix."""

    where: Place
    quote: str


class OnlyHere(Struct, frozen=True):
    """A line before the wait that one rank printed and none of its peers, of the ranks ``compared``.

    ``token`` is what deviates in a line that peers print too, "" where none has such a line; ``peers`` are lines of theirs to compare.
    """

    rank: int
    where: Place
    quote: str
    token: str
    peers: tuple[Printed, ...]
    compared: Ranks

    @property
    def word(self) -> str:
        """What deviates, with the name that it has in the line: ``loss=nan``."""
        return (
            next((word.strip(",;") for word in self.quote.split() if self.token in word), self.token)
            if self.token
            else ""
        )


class LastActivity(Struct, frozen=True):
    """The last thing that anybody printed before the wait began; ``is_step`` where that is a step of the training."""

    text: str
    rank: int | None
    time: datetime | None
    where: Place
    is_step: bool = False


class Finding(Struct, frozen=True):
    """One conclusion. It cannot be built without evidence.

    ``if_unsure`` is its headline where the ranks are not sure, ``if_class_unsure`` where only the class is not.
    """

    id: str
    cause: CauseClass
    confidence_in: ConfidenceIn
    headline: str
    evidence: tuple[Evidence, ...]
    ranks: Ranks = Ranks()
    suspects: Ranks = Ranks()
    victims: Ranks = Ranks()
    stalled: Stalled | None = None
    chain: tuple[Link, ...] = ()
    refuted_by: str = ""
    why: tuple[Reason, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    runner_up: RunnerUp | None = None
    if_unsure: str = ""
    if_class_unsure: str = ""
    last_activity: LastActivity | None = None
    only_here: tuple[OnlyHere, ...] = ()

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"finding {self.id} ({self.cause}) has no evidence")

    def __repr__(self) -> str:
        return f"<Finding {self.id} {self.cause.value}, confidence {self.confidence.value}: {self.headline[:160]}>"

    @property
    def confidence(self) -> Confidence:
        """The lower of its confidence in the ranks and in the class."""
        return self.confidence_in.lower

    @property
    def blamed(self) -> Ranks:
        """Its ranks; without these, those that it suspects."""
        return self.ranks or self.suspects

    @property
    def family(self) -> Family:
        """The family of its class."""
        return self.cause.family

    @property
    def awaited(self) -> Stalled | None:
        """The call that the victims wait in and the culprits miss: the stalled one, or one without a number.

        Before the first call that is init. Gloo names no call: it prints *Timed out waiting 8000ms* on ranks 0-6, and rank 7 nothing.
        """
        is_missed = self.family in (Family.ABSENT, Family.SETUP) and bool(self.ranks and self.victims)
        if self.stalled is not None or not is_missed:
            return self.stalled
        op = "init" if self.family is Family.SETUP else None
        return Stalled(op, None, entered=self.victims, missing=self.ranks)

    @property
    def inside(self) -> Ranks:
        """The ranks known to wait inside the stalled call; empty where the finding names no call."""
        return self.stalled.entered if self.stalled is not None else Ranks()

    @property
    def members(self) -> Ranks:
        """All ranks that take part in the stalled call, and those that should."""
        return self.stalled.members if self.stalled is not None else Ranks()


class Avoid(Struct, frozen=True):
    """Advice against something; ``where`` is the place it was seen in the input, if it was."""

    what: str
    why: str
    where: str | None = None


class Condition(Struct, frozen=True):
    """One condition of a remedy as it turned out: ``met`` is None where it could not be checked.

    ``says`` is the evidence for it, what to look for, or the input that is missing.
    """

    text: str
    met: bool | None
    says: str
    where: str | None = None


class RemedyAdvice(Struct, frozen=True):
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

    def __repr__(self) -> str:
        return f"<RemedyAdvice {self.id}, {self.fit} fit: {self.title}>"


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
