"""Defines predicates: named questions about one finding, answered from the case.

To add one, write a function in a module of this folder that takes a :class:`Context` first and keyword arguments of
plain types (words, numbers, Literals, tuples of them), and decorate it with :func:`predicate`. Its name in a catalogue
is the function's with ``-`` for ``_``; so are its arguments' (``class_`` is ``class``). The schema of the catalogue
follows from the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from nccldoctor.model import Finding
from nccldoctor.model.ranks import Ranks
from nccldoctor.questions.answers import Answer
from nccldoctor.words.lists import or_list
from nccldoctor.words.names import ranks_phrase

if TYPE_CHECKING:
    from nccldoctor.prescribe.conditions.survey import Survey

Who = Literal["culprit", "suspects", "victims", "culprit-host", "anyone", "named-culprit", "possible-culprit"]
"""Whom a predicate asks about. *culprit* falls back to the suspects, and to lines whose rank is not known; *named-culprit* does not.
*possible-culprit* is a culprit, a rank that is not known, and any rank where nobody is named."""

_UNNAMED = {
    "culprit": "the rank at fault",
    "named-culprit": "the rank at fault",
    "possible-culprit": "the rank at fault",
    "suspects": "a suspect",
    "victims": "a waiting rank",
}
"""Whom a predicate asks about, where the ranks are unknown or many."""

When = Literal["timeout"]
"""What others must precede: the first complaint of any rank (:attr:`Liveness.alarm`), after which everything may be tear-down."""


class OneOf(Struct, frozen=True):
    """Marks a ``str`` argument (``Annotated[str, OneOf(...)]``) that takes only these words."""

    words: tuple[str, ...]


class Context(Struct, frozen=True):
    """One finding, all ``findings``, and the case behind them, surveyed once for all predicates."""

    finding: Finding
    survey: Survey
    findings: tuple[Finding, ...] = ()

    def ranks_of(self, who: Who) -> Ranks:
        """The ranks meant by ``who``; empty where they are not known (*anyone* has no ranks of its own)."""
        finding = self.finding
        of = {
            "victims": finding.victims,
            "suspects": finding.suspects,
            "anyone": Ranks(),
            "named-culprit": finding.ranks,
        }
        return of.get(who, finding.blamed)

    def in_words(self, who: Who) -> str:
        """``who`` in words, with ranks where they are known: ``rank 5``, ``ranks 1,3``, ``a waiting rank``."""
        ranks = self.ranks_of(who)
        if who == "culprit-host":
            hosts = self.survey.hosts_of(ranks)
            return f"host {or_list(hosts[:3])}" if hosts else "the host at fault"
        return ranks_phrase(ranks) if 0 < len(ranks) <= 8 else _UNNAMED.get(who, "any rank")


Function = Callable[..., Answer]


class Predicate(Struct, frozen=True):
    """A registered predicate. ``weight`` (0 to 1) says how much it proves when it is met.

    A class of finding fits many causes (0.3), a stack names one (0.85). From :data:`SPECIFIC` on it counts as specific.
    """

    name: str
    function: Function
    weight: float = 0.3

    @property
    def doc(self) -> str:
        """Its docstring's first paragraph."""
        return " ".join((self.function.__doc__ or "").strip().split("\n\n")[0].split())


SPECIFIC = 0.5
"""The weight from which a met condition can carry a *strong* fit."""

PREDICATES: dict[str, Predicate] = {}
"""Every predicate by its name in the catalogue; filled by :func:`predicate`."""


def catalogue_name(python_name: str) -> str:
    """A Python name as a catalogue spells it: ``stack_frame`` is ``stack-frame``, ``class_`` is ``class``."""
    return python_name.rstrip("_").replace("_", "-")


def predicate(weight: float) -> Callable[[Function], Function]:
    """Register a function as a predicate. Raises ValueError where another module has registered its name."""

    def register(function: Function) -> Function:
        name = catalogue_name(function.__name__)
        known = PREDICATES.get(name)
        if known is not None and known.function.__module__ != function.__module__:
            raise ValueError(f"{known.function.__module__} has a predicate {name}")
        PREDICATES[name] = Predicate(name, function, weight)
        return function

    return register


def ask(context: Context, name: str, arguments: dict[str, Any]) -> Answer:
    """Answer the predicate ``name`` (a key of :data:`PREDICATES`) with its Python-named arguments."""
    return PREDICATES[name].function(context, **arguments)


def listed(words: Iterable[str], limit: int = 5) -> str:
    """``a, b or c``, cut after ``limit`` where that hides two and more."""
    items = list(words)
    return or_list([*items[:limit], f"{len(items) - limit} more"] if len(items) > limit + 1 else items)
