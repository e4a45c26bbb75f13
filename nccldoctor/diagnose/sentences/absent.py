"""Sentences about ranks that are not in the call that their peers wait in."""

from __future__ import annotations

from nccldoctor.diagnose.sentences.headline import Basis, Headline
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.sentences import sentence


def never_reached(who: str, call: str, doing: str = "") -> Headline:
    """Rank 1 (node0, pid 17081) never reached ALLREDUCE #9: it was in refresh_expert_table (train.py:121)."""
    return Headline(who, f"never reached {call}", doing, basis=Basis.RANKS)


def never_posted(who: str, transfer: str, doing: str = "") -> Headline:
    """Rank 1 (node0) never posted the SEND that rank 2 waits for in RECV #4."""
    return Headline(who, f"never posted {transfer}", doing, basis=Basis.RANKS)


def never_reached_by_report(who: str, call: str, by: str) -> Headline:
    """Rank 7 never reached ALLREDUCE #262, says PyTorch's desync report."""
    return Headline(who, f"never reached {call}, according to {by}", basis=Basis.RANKS)


def not_in_timed_out_call(who: str, fired: Ranks) -> Headline:
    """Rank 5 never reached the call in which rank 2 timed out."""
    return Headline(who, f"never reached the call in which {ranks_phrase(fired)} timed out", basis=Basis.RANKS)


def end_of_chain(who: str, call: str | None) -> Headline:
    """Rank 1 never reached ALLREDUCE: each peer waits for its neighbor, and the chain ends here."""
    return _end_of_waits(who, call, "each peer waits for its neighbor, and the chain ends here")


def missed_by_all(who: str, call: str | None) -> Headline:
    """Rank 5 never reached the DeepEP dispatch: its peers waited for it in vain."""
    return _end_of_waits(who, call, "its peers waited for it in vain")


def _end_of_waits(who: str, call: str | None, why: str) -> Headline:
    reached = _with_article(call) if call else "the call that its peers wait in"
    return Headline(who, f"never reached {reached}", why, basis=Basis.RANKS)


def _with_article(call: str) -> str:
    """``the DeepEP barrier``: a name of several words is no operation with a number, such as ALLREDUCE #9."""
    return f"the {call}" if " " in call and "#" not in call else call


def at_prompt(who: str, ranks: Ranks) -> Headline:
    """Rank 0 (node0) is waiting at a prompt that no one has answered."""
    return Headline(who, "waiting at a prompt that no one has answered", be=verb(ranks, "is", "are"))


def quiet_but_alive(who: str, doing: str) -> Headline:
    """Rank 2 never reached the call in which all peers timed out: it was in load_batch (data.py:3)."""
    return Headline(who, "never reached the call in which all peers timed out", doing, basis=Basis.RANKS)


def quiet_while_apart(who: str, doing: str) -> Headline:
    """Rank 2 fell behind while all peers timed out in different places of the program: it was in load_batch (data.py:3)."""
    return Headline(
        who, "fell behind while all peers timed out in different places of the program", doing, basis=Basis.RANKS
    )


def quiet_and_silent(who: str, doing: str) -> Headline:
    """Rank 1 (node0) went silent while all peers timed out."""
    return Headline(who, "went silent while all peers timed out", doing)


def quiet_and_gone(who: str, doing: str) -> Headline:
    """Rank 3 (node0) disappeared without an error: its peers lost connections before any of them timed out."""
    return Headline(
        who, "disappeared without an error", doing or "its peers lost connections before any of them timed out"
    )


def went_silent(who: str, call: str, *, has_exits: bool, was_asked_to_exit: bool = False) -> Headline:
    """Rank 7 (node3) went silent before ALLREDUCE #18 and never exited."""
    exited = "and never exited" if has_exits and not was_asked_to_exit else "with no exit on record"
    return Headline(who, f"went silent before {call} {exited}")


def is_stopped(who: str, ranks: Ranks, call: str) -> Headline:
    """Rank 7 (node3) was stopped by a signal before ALLREDUCE #18."""
    return Headline(who, f"stopped by a signal before {call}", be=verb(ranks, "was", "were"))


def no_sign_of_life(who: str, ranks: Ranks, call: str) -> Headline:
    """Rank 7 shows no sign of life while its peers wait in ALLREDUCE #18, and no exit is on record."""
    shows = verb(ranks, "shows", "show")
    peers = verb(ranks, "its", "their")
    return Headline(
        who, f"{shows} no sign of life while {peers} peers wait in {call}, and no exit is on record", hedge=""
    )


def left_nothing(who: str, lacks: str, call: str, ahead: Ranks) -> Headline:
    """Rank 0 left neither a dump nor a log, and its peers are stuck in ALLGATHER #20918844."""
    if ahead:
        waits = f"{ranks_phrase(ahead)} {verb(ahead, 'is', 'are')} stuck in {call} while other ranks are past it"
        return Headline(who, f"{lacks}; {waits}", hedge="")
    return Headline(who, f"{lacks}, and the ranks with records are stuck in {call}", hedge="")


NO_FILES = "left neither a dump nor a log"
NO_RAS_ANSWER = "did not answer NCCL RAS"


def host_down(host: str, ranks: Ranks, call: str) -> Headline:
    """Host node2 went down before ALLREDUCE #18 and took ranks 8-15 with it."""
    return Headline(f"Host {host}", f"went down before {call} and took {ranks_phrase(ranks)} with it")


def host_of_ranks_down(ranks: Ranks, call: str) -> Headline:
    """The host of ranks 8-15 went down before ALLREDUCE #18."""
    return Headline(f"the host of {ranks_phrase(ranks)}", f"went down before {call}")


# claims


def not_recorded(rank: int, call: str, last: int | None) -> str:
    """What a dump says of a rank that did not enter a call."""
    tail = f"its last call in that group is #{last}" if last is not None else "it has no call in that group"
    return f"Rank {rank}'s dump has no entry for {call}; {tail}."


def stopped_before(rank: int, last: int, call: str) -> str:
    """What a line or a counter says of such a rank."""
    return f"Rank {rank}'s last call was #{last}, not {call}."


def named_by_desync(ranks: Ranks) -> str:
    """What PyTorch's desync report says."""
    return f"PyTorch's desync report names {ranks_phrase(ranks)}."


def missing_at_barrier(ranks: Ranks) -> str:
    """What a monitored barrier says."""
    return f"The monitored barrier is missing {ranks_phrase(ranks)}."


def missing_by_analyzer(ranks: Ranks) -> str:
    """What PyTorch's analyzer of dumps says."""
    return f"PyTorch's flight recorder analyzer is missing {ranks_phrase(ranks)}."


def was_doing(rank: int, doing: str) -> str:
    """What a stack or a line shows: ``Rank 1 was in load_batch (/job/data.py:34).``"""
    return f"Rank {rank} was {doing}."


def waits_for_input(rank: int | None) -> str:
    """What a prompt at the end of a log shows."""
    return f"Rank {rank} asked for input, and none of its lines follow."


def inside_function(rank: int, function: str) -> str:
    """What a stack or a traceback in a function of torch.distributed shows."""
    return f"Rank {rank} was in {function}."


def dumped(rank: int) -> str:
    """What a dump shows beside its calls."""
    return f"Rank {rank} wrote a flight recorder dump, so it was alive."


def answered_dump_request(rank: int | None) -> str:
    """What a reply to the request of another rank's watchdog shows."""
    return f"Rank {rank} answered the dump request."


def dumped_while_stuck(rank: int) -> str:
    """What a dump of the script's own shows."""
    return f"Rank {rank} wrote a dump while the job was stuck, so it was alive."


def stack_taken(rank: int) -> str:
    """What a stack shows that names no activity."""
    return f"Rank {rank}'s stack was taken while the job was stuck."


def still_wrote(rank: int) -> str:
    """What a late line shows."""
    return f"Rank {rank} still wrote log lines while its peers waited."


def exited_on_sigterm(rank: int) -> str:
    """What an exit by the launcher's SIGTERM shows."""
    return f"Rank {rank} exited on the launcher's SIGTERM, so it was alive until then."


def waited_until_timeout(rank: int | None, place: str = "", code: str = "") -> str:
    """What the complaint of a peer shows: ``Rank 0 waited at main (train.py:45), in loss.backward(), and then failed.``"""
    at = f" at {place}" + (f", in {code}," if code else "") if place else ""
    return f"Rank {rank} waited{at} and then failed."


def kept_connections(rank: int | None) -> str:
    """What a timeout without a broken connection shows."""
    return f"Rank {rank} waited until its timeout, and its connections stayed up."


def lost_connection(rank: int | None) -> str:
    """What a broken connection shows."""
    return f"Rank {rank} lost its connection to a peer."


def last_line_before(rank: int) -> str:
    """What the newest line of a rank shows where the stall began after it."""
    return f"Rank {rank}'s last line is from before the stall."


def last_line(rank: int) -> str:
    """What the end of a log shows."""
    return f"Rank {rank}'s log ends here, without an error."


def no_error_after(rank: int) -> str:
    """What the newest line of a rank shows that we read, where others may follow."""
    return f"No error of rank {rank} follows this line."


def nothing_after(rank: int) -> str:
    """What the end of a log shows where no dump follows either."""
    return f"Rank {rank}'s log ends here: no error and no dump follow."


def no_error_or_dump_after(rank: int) -> str:
    """The same of the newest line that we read, where others may follow."""
    return f"No error and no dump of rank {rank} follow this line."


def alone_without_timeout(rank: int, others: int, members: int, call: str) -> str:
    """What the last line of a rank shows where all its peers gave up on a call."""
    return f"{others:,} of {members:,} ranks timed out in {call}. Rank {rank} logged no timeout, and this line is its last."


def was_asked_to_exit(rank: int) -> str:
    """What a launcher's SIGTERM shows of a rank without an exit on record."""
    return f"The launcher sent rank {rank} SIGTERM, so its process hadn't exited before."


def exits_of_others(ranks: Ranks) -> str:
    """What the launcher's record of other ranks shows."""
    return f"The launcher recorded exits of other ranks, but none of {ranks_phrase(ranks)}."


def still_running(rank: int) -> str:
    """What a kill by the launcher shows of a rank without any other end."""
    return f"Rank {rank} was still running when its launcher killed it with SIGKILL."


def answered_debug_server(rank: int | None) -> str:
    """What a page of the debug server shows."""
    return f"Rank {rank} answered the debug server."


def wrote_dump(rank: int | None) -> str:
    """What a line about a dump shows."""
    return f"Rank {rank} wrote its dump."


def no_answer(rank: int | None, detail: str) -> str:
    """What the debug server says of a rank."""
    return sentence(
        f"Rank {rank} did not answer the debug server ({detail})"
        if detail
        else f"Rank {rank} did not answer the debug server"
    )


def nothing_outstanding(rank: int | None, fired: Ranks) -> str:
    """What the counters of an idle rank show."""
    return f"Rank {rank} had no call outstanding when {ranks_phrase(fired)} timed out."


def waited_for_peer(rank: int | None, peer: int | None) -> str:
    """What a rank prints of the peer that it gave up on."""
    who = f"Rank {rank}" if rank is not None else "A rank"
    return f"{who} waited in vain for rank {peer} of its group."


# what would prove a verdict wrong


def had_a_record(ranks: Ranks, call: str) -> str:
    """Completes *We'd be wrong if …* for absence."""
    return f"{ranks_phrase(ranks)} had a record of {call}, or exited before the stall"


def showed_life(ranks: Ranks) -> str:
    """Completes *We'd be wrong if …* for silence."""
    return f"{ranks_phrase(ranks)} left a line, a dump or a stack from after the stall began, or an exit record"


def ran_after_end(ranks: Ranks) -> str:
    """Completes *We'd be wrong if …* for an end."""
    return f"{ranks_phrase(ranks) if ranks else 'that process'} left a line, a dump or a stack from after the exit"


RECORD = "that rank had a record of the call, or exited before the stall"
LIFE = "that rank left a line, a dump or a stack from after the stall began, or an exit record"
AFTER_END = "that rank left a line, a dump or a stack from after its exit"
ANSWERED_PROMPT = "the rank logged a later step, or the prompt was answered"
COMPLAINED = "that rank reported a stuck call too, or made different calls from its peers"
SAME_CALL = "that rank had a line about the same call"
IN_TIME = "that rank had reached the call before its peers timed out"
ITS_FILES = "its dump or its log turned up"
FILES_OF_ANY = "a dump or a log of any of these ranks turned up"
