"""Batches, samples and steps that a script left out, in its own words.

Example: ``skipping batch 6: Target 2 is out of bounds``. The verb stands before or behind: ``batch of step 30 skipped:
KeyError('caption')``. Behind, and for any verb but *skip*, the reason has to name an exception: *eval step skipped: no data* and
*12 samples dropped* are no errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_letters

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.training.heartbeat import rank_in
from nccldoctor.patterns import lazy

_WORK = r"(?:mini-?|micro-?)?(?:batch|sample|example|record|item|row|iteration|step)\b"
_SKIPS = r"[Ss]kip(?:ping|ped)"
_LEAVES_OUT = rf"(?:{_SKIPS}|[Dd]ropp(?:ing|ed)|[Ii]gnor(?:ing|ed)|[Dd]iscard(?:ing|ed))"
_WHICH = r"(?:this |the |a |one |bad |broken |corrupt(?:ed)? ){0,2}"
_WHY = r"(?:: ?|\bafter |\bbecause |\bdue to |\bon )"
_EXCEPTION = r"(?:[A-Za-z_]\w{0,60}(?:Error|Exception|Interrupt|Expired)|Exception|StopIteration)\b"
_BEFORE = lazy(rf"\b{_SKIPS} {_WHICH}{_WORK}.{{0,80}}?{_WHY}\S.{{0,200}}")
_OTHER_VERB = lazy(rf"\b{_LEAVES_OUT} {_WHICH}{_WORK}.{{0,80}}?[\s(:]{_EXCEPTION}.{{0,200}}")
_BEHIND = lazy(
    rf"(?i:\b{_WORK})[\w #=:/,()\[\]-]{{0,60}}?\b{_LEAVES_OUT}\b(?!\s{{0,2}}=).{{0,80}}?[\s(:]{_EXCEPTION}.{{0,200}}"
)
_LOSS, _NO_NUMBER = r"(?:loss|gradients?|grad[_ ]norm)", r"(?:not finite|non-?finite|nan|inf)"
_NOT_FINITE = lazy(
    rf"(?i:\b(?:{_LOSS}\b[^\n]{{0,60}}?\b{_NO_NUMBER}|{_NO_NUMBER} {_LOSS})\b)[^\n]{{0,80}}?"
    rf"\b(?:{_LEAVES_OUT} {_WHICH}(?i:{_WORK})|(?i:{_WORK})[\w #=:/,()\[\]-]{{0,40}}?\b{_LEAVES_OUT}\b)"
)
_OF_ALL_RANKS = lazy(
    r"[Tt]imed? ?out|[Cc]onnection|[Gg]loo|NCCL|c10d|[Pp]rocess ?[Gg]roup|reset by peer|pair closure|[Oo]verflow|loss.scale|resum|already"
)
_LONGEST = 4_000


_FORMS = (_BEFORE, _OTHER_VERB, _BEHIND, _NOT_FINITE)


def left_out(body: str) -> str:
    """The sentence that says which batch, sample or step was left out, and why; "" in any other line."""
    hit = next((hit for form in _FORMS if (hit := form.search(body[:_LONGEST]))), None)
    return hit[0].strip() if hit else ""


def is_left_out_by_error(body: str) -> bool:
    """True of a line about a step that an exception ended, whatever raised it: that step is not finished."""
    return any(form.search(body[:_LONGEST]) for form in (_OTHER_VERB, _BEHIND))


@reads(
    # Not "kipped iterations": Megatron counts them on each of its lines.
    *(f"kipped {sign}" for sign in ascii_letters.replace("i", "") + "123456789([-'\"|— "),
    *(f"kipped i{rest}" for rest in ("f", "m", "n", "s", "t ", "ts", "tem", "terator")),
    *(f"kipped iteration{sign}" for sign in " :=,("),
    *("not finite", "on-finite", "onfinite", "is nan", "is NaN", "nan loss", "NaN loss"),
    *("kipping ", "kipped:", "ropping ", "ropped ", "ropped:"),
    *("gnoring ", "gnored ", "gnored:", "iscarding ", "iscarded ", "iscarded:"),
    needs=_FORMS,
)
def skipped_batches(line: Line) -> Iterable[Event]:
    """*note*: ``batch-skipped`` where an error made one rank leave out work.

    A batch that is left out because a collective failed, a loss overflowed, or a run resumes is none that one rank left out by itself.
    """
    said = left_out(line.body)
    if not said or _OF_ALL_RANKS.search(said):
        return
    rank = line.mark.rank if line.mark.rank is not None else rank_in(line.body)
    yield Note(**common(line, rank=rank), what="batch-skipped", detail=said[:300])
