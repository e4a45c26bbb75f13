"""Sentences about ranks that made different calls from their peers, or the same ones in a different order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest

from msgspec.structs import replace

from nccldoctor.align.divergence.departures import Way
from nccldoctor.diagnose.sentences.headline import Headline, whole
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import and_list
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.numbers import plural

Side = tuple[Ranks, str]
"""Ranks that agree, and the value that they share."""

SIDES = 4
"""Sides of a mismatch that a headline names."""


# --- one call that differs -------------------------------------------------------------------------------------------


def op_mismatch(number: str, sides: Sequence[Side]) -> Headline:
    """``Operation mismatch at #4188: rank 3 called BROADCAST, ranks 0-2 called ALLREDUCE.``"""
    return Headline(f"operation mismatch at {number}", "", _each_side(sides, "called"), hedge="")


def size_mismatch(
    call: str, sides: Sequence[tuple[Ranks, int]], did: str = "sent", frames: Sequence[str] = ()
) -> Headline:
    """``Size mismatch in ALLREDUCE #7: rank 3 sent 512 elements, ranks 0-2 sent 1,024.``

    ``frames`` are the places of the sides, where they differ: ``rank 3 sent 1 element in evaluate (train.py:21)``.
    """
    values = [plural(count, "element") if n == 0 else f"{count:,}" for n, (_, count) in enumerate(sides)]
    told = [value + (f" in {frame}" if frame else "") for value, frame in zip_longest(values, frames, fillvalue="")]
    words = _each_side([(ranks, value) for (ranks, _), value in zip(sides, told, strict=True)], did)
    return Headline(f"size mismatch in {call}", "", words, hedge="")


def dtype_mismatch(call: str, sides: Sequence[Side]) -> Headline:
    """``Dtype mismatch in ALLREDUCE #7: rank 3 sent float16, ranks 0-2 sent float32.``"""
    return Headline(f"dtype mismatch in {call}", "", _each_side(sides, "sent"), hedge="")


def shape_mismatch(call: str, sides: Sequence[Side]) -> Headline:
    """``Size mismatch in ALLREDUCE #7: rank 3 sent [3, 4], ranks 0-2 sent [3, 5].``"""
    return Headline(f"size mismatch in {call}", "", _each_side(sides, "sent"), hedge="")


def _each_side(sides: Sequence[Side], did: str) -> str:
    told = [f"{ranks_phrase(ranks)} {did} {value}" for ranks, value in sides[:SIDES]]
    more = sum(len(ranks) for ranks, _ in sides[SIDES:])
    return ", ".join([*told, *([f"{plural(more, 'more rank')} differed too"] if more else [])])


def mismatch_in_line(aspect: str, call: str, odd: Ranks, ends: tuple[str, str]) -> Headline:
    """``Size mismatch in ALLREDUCE #7 on rank 3: 512 bytes against 1024 bytes.``"""
    what = f"{aspect} mismatch" if aspect else "mismatch"
    left, right = ends
    where = (f" in {call}" if call else "") + (f" on {ranks_phrase(odd)}" if odd else "")
    return Headline(f"{what}{where}", "", f"{left} against {right or 'a call that the log does not show'}", hedge="")


def out_of_step(odd: Ranks, ends: tuple[str, str]) -> Headline:
    """``Rank 3 is at a different call from its peers: ALLREDUCE #7 against ALLREDUCE #8.``"""
    left, right = ends
    is_are = verb(odd, "is at a different call from its peers", "are at a different call from their peers")
    who = f"{ranks_phrase(odd)} {is_are}" if odd else "ranks of one group are at different calls"
    return Headline(who, "", f"{left} against {right or 'a call that the log does not show'}", hedge="")


def found_by_analyzer(seq: int | None) -> Headline:
    """``PyTorch's analyzer found ranks that differ in #1106.``"""
    return whole(f"PyTorch's analyzer found ranks that differ {f'in #{seq}' if seq is not None else 'in a call'}")


def different_size_without_dump(who: str, peers: int) -> Headline:
    """``Rank 3 probably sent a different size: the other 7 ranks agree with each other.``"""
    return Headline(who, "sent a different size", f"the other {plural(peers, 'rank')} agree with each other")


def at_places(headline: Headline | str, places: Sequence[str]) -> Headline:
    """The headline, and where in a framework the ranks were: ``…; rank 3 was in evaluate of the Trainer.``"""
    found = whole(headline.removesuffix(".")) if isinstance(headline, str) else headline
    where = and_list(places)
    if found.detail:
        return replace(found, detail=f"{found.detail}; {where}")
    return replace(found, did=f"{found.did}; {where}") if found.did else replace(found, who=f"{found.who}; {where}")


def place_in_hook(rank: int, hook: str) -> str:
    """``rank 3 was in evaluate of the Trainer``: a part of a headline."""
    return f"rank {rank} was in {hook}"


def apart_in_program(odd: Ranks, here: str, there: str) -> Headline:
    """``Rank 7 waited at train.py:52 while all its peers waited at train.py:40.``"""
    peers = verb(odd, "its", "their")
    return whole(f"{ranks_phrase(odd)} waited at {here} while all {peers} peers waited at {there}")


def different_lines(sides: Sequence[Side]) -> Headline:
    """``Ranks made different calls at the same time: rank 0 at main (train.py:38) and rank 2 at evaluate (train.py:21).``"""
    places = and_list([f"{ranks_phrase(ranks)} at {frame}" for ranks, frame in sides[:SIDES]])
    return Headline("ranks", "made different calls at the same time", places)


def one_line_from_places(sides: Sequence[Side]) -> Headline:
    """``Size mismatch: rank 3 made the call from step (train.py:241), ranks 0-2 from step (train.py:243).``"""
    (few, theirs), *rest = sides[:SIDES]
    others = [f"{ranks_phrase(ranks)} from {place}" for ranks, place in rest]
    return Headline(
        "size mismatch", "", ", ".join([f"{ranks_phrase(few)} made the call from {theirs}", *others]), hedge=""
    )


def sent(rank: int, value: str, call: str, did: str = "sent") -> str:
    """A claim: ``Rank 3 sent float16 in ALLREDUCE #7.``"""
    return f"Rank {rank} {did} {value} in {call}."


def called(rank: int, call: str) -> str:
    """A claim: ``Rank 3 called BROADCAST #7.``"""
    return f"Rank {rank} called {call}."


def called_like_peers(rank: int, call: str) -> str:
    """A claim about a rank that agrees with every other rank that left a dump."""
    return f"Rank {rank} called {call} like every other rank with a dump."


def timed_out_with(rank: int | None, call: str, elements: int | None) -> str:
    """A claim: ``Rank 3 timed out in ALLREDUCE #7 with 1,024 elements.``"""
    size = f" with {plural(elements, 'element')}" if elements is not None else ""
    return f"{_rank(rank)} timed out in {call}{size}."


def unexpected_size(rank: int | None) -> str:
    """A claim about a transport that received a message of a size that it did not expect."""
    return f"{_rank(rank)} received a message of an unexpected size."


ENDS_DIFFER = "A library compared both ends of the call, and they differ."
"""A claim about a library that compared the two ends of a call."""


def analyzer_says(seq: int | None) -> str:
    """A claim about a line of PyTorch's analyzer."""
    return f"PyTorch's analyzer reported a mismatch{f' in #{seq}' if seq is not None else ''}."


def was_in_hook(rank: int, hook: str) -> str:
    """A claim: ``Rank 3 was in evaluate of the Trainer.``"""
    return f"Rank {rank} was in {hook}."


def waited_at(rank: int, frame: str | None, code: str = "") -> str:
    """A claim: ``Rank 3 waited at train.py:40, in dist.barrier().``"""
    return f"Rank {rank} waited at {frame}{f', in {code}' if code else ''}."


# doubts


NO_MAJORITY = "No side has a majority, so any of them could be the wrong one."
"""A doubt about a tie."""


def sizes_may_differ(op: str) -> str:
    """A doubt about an operation of varying sizes."""
    return f"Sizes in {op} may legally differ between ranks."


NOT_ALL_COMPARED = "Not every member of the group recorded this call."
"""A doubt about members without a record."""

ONE_AGAINST_ONE = "Only one dump shows what the majority called."
"""A doubt about a majority of which one dump exists."""


def awaited_elsewhere(ranks: Ranks) -> str:
    """A doubt about a rank that peers wait for in a second group."""
    they = verb(ranks, "it", "they")
    return f"Peers also wait for {ranks_phrase(ranks)} in a different group: {they} may have skipped a call there."


def size_inferred(rank: int) -> str:
    """A doubt about a rank without a dump."""
    return f"Rank {rank} left no dump, so we infer its size from its peers'."


ONLY_THE_LIBRARY_SAYS = "Only the library that compared the two ends reports it."
"""A doubt about one witness."""

NEITHER_END_PROVEN = "The two ends differ, and no majority shows which one is wrong."
"""A doubt about two ends."""

DIFFERENCE_UNNAMED = "The log doesn't say how the two ends differ."
"""A doubt about a line that names no aspect."""

ANALYZER_COMPARES_WITH_FIRST = "The analyzer only compares each rank with the first one."
"""A doubt about PyTorch's analyzer."""

BATCH_OF_TRANSFERS = "One number covers a whole batch of transfers, which may legally differ."
"""A doubt about a coalesced call."""

ONE_CALL_EACH = "Watchdog lines name one call per rank, and no dump shows the calls around it."
"""A doubt about lines of watchdogs."""


def last_call_not_due_one(odd: Ranks) -> str:
    """A doubt about a traceback."""
    peers = verb(odd, "its", "their")
    return f"The traceback shows where {ranks_phrase(odd)} waited last, not which call {peers} peers were owed."


LINES_OF_TWO_GROUPS = "If the job has several process groups, the lines may belong to calls of different groups."
"""A doubt about tracebacks that end in different lines of the program."""


# refuted by


def records_matched(call: str) -> str:
    """What would refute a mismatch: every member recorded the same call, or the streams match when shifted."""
    return f"every member had recorded the same {call}, or the calls matched after a shift by one"


def traceback_at_peers(odd: Ranks) -> str:
    """What would refute two places in the program."""
    whose = f"a traceback of {ranks_phrase(odd)}"
    return f"{whose} had shown the line where {verb(odd, 'its', 'their')} peers waited"


# --- calls that were skipped or added ----------------------------------------------------------------------------------


def skipped(who: str, ranks: Ranks, call: str, count: int, *, is_first_of_several: bool = False) -> Headline:
    """``Rank 3 skipped ALLREDUCE #7 of TP 1, so its later calls are off by one.``"""
    off = "one" if count == 1 else str(count)
    if is_first_of_several:
        return Headline(who, f"skipped calls, the first at {call}")
    return Headline(
        who, f"skipped {_calls_from(call, count)}, so {verb(ranks, 'its', 'their')} later calls are off by {off}"
    )


def added(who: str, ranks: Ranks, call: str, count: int, *, is_first_of_several: bool = False) -> Headline:
    """``Rank 2 called an extra collective, ALLGATHER #12 of DP 5, that no peer called.``"""
    if is_first_of_several:
        return Headline(who, f"called more than {verb(ranks, 'its', 'their')} peers, the first extra call at {call}")
    if count == 1:
        return Headline(who, f"called an extra collective, {call}, that no peer called")
    return Headline(who, f"called {count} extra collectives from {call} on that no peer called")


def _calls_from(call: str, count: int) -> str:
    return call if count == 1 else f"{count} calls from {call} on"


def left_behind(who: str, ranks: Ranks, call: str) -> Headline:
    """``Rank 3 skipped ALLREDUCE #18; its peers are still in it.``"""
    return Headline(who, f"skipped {call}; {verb(ranks, 'its', 'their')} peers are still in it")


def skipped_in_group(who: str, ranks: Ranks, group: str) -> Headline:
    """``Rank 2 skipped a call of DP 5: its peers had made more by each later call of …``"""
    detail = f"{verb(ranks, 'its', 'their')} peers had made more by each later call of another group"
    return Headline(who, f"skipped a call of {group}", detail)


def one_call_fewer(who: str, group: str) -> Headline:
    """A skipped call that one count shows."""
    return Headline(who, f"skipped a call of {group}", "its peers had made one more by the same later call")


def left_order(who: str, ranks: Ranks, number: str) -> Headline:
    """``Rank 3 left its usual order of calls at #18 of DP 5: its peers finished #18 and kept running.``"""
    its = verb(ranks, "its", "their")
    return Headline(
        who, f"left {its} usual order of calls at {number}", f"{its} peers finished that number and kept running"
    )


def steps_ahead(who: str, call: str, steps: int) -> Headline:
    """``Rank 5 skipped ALLREDUCE #7 and is one step ahead of its peers.``"""
    return Headline(who, f"skipped {call} and is {'one step' if steps == 1 else f'{steps} steps'} ahead of its peers")


def left_loop(who: str, ranks: Ranks, call: str) -> Headline:
    """``Rank 3 left its loop early and never called ALLREDUCE #18.``"""
    return Headline(who, f"left {verb(ranks, 'its', 'their')} loop early and never called {call}")


def left_out_batch(who: str) -> Headline:
    """``Rank 2 skipped a batch, and probably the calls of that batch with it.``"""
    return whole(f"{who} skipped a batch that no other rank skipped, and probably its calls too")


def one_call_more(who: str, ranks: Ranks, group: str, before: str = "") -> Headline:
    """``Rank 0 called one collective more than its peers in DP 5, before BROADCAST #7.``"""
    its = verb(ranks, "its", "their")
    return Headline(
        who, f"called one collective more than {its} peers in {group}{f', before {before}' if before else ''}"
    )


def counted_apart(own: int, call: str, ahead: Ranks, *, may_be_gpu: bool) -> Headline:
    """``Rank 3 is still in ALLREDUCE #18, which rank 0 counts as finished: …``"""
    others = f"{ranks_phrase(ahead)} {verb(ahead, 'counts', 'count')}"
    gpu = f", or the GPU of rank {own} stopped" if may_be_gpu else ""
    return Headline(
        f"rank {own} is still in {call}, which {others} as finished",
        "",
        f"one of them skipped or added a call{gpu}",
        hedge="",
    )


def fits_when_shifted(rank: int, call: str, count: int, length: int) -> str:
    """A claim: ``Rank 3 called ALLREDUCE #7, and its next 4 calls match its peers' when shifted by one.``"""
    if not length:
        return called(rank, call)
    by = "one" if count == 1 else str(count)
    return f"Rank {rank} called {call}, and its next {plural(length, 'call')} match its peers' when shifted by {by}."


def peers_called(call: str) -> str:
    """A claim about a peer's entry: ``Its peers called BROADCAST #7.``"""
    return f"The other ranks called {call} under that number."


def called_instead(rank: int, call: str, due: str) -> str:
    """A claim about a break in the order: ``Rank 3 called BROADCAST #7 where ALLREDUCE #18 was due.``"""
    return f"Rank {rank} called {call} where {due} was due."


def called_earlier(rank: int, call: str) -> str:
    """A claim about what a rank's own past shows: ``In an earlier step, rank 3 called ALLREDUCE #17 there.``"""
    return f"In an earlier step, rank {rank} called {call} at that point."


def peers_called_there(peers: Ranks, call: str) -> str:
    """A claim about what peers show: ``Ranks 0-2 called ALLREDUCE #18 at that point.``"""
    return f"{ranks_phrase(peers).capitalize()} called {call} at that point."


def no_peer_called(rank: int, call: str) -> str:
    """A claim: ``Rank 3 called BROADCAST #7, and no peer did.``"""
    return f"Rank {rank} called {call}, and no peer did."


def had_called(rank: int, count: int, group: str) -> str:
    """A claim: ``Rank 0 had called 39 collectives of TP 1 by its newest call, …``"""
    return f"Rank {rank} had called {count:,} collectives of {group} by its newest call, and its peers {count + 1:,}."


def finished_number(rank: int, number: str) -> str:
    """A claim: ``Rank 0 finished #18 of DP 5 and kept running.``"""
    return f"Rank {rank} finished {number} and kept running."


def logged_ahead(who: str, call: str, step: int, peers: int) -> Headline:
    """``Rank 5 skipped ALLREDUCE #7: it logged step 39, its peers only step 29.``

    Logs that name every tenth step tell no number of steps.
    """
    return Headline(who, f"skipped {call}", f"it logged step {step:,}, its peers only step {peers:,}")


def logged_step(rank: int, step: int | None) -> str:
    """A claim about the rank that is ahead, where not every step is logged."""
    return f"Rank {rank} logged step {step}."


def last_logged_step(rank: int, step: int | None) -> str:
    """A claim about a rank behind it, where not every step is logged."""
    return f"Rank {rank} last logged step {step}."


def finished_step(rank: int, step: int | None) -> str:
    """A claim about the rank that is ahead."""
    return f"Rank {rank} had already finished step {step}."


def only_finished_step(rank: int, step: int | None) -> str:
    """A claim about a rank that is behind it."""
    return f"Rank {rank} had only finished step {step}."


def stuck_later(rank: int | None, step: int | None) -> str:
    """A claim about a complaint of the rank that is ahead."""
    return f"{_rank(rank)} got stuck too, after it had logged step {step}."


def reported_end_of_loop(rank: int) -> str:
    """A claim about the last line of a rank."""
    return f"Rank {rank} reported the end of its loop."


def skipped_batch(rank: int | None) -> str:
    """A claim about a warning."""
    return f"{_rank(rank)} continued without a batch."


def failed_in_call(rank: int | None) -> str:
    """A claim about a rank whose call timed out or lost its connection."""
    return f"{_rank(rank)} failed in a call."


def still_in(rank: int | None, call: str) -> str:
    """A claim: ``Rank 3 was still in ALLREDUCE #18.``"""
    return f"{_rank(rank)} was still in {call}."


def already_in(rank: int | None, call: str) -> str:
    """A claim: ``Rank 0 was already in ALLREDUCE #20.``"""
    return f"{_rank(rank)} was already in {call}."


def counts_as_finished(rank: int | None, seq: int | None) -> str:
    """A claim: ``Rank 0 counts #19 as its last finished call.``"""
    return f"{_rank(rank)} counts #{seq} as its last finished call."


# doubts

_ALSO = {
    Way.MISSED: "skipped {what}",
    Way.ADDED: "called an extra collective{at}",
    Way.REPLACED: "called a different collective{at}",
}


def also_fits(ranks: Ranks, way: Way, number: str) -> str:
    """A doubt: ``The calls would also match if rank 3 had skipped #23.``; no ``number`` where ranks differ in it."""
    did = _ALSO[way].format(what=number or "a call", at=f" at {number}" if number else "")
    return f"The calls would also match if {ranks_phrase(ranks)} had {did}."


def fits_extra_elsewhere(ranks: Ranks) -> str:
    """A doubt about counts of two groups."""
    return f"The counts would also match if {ranks_phrase(ranks)} had called an extra collective of another group."


SEVERAL_AT_ONCE = "Several ranks left their usual order at once."
"""A doubt about several culprits in one circle."""

SEVERAL_AHEAD = "Several ranks are one call ahead."
"""A doubt about several ranks with one call more."""


def only_the_count(rank: int) -> str:
    """A doubt about a skipped call without a place."""
    return f"Only the number of calls differs: no entry shows which one rank {rank} skipped."


def next_calls_unknown(ranks: Ranks) -> str:
    """A doubt about a rank that stopped behind a call no peer made."""
    they = verb(ranks, "it", "they")
    return f"The next calls of {ranks_phrase(ranks)} aren't recorded: {they} may have skipped calls or added one."


SKIPPED_CALL_UNNAMED = "No line or dump names the skipped call."
"""A doubt about a rank one step ahead."""

NO_OTHER_EPOCH_END = "No other rank ever printed the end of an epoch."
"""A doubt about the only rank that prints the end of an epoch."""

NEXT_CALL_UNNAMED = "No log names the next call of each rank."
"""A doubt about a skipped batch."""

ONLY_COUNTERS = "We only compared the counters of watchdogs: no dump shows the calls themselves."
"""A doubt about two watchdogs."""


# refuted by


def peer_recorded_it(ranks: Ranks, call: str) -> str:
    """What would refute a skipped call."""
    return f"{ranks_phrase(ranks)} had an entry for {call}"


PEER_MADE_IT_TOO = "another rank had recorded the extra call as well"
"""What would refute an extra call."""


def same_counted(call: str) -> str:
    """What would refute counters that differ."""
    return f"dumps had shown the same calls on both ranks up to {call}"


SAME_AFTER_BATCH = "all ranks had made the same calls after that batch"
"""What would refute a skipped batch."""


# --- calls in another order --------------------------------------------------------------------------------------------


def deadlock(rank: str, first: str, second: str, reverse: str) -> Headline:
    """``Deadlock: rank 4 called ALLREDUCE #35 before ALLGATHER #128; its peers did the reverse.``"""
    return Headline(f"deadlock: {rank}", f"called {first} before {second}; {reverse} did the reverse", hedge="")


def deadlock_without(rank: str, first: str, second: str, peers: str) -> Headline:
    """``Deadlock: rank 4 called ALLREDUCE #35 without ALLGATHER #128, which its peers called first.``"""
    return Headline(f"deadlock: {rank}", f"called {first} without {second}, which {peers} called first", hedge="")


def deadlock_of_nobody(calls: Sequence[str]) -> Headline:
    """``Deadlock: ranks called ALLREDUCE #35 and ALLGATHER #128 in different orders.``"""
    return whole(f"deadlock: ranks called {and_list(calls)} in different orders")


def may_have_skipped(ranks: Ranks, call: str) -> str:
    """A doubt about a rank that stopped before it could show which."""
    return f"{ranks_phrase(ranks).capitalize()} may have skipped {call} rather than put it off."


def usual_order_unknown(ranks: Ranks) -> str:
    """A doubt about a minority without a past."""
    return f"Earlier steps of {ranks_phrase(ranks)} don't show which order is the usual one."


EVEN_ORDERS = "As many ranks called them in one order as in the other."
"""A doubt about a tie."""


def same_order(calls: Sequence[str]) -> str:
    """What would refute an inversion."""
    return f"every rank had called {and_list(calls)} in the same order"


# --- transfers with one end --------------------------------------------------------------------------------------------


def never_posted(who: str, end: str, peer: int, since: datetime | None) -> Headline:
    """``Rank 3 never posted the RECV that rank 2 has been waiting for since 11:32:50.``"""
    waits = f"has been waiting for since {since:%H:%M:%S}" if since is not None else "is waiting for"
    return Headline(who, f"never posted the {end} that rank {peer} {waits}")


def posted_behind(who: str, end: str, peer: int) -> Headline:
    """``Rank 3 queued the RECV that rank 2 is waiting for behind another call.``"""
    return Headline(who, f"queued the {end} that rank {peer} is waiting for behind another call")


def one_end_missing(sender: int, receiver: int) -> Headline:
    """``The transfer from rank 2 to rank 6 has only one end: …``"""
    return Headline(
        f"the transfer from rank {sender} to rank {receiver} has only one end",
        "",
        f"rank {sender} or rank {receiver} is out of step",
        hedge="",
    )


def in_hidden_transfer(who: str, ranks: Ranks) -> Headline:
    """``Every wait ends at ranks 2-3, which are in a send or receive that the flight recorder doesn't record.``"""
    is_are = verb(ranks, "is", "are")
    return whole(
        f"every wait ends at {who}, which {is_are} in a send or receive that the flight recorder doesn't record"
    )


def one_transfer_fewer(rank: int) -> str:
    """A claim about a count."""
    return f"Rank {rank} posted one transfer fewer than the same rank of each sister group."


def waits_for_other_end(rank: int, end: str, peer: int) -> str:
    """A claim: ``Rank 2 posted its RECV from rank 3 and never finished it.``"""
    return f"Rank {rank} posted its {transfer_to(end, peer)} and never finished it."


def transfer_to(end: str, peer: int) -> str:
    """``SEND to rank 7``, ``RECV from rank 2``."""
    return f"{end} {'to' if end == 'SEND' else 'from'} rank {peer}"


def either_end(sender: int, receiver: int) -> str:
    """A doubt about two ends."""
    return f"Either rank {sender} or rank {receiver} may have left the usual order."


ONLY_TRANSFER_COUNT = "Only the number of transfers differs."
"""A doubt about a count."""

TRANSFERS_UNRECORDED = (
    "The flight recorder doesn't record this backend's sends and receives, so the missing end is unknown."
)
"""A doubt about gloo and the like."""


def other_end_recorded(who: Ranks, end: str) -> str:
    """What would refute a missing end."""
    owner = ranks_phrase(who) if who else "its owner"
    return f"{owner} had an entry for the {end}, or hadn't reached that point yet"


OTHER_END_SEEN = "a stack had shown the other end of that transfer"
"""What would refute a transfer without a record."""


def _rank(rank: int | None) -> str:
    return f"Rank {rank}" if rank is not None else "A process"
