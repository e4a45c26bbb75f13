"""Observations of a job and of one stall, each computed when the first rule asks, and shared by all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial

from msgspec import Struct
from msgspec.structs import asdict

from nccldoctor.align.descriptions import describe, stalled_of
from nccldoctor.align.divergence.departures import Departure, find_departure
from nccldoctor.align.divergence.mismatches import Mismatch
from nccldoctor.align.facts import Facts
from nccldoctor.align.health.proof import Health, observe_health
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import Key
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, is_cited
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import was, who
from nccldoctor.diagnose.signs import (
    absence,
    call_order,
    issue_order,
    recorded_diffs,
    silence,
    still_running,
    traceback_diffs,
)
from nccldoctor.diagnose.signs.framework_reports import open_reports
from nccldoctor.diagnose.signs.log_endings import is_end_of_log
from nccldoctor.diagnose.signs.watchdog_diffs import from_lines
from nccldoctor.events import Absence, Event, ExceptionRaised
from nccldoctor.model import Stalled
from nccldoctor.model.ranks import Ranks


class ObservedJob(Struct, frozen=True, dict=True):
    """What rules observe of a whole job, whatever its stall: once for all of them."""

    facts: Facts

    @cached_property
    def health(self) -> Health:
        """What shows that the job is well, and what speaks against it."""
        return observe_health(self.facts)

    @cached_property
    def open_reports(self) -> list[Absence]:
        """The newest report of each coordinator about ranks that it misses, where nothing answers it."""
        return open_reports(self.health.troubles)

    @cached_property
    def differing_lines(self) -> Callable[[str], Hypothesis | None]:
        """The mismatch that lines show in each aspect: ``op``, ``size`` or ``dtype``."""
        return cache(partial(from_lines, self.facts))

    @cached_property
    def parted_tracebacks(self) -> Hypothesis | None:
        """Ranks that met in one transfer by different paths through the program, as their tracebacks show."""
        return traceback_diffs.judge_size_complaint(self.facts)

    @cached_property
    def making_group(self) -> Callable[[int], Line | None]:
        """The line that shows a rank inside a function that makes a group; None without one."""
        return cache(partial(absence.show_inside_function, self.facts, functions=absence.MAKING))


class ObservedStall(Stall, frozen=True, kw_only=True, dict=True):
    """A stall with what the signs say about it.

    Example: ranks 0-6 wait in ALLREDUCE #18, rank 7 last enqueued #17 and was sent a SIGTERM. Then ``named`` is rank 7, ``what`` is
    *ALLREDUCE #18*, ``outside[7]`` cites its dump, ``alive[7]`` the exit by the closing signal and ``busy[7]`` says what it did.
    """

    facts: Facts
    job: ObservedJob

    @classmethod
    def of(cls, job: ObservedJob, stall: Stall) -> ObservedStall:
        """Returns the same stall with its observations, none of them computed yet."""
        return cls(**asdict(stall), facts=job.facts, job=job)

    @cached_property
    def what(self) -> str:
        """The stalled call in words: ``ALLREDUCE #18 of dp``."""
        return describe(self.facts, self.call)

    @cached_property
    def details(self) -> Stalled | None:
        """The stalled call with its operation, sizes and times."""
        return stalled_of(self.facts, self.call)

    @cached_property
    def texts(self) -> Callable[[Key], str]:
        """Each stuck call of the job in words, by its key."""
        facts = self.facts
        return cache(lambda key: describe(facts, facts.wait_graph.calls[key]))

    @cached_property
    def named(self) -> Ranks:
        """The ranks that may be named as absent: proven, or the only ones left."""
        return absence.nameable_ranks(self.facts, self)

    @cached_property
    def outside(self) -> Callable[[int], list[Citation]]:
        """Citations that show each rank outside the call."""
        return cache(partial(absence.show_outside, self.facts, self.call))

    @cached_property
    def alive(self) -> Callable[[int], list[Citation]]:
        """Citations that show each rank alive after the stall began; empty without any."""
        return cache(partial(absence.show_alive, self.facts))

    @cached_property
    def busy(self) -> Callable[[int], tuple[str, list[Citation]]]:
        """The activity of each rank outside the call, in words, with citations; "" where it is not known."""
        return cache(partial(absence.show_activity, self.facts))

    @cached_property
    def quiet(self) -> silence.QuietRanks | None:
        """The few ranks, or those of one host, that did not give up where all others did."""
        return silence.find_quiet_ranks(self.facts, self)

    def is_shown_alive(self, rank: int) -> bool:
        """True when a dump, a phase, a stack or the way it was closed shows that the rank was alive."""
        return bool(self.alive(rank) or self.busy(rank)[0])

    def conclude_quiet(self, quiet: silence.QuietRanks, key: str) -> Hypothesis:
        """The hypothesis about quiet ranks; ``key`` is that of its headline."""
        ranks = quiet.ranks
        citations: list[Citation] = [Line(e, _wait_of(e)) for e in quiet.complaints[:3]]
        activity, is_explained = "", False
        for rank in list(ranks)[:3]:
            words, shown = self.busy(rank)
            activity = activity or words
            is_explained = is_explained or bool(words) or bool(absence.manual_dumps(self.facts, rank))
            citations += [*shown, *(citation for citation in self.alive(rank) if not is_cited(citation, shown))]
            last = newest_line(self.facts, rank)
            if last is not None and not is_cited(last, citations):
                citations.append(last)
        sure = is_explained and len(ranks) == 1 and (bool(activity) or not quiet.was_closed)
        return Hypothesis(
            headline_of(key, who=who(self.facts.case, ranks), doing=was(ranks, activity)),
            citations,
            () if sure else (doubt_of("only-silence"),),
            ranks=ranks,
            refuted_by=say("refuted.complained"),
        )

    @cached_property
    def is_scattered(self) -> bool:
        """True when waiting ends in several unrelated places and nobody complains, as in a running job."""
        return still_running.is_scattered(self.facts)

    @cached_property
    def mismatch(self) -> Mismatch | None:
        """The first sequence number up to the stalled one under which recorded calls differ."""
        return recorded_diffs.disagreement(self.facts, self)

    @cached_property
    def departures(self) -> tuple[Departure, ...]:
        """How the calls of each rank of the minority part from those of its peers."""
        found = self.mismatch
        if found is None:
            return ()
        each = (find_departure(self.facts.sequences, found, rank) for rank in found.minority)
        return tuple(departure for departure in each if departure is not None)

    @cached_property
    def order_breaks(self) -> list[call_order.OrderBreak]:
        """The places at which ranks of a circle left the order; ranks shown in order left none."""
        found = call_order.find_order_breaks(self.facts, self.calls)
        return [item for item in found if item.call.pair is not None or item.rank not in self.issue_orders.in_order]

    @cached_property
    def issue_orders(self) -> issue_order.IssueOrders:
        """How the orders of the calls of the ranks in a circle compare, over all recorded steps."""
        return issue_order.compare_orders(self.facts, self.calls)


def newest_line(facts: Facts, rank: int) -> Line | None:
    """Cites the newest line of a rank, and says that its log ends there only where that is sure."""
    event = facts.liveness.activity(rank).last_event
    if event is None:
        return None
    says = "absent.last-line" if is_end_of_log(facts, event) else "absent.no-error-after"
    return Line(event, say(says, rank=rank))


def _wait_of(complaint: Event) -> str:
    """Where a peer waited, as far as its traceback tells."""
    if not isinstance(complaint, ExceptionRaised):
        return say("absent.waited-until-timeout", rank=complaint.rank)
    place, code = traceback_diffs.own_place(complaint), complaint.code[:60]
    return say("absent.waited-until-timeout", rank=complaint.rank, place=place, code=code)
