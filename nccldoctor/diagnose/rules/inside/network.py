"""All members are in the call, and the transport reports errors.

How we know: completion errors or port events that are no echo of a dead peer (status 5 only follows another error, *closed by remote peer*
follows an exit). We name the end with the port error, else both ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.align.facts import Facts
from nccldoctor.align.failures import Failure
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.hypothesis import Citation, Hypothesis, Line, Waiting
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.diagnose.registry import rule
from nccldoctor.events import Event, IbError, KernelEvent, NcclError, SchedulerEvent, SocketError
from nccldoctor.model import CauseClass
from nccldoctor.model.hosts import endpoint_address, host_order
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import is_unresponsive_peer
from nccldoctor.words.lists import and_list
from nccldoctor.words.sanitize import line

UNANSWERED = 12
"""The completion status of a send that nobody answered: the path is broken, or the other process is gone."""

_KERNEL = {"nic": "network adapter error", "link-down": "the link went down", "pcie": "PCIe error"}

_IB = {"setup": "a connection couldn't be set up", "stall": "work never completed"}


@rule(CauseClass.NETWORK, refuted_by=say("refuted.peer-ended-first"))
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The first transport error that nobody's end explains."""
    found = [f for f in facts.failures if f.cause is CauseClass.NETWORK]
    ends = (f for f in facts.failures if f.certain and (f.ranks or f.cause is CauseClass.DIED))
    ended = any(f.cause in (CauseClass.DIED, CauseClass.RAISED) for f in ends)
    words = (e for f in facts.failures for e in f.events if isinstance(e, SchedulerEvent))
    ended = ended or any(word.what == "node-failure" for word in words)
    if not found or (ended and not any(isinstance(e, IbError) and e.is_of_own_end for e in found[0].events)):
        return None
    first = found[0]
    if _is_one_sided(facts, first):
        end = _common_peer(first.events)
        return None if end is None or stall.kind is StallKind.ABSENT else _lost_way_to_peer(facts, stall, first, end)
    # links that went down are felt where ranks of those hosts complain of their peers, as gloo does
    went_down = any(isinstance(e, KernelEvent) and e.what == "link-down" for e in first.events)
    is_felt = went_down and any(facts.liveness.activity(r).secondary_errors for r in first.suspects)
    if not first.certain and stall.call is None and not is_felt:
        return None
    ports = [e for e in first.events if (isinstance(e, IbError) and e.is_of_own_end) or isinstance(e, KernelEvent)]
    evidence: list[Citation] = [Line(e, _says(e)) for e in first.events[:6]]
    others = [e for e in facts.case.of(NcclError) if e.rank not in first.ranks]
    evidence += [Line(e, say("inside.nccl-error", rank=e.rank, code=e.code)) for e in others[:2]]
    evidence.append(Waiting(stall.call))
    doubts = [] if ports else [doubt_of("no-port-error")]
    if len(first.ranks) != 1:
        doubts.append(doubt_of("not-one-end"))
    return Hypothesis(
        _failed_end(facts, stall, first, ports),
        evidence,
        doubts,
        ranks=first.ranks,
        suspects=first.suspects,
        call=stall.call,
    )


def _failed_end(facts: Facts, stall: ObservedStall, failure: Failure, ports: Sequence[Event]) -> Headline:
    """The port that failed, else the link between the only two hosts that report errors, else the ranks."""
    call = stall.what if stall.call is not None else ""
    ranks, what = failure.ranks, _what((ports or failure.events)[0])
    # one process may be named by the address and by the name of its host
    told = {e.pid or e.host: e.host for e in reversed(failure.events) if e.host}
    at = sorted(set(told.values()), key=host_order)
    named = who(facts.case, ranks) if ranks else and_list(at) or "a host"
    if ports:
        return headline_of("inside.own-end-failed", part=_part(ports[0], len(ranks)), who=named, call=call, error=what)
    reporting = dict.fromkeys(facts.case.rank_host.get(rank, "") for rank in ranks)
    hosts = sorted(reporting, key=host_order)
    are_of_peers = all(isinstance(e, IbError | SocketError) and e.peer is not None for e in failure.events)
    if len(hosts) == 2 and all(hosts) and are_of_peers:
        error = _error_alone(failure.events[0])
        return headline_of(
            "inside.link-failed", one=hosts[0], other=hosts[1], call=call, error=error, reason=error.partition(" (")[0]
        )
    never = all(isinstance(e, IbError) and e.what == "setup" for e in failure.events)
    many, error = len(ranks) > 1, "" if never else what
    reason = error.partition(" (")[0]
    return headline_of(
        "inside.connection-failed", who=named, many=many, never=never, call=call, error=error, reason=reason
    )


def _part(event: Event, ranks: int) -> str:
    """What of its own end failed by such an event: the port, the whole adapter, or one queue of it."""
    several = "s" if ranks > 1 else ""
    if isinstance(event, IbError) and event.what == "async":
        return f"queues of the network adapter{several}" if several else "a queue of the network adapter"
    if isinstance(event, IbError) and event.what == "adapter":
        return f"the network adapter{several}"
    return f"the network port{several}"


def _common_peer(events: Sequence[Event]) -> str | None:
    """The address that all of several observers lost, where it is one and the same."""
    lost = [e for e in events if isinstance(e, IbError | SocketError) and e.peer and e.rank is not None]
    ends = {endpoint_address(e.peer) for e in lost if e.peer}
    return ends.pop() if len(ends) == 1 and len({e.rank for e in lost}) > 1 else None


def _lost_way_to_peer(facts: Facts, stall: ObservedStall, failure: Failure, end: str) -> Hypothesis:
    """Concludes a broken way to a peer that several ranks lost without an end of its processes. Adapter, path or host is at fault."""
    evidence: list[Citation] = [*(Line(e, _says(e)) for e in failure.events[:6]), Waiting(stall.call)]
    call, error = stall.what if stall.call is not None else "", _error_alone(failure.events[0])
    return Hypothesis(
        headline_of("inside.way-to-peer-lost", who=who(facts.case, failure.ranks), end=end, call=call, error=error),
        evidence,
        (doubt_of("adapter-path-or-host"),),
        ranks=failure.suspects,
        call=stall.call,
        refuted_by=say("refuted.peer-ended-or-other-hosts"),
    )


def _is_one_sided(facts: Facts, failure: Failure) -> bool:
    """True when the peer's processes rather than the link seem to be gone.

    Only one host complains, no port reports an error, and ranks of another host are silent. Nothing of other hosts was
    read where all known ranks are on this one, or nothing states how many there are: then they may be silent as well.
    """
    if any((isinstance(e, IbError) and e.is_of_own_end) or isinstance(e, KernelEvent) for e in failure.events):
        return False
    if any(isinstance(e, IbError) and _is_local_error(e) for e in failure.events):
        return False
    hosts = {facts.case.rank_host.get(r) for r in failure.ranks}
    silent = facts.case.world - Ranks(
        r for r, s in facts.liveness.by_rank.items() if s.is_alive or s.exits or s.secondary_errors
    )
    is_size_open = facts.case.world_size is None or facts.case.is_size_guessed
    unread = is_size_open or hosts == set(facts.case.rank_host.values())
    return len(hosts) == 1 and (bool(silent) or unread) and bool(failure.ranks)


def _is_local_error(event: IbError) -> bool:
    """True when an error is more than a missing answer: one of the provider, or of this end."""
    if event.what == "completion":
        return not event.is_flush and event.status not in (None, UNANSWERED)
    return event.what in ("fabric", "setup", "refused") and not is_unresponsive_peer(event.message)


def _what(event: Event) -> str:
    """The error with the adapter and the peer: ``transport retry counter exceeded (status 12) on mlx5_2, to 10.0.3.11``."""
    if isinstance(event, KernelEvent):
        return _KERNEL.get(event.what, f"kernel message ({event.what.replace('-', ' ')})")
    if isinstance(event, IbError):
        where = (f" on {event.hca}" if event.hca else "") + (f", to {event.peer}" if event.peer else "")
        return _error_alone(event) + where
    return _error_alone(event)


def _error_alone(event: Event) -> str:
    """The error alone: ``transport retry counter exceeded (status 12)``, ``port error``."""
    if isinstance(event, IbError):
        if event.event:
            return line(event.event, 80)
        if event.status is None:
            return _IB.get(event.what, f"{event.what or 'fabric'} error")
        return (
            f"{event.meaning} (status {event.status})" if event.meaning else f"completion error (status {event.status})"
        )
    words = event.message if isinstance(event, SocketError) and event.message else event.text
    return line(words, 80) + event.group_rank_note


def _says(event: Event) -> str:
    named = f"rank {event.rank}" if event.rank is not None else (event.host or "a host")
    return say("inside.network-error", who=named, error=_what(event).rstrip("."))
