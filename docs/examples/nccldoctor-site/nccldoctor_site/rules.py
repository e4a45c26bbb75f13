"""A rank waits for a shard that the cache has not loaded yet.

What it means: the rank is alive and will go on as soon as the cache answers.
How we know: the last line of the cache about this rank says that it waits.
What would refute it: a stack of the rank outside its data loader.
"""

from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.events import Note
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks


@rule(CauseClass.STRAGGLER, refuted_by="a stack showed that rank outside its data loader", before=CauseClass.INIT)
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The absent ranks that the cache keeps waiting, or None."""
    if stall.kind is not StallKind.ABSENT:
        return None
    waits = {note.rank: note for note in facts.case.of(Note) if note.what == "shard-cache" and note.rank in stall.ranks}
    if not waits:
        return None
    return Hypothesis(
        headline="; ".join(f"Rank {rank} waits for {note.detail} of the shard cache" for rank, note in waits.items()),
        citations=(
            *(Line(note, "The shard cache kept this rank waiting.") for note in waits.values()),
            Waiting(stall.call),
        ),
        doubts=(Doubt("Only the shard cache says so.", Confidence.MEDIUM, Confidence.MEDIUM),),
        ranks=Ranks(rank for rank in waits if rank is not None),
        call=stall.call,
    )
