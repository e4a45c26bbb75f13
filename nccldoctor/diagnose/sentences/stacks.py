"""Sentences about where ranks are by their stacks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.diagnose.sentences.headline import Basis, Headline
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import and_list
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sentences import capitalized


class Tense(Struct, frozen=True):
    """The verbs of a headline, each for one rank and for several."""

    have: tuple[str, str]
    be: tuple[str, str]
    wait: tuple[str, str]


NOW = Tense(("has", "have"), ("it is", "they are"), ("waits", "wait"))
THEN = Tense(("had", "had"), ("it was", "they were"), ("waited", "waited"))


def outside(
    who: str, tense: Tense, *, many: bool, doing: str, moved: bool, waiting: str, are_many: bool, wait: str
) -> Headline:
    """Rank 3 has probably not reached all_reduce, where ranks 0-2 wait: it is in next_batch (data.py:34)."""
    detail = f"{tense.be[many]} {doing}" + (", and it moved between the snapshots" if moved and not many else "")
    reached = f"not reached {wait}, where {waiting} {tense.wait[are_many]}"
    return Headline(who, reached, detail, be=tense.have[many], basis=Basis.RANKS)


def holds_up(
    who: str, tense: Tense, *, many: bool, doing: str, waiting: str, are_many: bool, transfer: str
) -> Headline:
    """Rank 2 has probably held up ranks 0-1, 3, which wait in recv: it is in forward (model.py:17).

    The two ends of a transfer stand at different lines, so that no one call is to be reached.
    """
    held = f"held up {waiting}, which {tense.wait[are_many]} in {transfer}"
    return Headline(who, held, f"{tense.be[many]} {doing}", be=tense.have[many], basis=Basis.RANKS)


def gone(who: str, *, many: bool, state: str, waiting: str, are_many: bool, wait: str) -> Headline:
    """Rank 3 is stopped, and ranks 0-2 wait in all_reduce (sync_gradients, finetune.py:73)."""
    waits = "wait" if are_many else "waits"
    return Headline(who, f"{state}, and {waiting} {waits} in {wait}", be="are" if many else "is", hedge="")


def left_loop(who: str, tense: Tense, *, many: bool, waiting: str, are_many: bool, wait: str) -> Headline:
    """Rank 3 has left the training loop, and ranks 0-2 wait in all_reduce."""
    left = f"left the training loop, and {waiting} {tense.wait[are_many]} in {wait}"
    return Headline(who, left, be=tense.have[many], hedge="")


def two_calls(few: str, few_wait: str, most: str, most_wait: str) -> Headline:
    """Deadlock: ranks 0-1 wait in new_group (setup, train.py:8), ranks 2-5 in all_reduce (step, train.py:30)."""
    return Headline("", "deadlock", f"{few} in {few_wait}, {most} in {most_wait}", hedge="probable")


def no_stack(who: str, *, asked: bool, waiting: str, are_many: bool, wait: str) -> Headline:
    """Rank 1 left no stack, and ranks 0, 2-3 wait in all_gather_single (forward, par_train.py:43)."""
    lacks = "did not answer the debug server" if asked else "left no stack"
    return Headline(who, f"{lacks}, and {waiting} {'wait' if are_many else 'waits'} in {wait}", hedge="")


def all_wait(who: str, wait: str) -> Headline:
    """Ranks 0-3 all wait in all_reduce (sync, train.py:79), and no rank is elsewhere."""
    return Headline(who, f"all wait in {wait}, and no stack shows a rank elsewhere", hedge="")


def still_running(writers: Ranks, *, has_steps: bool) -> Headline:
    """The job is running: rank 0 logged steps after the first snapshot."""
    if not has_steps:
        return Headline("the job", "running", "every wait of the first snapshot had ended in the last", be="is")
    by = ranks_phrase(writers) if writers else "it"
    return Headline("the job", "running", f"{by} logged steps after the first snapshot", be="is")


STEP_AFTER = "This step follows the first snapshot."


def seen(who: str, doing: str) -> str:
    """What one stack shows."""
    return f"{capitalized(who)} was {doing}."


def worker_busy(pid: int | None, place: str) -> str:
    """What the stack of a data loader's worker shows."""
    return f"Worker process {pid} was in {place}."


def its_worker(pid: int, place: str) -> str:
    """Where the worker is that a rank waits for: ``whose worker 508 is in read_shard (data.py:31)``."""
    return f"whose worker {pid} is in {place}"


def only_place(who: str, doing: str, other_thread: str, *, are_many: bool, is_alone: bool) -> str:
    """A headline where stacks show where a process is, or several in one call, and nothing shows more."""
    thread = f", and one of its threads {other_thread}" if other_thread else ""
    alone = " The other ranks left no stack." if is_alone else ""
    be, they = ("are", "they're") if are_many else ("is", "it's")
    return f"{capitalized(who)} {be} {doing}{thread}, but we can't say if {they} moving.{alone}"


def several_places(places: Sequence[str], more: int) -> str:
    """A headline where stacks show ranks at several places, and nothing shows which of them is late."""
    rest = [f"{more} more {'are' if more > 1 else 'is'} elsewhere"] if more else []
    return f"{capitalized(and_list([*places, *rest]))}. The stacks don't show which of them is late."


NO_STACKS = "Not enough data: stacks show where a process is, but not whether it's moving."

LATER_LOOK = "a step was logged after the snapshots, or a later snapshot showed other ranks outside the call"
OTHERS_OUTSIDE = "a later snapshot showed other ranks outside the call"
RUNS_LATER = "a later snapshot showed the process running"
STACK_INSIDE = "a stack of that rank showed it inside the call"
ONE_ELSEWHERE = "a rank was elsewhere, or a step was logged after the snapshots"
STILL_WAITING = "a later snapshot showed the same ranks still waiting"
