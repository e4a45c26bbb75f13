"""Sentences of the verdicts that blame no rank: nothing is wrong, or the input doesn't show what is."""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.diagnose.sentences.headline import Headline, whole
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import and_list, or_list
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.numbers import plural
from nccldoctor.words.sentences import capitalized, sentence

SUSPECTS = 4
"""Suspects that a headline names."""

# --- a call hangs, and who is missing is unknown -----------------------------------------------------------------------


def stuck_in(inside: Ranks, call: str, *, has_timed_out: bool) -> str:
    """``Rank 3 timed out in ALLREDUCE #4188``: the first part of a headline."""
    return f"{ranks_phrase(inside)} {'timed out' if has_timed_out else 'got stuck'} in {call}"


def timed_out_apart(inside: Ranks, call: str, others: Ranks, other: str) -> str:
    """``Ranks 0-2 timed out in ALLREDUCE #305, and rank 3 in ALLREDUCE #307``: the first part of a headline."""
    first = stuck_in(inside, call, has_timed_out=True)
    return f"{first}, and {ranks_phrase(others)} in {other}" if others else first


def waited_for_unknown(first: str, logs: int, *, many: bool) -> Headline:
    """``Rank 3 timed out in ALLREDUCE #4188. One log can't show which rank it waited for.``"""
    files = "One log can't" if logs == 1 else "These files don't"
    return whole(f"{first}. {files} show which rank {'they' if many else 'it'} waited for")


def may_be_missing(first: str, suspects: Ranks) -> Headline:
    """``Rank 3 timed out in ALLREDUCE #4188. Rank 2 or rank 5 may never have reached it.``"""
    names = or_list([f"rank {rank}" for rank in suspects])
    return whole(f"{first}. {sentence(f'{names} may never have reached it')}")


def peer_host_closed(first: str, host: str) -> Headline:
    """``Rank 3 got stuck in ALLREDUCE #7, and node9 closed its connection; the cause on node9 is unknown.``"""
    return whole(f"{first}, and {host} closed its connection; the cause on {host} is unknown")


def process_exited_too(first: str, process: str) -> Headline:
    """``Rank 3 got stuck in ALLREDUCE #7, and rank 5 exited; which came first is unknown.``"""
    return whole(f"{first}, and {process} exited; how it exited and which came first is unknown")


def timed_out_in_unnamed(who: str) -> Headline:
    """``Rank 3 timed out in a call that the log doesn't name, so …``"""
    return whole(f"{who} timed out in a call that the log doesn't name, so the rank that it waited for is unknown")


def timed_out_waiting(who: str, place: str) -> Headline:
    """``Rank 3 timed out in step (train.py:40) waiting for a peer; which peer is unknown.``"""
    return whole(f"{who} timed out{f' in {place}' if place else ''} waiting for a peer; which peer is unknown")


def waited_apart(places: Sequence[tuple[str, Ranks]]) -> Headline:
    """``Ranks 0, 2 waited in sync (a.py:8) and rank 1 in tp (a.py:26); which rank each call missed is unknown.``"""
    waits = and_list(
        [f"{ranks_phrase(ranks)}{'' if n else ' waited'} in {place}" for n, (place, ranks) in enumerate(places)]
    )
    return whole(f"{waits}; which rank each call missed is unknown")


def barrier_unanswered(ranks: Ranks) -> Headline:
    """``Rank 1 reached the monitored barrier, and rank 0 didn't answer; only rank 0's log names the missing ranks.``"""
    first = f"{ranks_phrase(ranks)} reached the monitored barrier"
    return whole(f"{first}, and rank 0 didn't answer; only rank 0's log names the missing ranks")


# --- something failed, and why is unknown --------------------------------------------------------------------------------


def failed_unexplained(what: str) -> Headline:
    """``A process aborted. These files don't show why.``"""
    return whole(f"{sentence(what)} These files don't show why")


def first_errors(errors: Sequence[str], more: int) -> Headline:
    """``The cause is unknown. First errors: rank 3 (exited on SIGABRT), rank 0 (connection reset) and 2 more.``"""
    told = and_list([*errors, f"{more} more"]) if more else and_list(errors)
    return Headline("The cause is unknown. First errors", "", told, hedge="")


def first_error(who: str, what: str) -> str:
    """One of these: ``rank 3 (exited on SIGABRT)``."""
    return f"{who} ({what})"


def stopped_by_person(places: Sequence[str]) -> Headline:
    """``A person stopped the job while ranks 0-1 were in step (train.py:41). We don't know if it was hung.``"""
    at = f" while {and_list(places)}" if places else ""
    return whole(f"A person stopped the job{at}. We don't know if it was hung before")


def stood_at(ranks: Ranks, place: str, *, is_waiting: bool) -> str:
    """``ranks 0-1 were waiting for a peer in step (train.py:41)``: a part of that headline."""
    does = "waiting for a peer in" if is_waiting else "in"
    return f"{ranks_phrase(ranks)} {verb(ranks, 'was', 'were')} {does} {place}"


def unparsed(text: str) -> Headline:
    """``One line looks like a failure, but we couldn't parse it: …``"""
    return Headline("One line looks like a failure, but we couldn't parse it", "", text, hedge="")


PROMPT = whole("The job is waiting at a prompt for an answer; which rank asked is unknown")


def not_enough(has_logs: bool, lacks: Sequence[str], notes: Sequence[str]) -> Headline:
    """``Not enough to judge. The logs show neither a failure nor a clean exit, and there is no stack or exit record.``"""
    logs = "The logs show neither a failure nor a clean exit" if has_logs else "There is no log"
    more = f", and there is no {or_list(lacks)}" if lacks else ""
    return whole(" ".join(["Not enough to judge.", sentence(f"{logs}{more}"), *map(sentence, notes)]))


def partly_unreadable(lost: str) -> str:
    """``Part of the input is unreadable: rank_7.log (cut off).``"""
    return f"Part of the input is unreadable: {lost}."


# claims


def first_problem(who: str) -> str:
    """``Rank 3 reported the first problem.``"""
    return f"{capitalized(who)} reported the first problem."


def exited_with(who: str, code: int | None) -> str:
    """``Rank 3 exited with code -6.``"""
    return f"{capitalized(who)} exited{f' with code {code}' if code is not None else ''}."


def failed_too(who: str) -> str:
    """``Rank 3 failed too.``"""
    return f"{capitalized(who)} failed too."


def unresolved(who: str) -> str:
    """``Rank 3 reported this problem, and no later line resolves it.``"""
    return f"{capitalized(who)} reported this problem, and no later line resolves it."


def was_in(who: str, doing: str) -> str:
    """``Process 41 was waiting for a peer in all_gather.``"""
    return f"{capitalized(who)} was {doing}."


CLOSED_CONNECTION = "The other end closed this connection."
STOPPED_HERE = "A person stopped the job here."
LOOKS_LIKE_FAILURE = "This line looks like a failure, but we couldn't parse it."
LAST_PARSED = "This is the last line we parsed: no error and no clean exit."
NOTHING_READABLE = "Nothing readable was found."


def files_without_hang(files: int) -> str:
    """``24 files checked; none shows a hang.``"""
    return "1 file checked; it shows no hang." if files == 1 else f"{plural(files, 'file')} checked; none shows a hang."


# doubts and refuted by

MEMBER_UNKNOWN = "These files don't show which member never entered the call, or what differs."
CAUSE_UNKNOWN = "These files don't show what caused it."
HEALTH_UNKNOWN = "These files don't show whether the job hung or ended well."
MISSING_INPUT_NAMED_ONE = "the missing logs or dumps had named the rank at fault"


def too_many_culprits(culprits: int, world: int) -> str:
    """A doubt: ``5 of 8 ranks would be at fault.``"""
    return f"{culprits:,} of {plural(world, 'rank')} would be at fault."


# --- nothing is wrong ------------------------------------------------------------------------------------------------------

NO_HANG = "No hang or failure found"


def all_finished(ranks: Ranks, steps: int | None, *, exited: bool) -> Headline:
    """``No hang or failure found: all 8 ranks finished 6 steps and exited cleanly.``"""
    who = f"all {len(ranks)} ranks" if len(ranks) > 1 else "the rank"
    did = f"finished {plural(steps, 'step')}" if steps else "finished"
    return Headline(NO_HANG, "", f"{who} {did}{' and exited cleanly' if exited else ''}", hedge="")


def ranks_finished(ranks: Ranks, steps: int | None) -> Headline:
    """``No hang or failure found: ranks 0-3 finished 6 steps; the job may have more ranks.``"""
    did = f"finished {plural(steps, 'step')}" if steps else "finished"
    return Headline(NO_HANG, "", f"{ranks_phrase(ranks)} {did}; the job may have more ranks", hedge="")


def no_hang(how: str) -> Headline:
    """``No hang or failure found: the job kept running after the dumps were written.``"""
    return Headline(NO_HANG, "", how, hedge="")


JOB_FINISHED = "the job finished"
KEPT_RUNNING = "the job kept running after the dumps were written"
ALL_CALLS_FINISHED = "every recorded call finished on every rank"
STILL_MOVING = "the job is still making progress"


def stopped_before_end(step: int | None, total: int | None) -> Headline:
    """``Stopped by Ctrl-C (SIGINT) at step 13 of 400. No hang or failure found before that.``"""
    at = f" at step {step:,}" if step is not None else ""
    of = f" of {total:,}" if at and total else ""
    return whole(f"Stopped by Ctrl-C (SIGINT){at}{of}. No hang or failure found before that")


def last_step(who: str, step: int) -> str:
    """A claim: ``A process last reported step 13.``"""
    return f"{capitalized(who)} last reported step {step}."


def but_loss_is_nan(headline: Headline) -> Headline:
    """The headline of a job that runs and computes nothing."""
    return whole(f"{headline.sure} But the loss is no longer a number")


def but_unreadable(headline: Headline, lost: str) -> Headline:
    """The headline of a job of which a part could not be read."""
    return whole(f"{headline.sure} {partly_unreadable(lost)}")


def reported_end(who: str) -> str:
    """A claim: ``Rank 3 reported a clean end.``"""
    return f"{capitalized(who)} reported a clean end."


def last_line_is_fine(rank: int) -> str:
    """A claim: ``The last parsed line of rank 3 reports no error.``"""
    return f"The last parsed line of rank {rank} reports no error."


def last_recorded_call(rank: int, call: str) -> str:
    """A claim: ``The last recorded call of rank 3 is ALLREDUCE #8.``"""
    return f"The last recorded call of rank {rank} is {call}."


LOSS_IS_NAN = "The loss is no longer a number."
ODD_DUMPS = "Some flight recorder dumps are odd, and may hide a rank that is late or stuck."
NO_RANK_LOGS = "There are no rank logs."
WORLD_SIZE_UNKNOWN = "The world size is unknown."
WORLD_SIZE_GUESSED = "No line states the world size: there may be ranks whose logs are not here."
SLOW_LOOKS_SAME = "A slow job would look the same."
NO_END_LOGGED = "No line says that the job ended."
NOT_ALL_ENDED = "Not every rank is on record as finished."
END_UNDATED = "The line of the end has no time, and dumps show unfinished calls that may have come later."


def few_read(seen: int, world: int) -> str:
    """A doubt: ``We have logs or dumps from only 3 of 8 ranks.``"""
    return f"We have logs or dumps from only {seen:,} of {world:,} ranks."


def left_nothing_behind(ranks: Ranks) -> str:
    """A doubt: ``No logs or dumps from ranks 6-7.``"""
    return f"There are no logs or dumps from {ranks_phrase(ranks)}."


def late_often(ranks: Ranks) -> str:
    """A doubt: ``Rank 3 was late in call after call.``"""
    return f"{capitalized(ranks_phrase(ranks))} {verb(ranks, 'was', 'were')} late in call after call."


def few_steps(steps: int) -> str:
    """A doubt: ``No rank has 4 steps on record, so a straggler wouldn't show.``"""
    return f"No rank has {steps} steps on record, so a straggler wouldn't show."


NO_STEPS_BY_RANK = "No rank reports its own steps, so a straggler wouldn't show."

MISSING_FILE_SHOWED_FAILURE = "a log or dump that we didn't get had shown a failure"


def lost_part_showed_failure(lost: str) -> str:
    """What would refute it where a part of the input is lost."""
    return f"the unreadable part of {lost} had shown a failure"
