"""The facts of an incident, a line each, for the places without a page: the terminal and the ticket."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model import CauseClass, Confidence, Diagnosis, Family, RankState
from nccldoctor.model.figures import SnapshotRow
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts import incident_time, wording
from nccldoctor.words import lists, names, numbers, times
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import sentence, uncapitalized

OTHERS = 5
"""Other findings that are named; more are counted."""

HOSTS = 4


class FactLine(Struct, frozen=True):
    """One fact: its label, and what it is."""

    label: str
    text: str


def facts(diagnosis: Diagnosis) -> tuple[FactLine, ...]:
    """The facts that are known, in the order in which they are asked for; few of an undetermined verdict."""
    family = diagnosis.verdict.family
    rows = (
        ("when", incident_time.when(diagnosis)),
        ("log", wording.only_here(diagnosis)),
        ("where", where(diagnosis)),
        ("call", stalled_call(diagnosis)),
        ("blocked", blocked(diagnosis)),
        ("looks", what_looks_show(diagnosis)),
        ("class", "" if family is Family.NONE else class_words(diagnosis)),
        ("confidence", confidence_line(diagnosis)),
        ("doubts", doubts(diagnosis, 3)),
        ("or else", wording.runner_up_words(diagnosis.verdict)),
        ("job", job(diagnosis)),
    )
    asked = _OF_UNDETERMINED if family is Family.UNDETERMINED else dict(rows)
    return tuple(FactLine(label, text) for label, text in rows if text and label in asked)


_OF_UNDETERMINED = ("when", "where", "call", "looks")


def where(diagnosis: Diagnosis) -> str:
    """``rank 1 on node0, pid 17081, GPU 1``; of several ranks their hosts."""
    finding = diagnosis.verdict
    named = finding.blamed
    if not named:
        return ""
    who = names.ranks_phrase(named, 4) + wording.others_may_be(diagnosis)
    states = [state for state in diagnosis.ranks if state.rank in named]
    place = _of_one(states[0]) if len(named) == 1 and states else _culprit_hosts(states)
    is_suspect = "suspects: " if not finding.ranks and len(named) > 1 else "suspect: " if not finding.ranks else ""
    return f"{is_suspect}{who}{place}"


def _of_one(state: RankState) -> str:
    host = f" on {line(state.host, 60)}" if state.host else ""
    pid = f", pid {state.pid}" if state.pid is not None else ""
    device = state.device or ""  # 3, 0000:18:00 or GPU 3
    return host + pid + (f", {line(device if 'gpu' in device.lower() else f'GPU {device}', 40)}" if device else "")


def _culprit_hosts(states: list[RankState]) -> str:
    hosts = list(dict.fromkeys(line(state.host, 60) for state in states if state.host))
    more = f" and {len(hosts) - HOSTS} more hosts" if len(hosts) > HOSTS else ""
    return f" on {', '.join(hosts[:HOSTS])}{more}" if hosts else ""


def stalled_call(diagnosis: Diagnosis) -> str:
    """``ALLREDUCE #9 in TP 1, 64 elements, 1 of 2 ranks arrived``."""
    call = diagnosis.verdict.stalled
    if call is None or (call.op is None and call.seq is None):
        return ""
    parts = [wording.stalled_name(call) + (f" in {names.group_title(call.group)}" if call.group else "")]
    parts += [numbers.plural(call.numel_in, "element")] if call.numel_in and call.numel_in > 0 else []
    parts += [arrived] if (arrived := wording.arrived(diagnosis, call)) else []
    return ", ".join(parts)


def blocked(diagnosis: Diagnosis) -> str:
    """``ranks 0-3, 6-7 (6 of 8)``: the ranks that wait."""
    victims = wording.waiting_ranks(diagnosis)
    if not victims:
        return ""
    world = diagnosis.job.world_size
    of = f" ({len(victims):,} of {world:,})" if world is not None and world >= len(victims) and len(victims) > 1 else ""
    return names.ranks_phrase(victims, 6) + of


def what_looks_show(diagnosis: Diagnosis) -> str:
    """``rank 5 stayed in load (data.py:9) over 2 looks, 30 s apart; no other rank moved``.

    Empty without two looks at a culprit.
    """
    found = diagnosis.snapshots
    if found is None:
        return ""
    seen = [row for row in found.rows if sum(map(bool, row.frames)) > 1]
    told = [_stay(row) for row in seen if row.is_culprit][:2]
    others = [row for row in seen if not row.is_culprit]
    moved = Ranks(rank for row in others if row.has_moved for rank in row.ranks)
    first, last = found.times[0], found.times[-1]
    span = times.duration((last - first) * 1e3) if first is not None and last is not None else ""
    apart = "" if not span else f", {span} apart" if len(found.times) == 2 else f" within {span}"
    rest = f"; {names.ranks_phrase(moved, 4)} moved" if moved else "; no other rank moved" if others else ""
    return f"{lists.and_list(told)} over {len(found.times)} looks{apart}{rest}"


def _stay(row: SnapshotRow) -> str:
    who, shown = names.ranks_phrase(row.ranks, 4), [line(frame, 80) for frame in row.frames if frame]
    if not row.has_moved and not shown[0].endswith(")"):  # native frames show an activity, and no line of the program
        return f"{who} {shown[0]}" if len(row.ranks) == 1 else f"{who}: {shown[0]}"
    return f"{who} moved from {shown[0]} to {shown[-1]}" if row.has_moved else f"{who} stayed in {shown[0]}"


def class_words(diagnosis: Diagnosis) -> str:
    """``process died; a crash, not a hang``: the class in words."""
    situation = wording.situation(diagnosis)
    finding = diagnosis.verdict
    title = wording.title(finding)
    if finding.cause is CauseClass.UNDETERMINED:
        return ""
    return f"{title} ({uncapitalized(situation)})" if situation else title


def confidence_line(diagnosis: Diagnosis) -> str:
    """The confidence in words; "" of an undetermined verdict, whose class says so."""
    finding = diagnosis.verdict
    if finding.family is Family.UNDETERMINED or finding.confidence is Confidence.CANNOT_TELL:
        return ""
    return wording.confidence_words(finding)


def doubts(diagnosis: Diagnosis, most: int) -> str:
    """The strongest reasons why the confidence is not higher, as sentences."""
    finding = diagnosis.verdict
    if finding.confidence is Confidence.HIGH:
        return ""
    return " ".join(sentence(line(doubt.says, 240)) for doubt in finding.doubts[:most])


def hosts_of_job(diagnosis: Diagnosis, named: int = 2) -> str:
    """``node0 and node1``, ``16 hosts``; "" without any.

    Where the host of some rank is not known it is ``node0 and unknown hosts``, or ``15 known hosts``.
    """
    hosts = [line(host, 60) for host in diagnosis.job.hosts]
    is_partial = bool(hosts) and any(state.host is None for state in diagnosis.ranks)
    if len(hosts) > named:
        return f"{len(hosts):,} {'known ' if is_partial else ''}hosts"
    return lists.and_list([*hosts, "unknown hosts"] if is_partial else hosts)


def job(diagnosis: Diagnosis) -> str:
    """``8 ranks on node0 and node1, PyTorch 2.9.1, NCCL 2.27.5``."""
    made = diagnosis.job
    size = wording.world(made) if made.world_size is not None or made.world_at_least > 1 else ""
    hosts = hosts_of_job(diagnosis)
    on = f" on {hosts}" if hosts else ""
    versions = [f"{name} {line(value, 20)}" for name, value in (("PyTorch", made.torch), ("NCCL", made.nccl)) if value]
    return ", ".join(part for part in ((size or "world size unknown") + on, *versions) if part)
