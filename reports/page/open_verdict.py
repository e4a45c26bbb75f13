"""The blocks of a page without a culprit: what was checked, and what is known."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model import Confidence, Coverage, Diagnosis
from nccldoctor.model.figures import NEVER
from nccldoctor.model.steps import JobState
from nccldoctor.reports.page import tables
from nccldoctor.reports.page.facts import Fact
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.incident_facts import FactLine
from nccldoctor.words import names, numbers, times
from nccldoctor.words.lists import and_list
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import capitalized, sentence

ROWS = 8


class Check(Struct, frozen=True):
    """One thing that was looked at: ``done`` is false where the input for it is missing, which ``proof`` then names."""

    name: str
    done: bool
    result: str
    proof: str
    place: str


def healthy_facts(diagnosis: Diagnosis) -> tuple[Fact, ...]:
    """The size of the job and how much of it was read, in at most four facts."""
    job = diagnosis.job
    hosts = and_list([line(host, 40) for host in job.hosts[:3]]) if len(job.hosts) <= 3 else f"{len(job.hosts)} hosts"
    rows = [row for row in diagnosis.coverage if row.expected and row.found][:2]
    logs = sum(source.kind.value == "log" for source in diagnosis.sources)
    return (
        Fact("Ranks", str(job.world_size) if job.world_size is not None else wording.world(job), hosts),
        *(_covered(row) for row in rows),
        Fact("Open errors", "0 lines", f"in {numbers.plural(logs, 'log')}"),
    )


def _covered(row: Coverage) -> Fact:
    whole = "complete" if row.found == row.expected else f"missing: {names.ranks_phrase(row.expected - row.found, 4)}"
    name = line(row.input, 60)
    return Fact(f"{capitalized(name)}", f"{len(row.found):,} of {len(row.expected):,}", whole)


def checks(diagnosis: Diagnosis) -> tuple[Check, ...]:
    """What was checked, each with its proof and where it stands."""
    rows = [_state_of_job(diagnosis)]
    if (late := _latest(diagnosis)) is not None:
        proof = "largest gap between the first and the last arrival in a recorded call"
        rows.append(
            Check("Late ranks", True, f"under {times.duration(late)}" if late < 5 else times.duration(late), proof, "")
        )
    rows += [
        Check(capitalized(line(one.text, 60)), True, "no sign", line(one.says, 160), line(one.where or "", 120))
        for one in diagnosis.ruled_out
        if one.met is False
    ]
    unchecked = tables.ruled_out([item for item in diagnosis.ruled_out if item.met is not False])
    rows += [Check(capitalized(row.name), False, "not checked", line(row.says, 160), "") for row in unchecked]
    return tuple(rows[:ROWS])


def _state_of_job(diagnosis: Diagnosis) -> Check:
    """Whether the job finished, goes on, or was stopped by a person, with the first line that shows it."""
    proven = [evidence for evidence in diagnosis.verdict.evidence if evidence.supports]
    places = {evidence.where for evidence in proven[1:]}
    more = f" {numbers.plural(len(places), 'more place')} cited." if places else ""
    proof = sentence(capitalized(line(proven[0].says, 160))) + more if proven else ""
    where = line(str(proven[0].where or ""), 120) if proven else ""
    return Check("State of the job", True, _state_words(diagnosis), proof, where)


def _state_words(diagnosis: Diagnosis) -> str:
    world = diagnosis.job.world_size
    if diagnosis.job_end.by_person:
        return "stopped by a person"
    if diagnosis.job_end.state is JobState.RUNNING:
        return "still running"
    is_sure = diagnosis.verdict.confidence is Confidence.HIGH
    return f"{world:,} of {world:,} finished" if world is not None and is_sure else "no open failure"


def _latest(diagnosis: Diagnosis) -> float | None:
    """The largest lateness in milliseconds; None where no calls were compared, or one was never issued."""
    late = [value for row in diagnosis.run_up.rows for value in row.late_ms] if diagnosis.run_up is not None else []
    return None if not late or NEVER in late else max(late)


def known(diagnosis: Diagnosis) -> tuple[FactLine, ...]:
    """What is known, unknown and not checked where nothing can be judged."""
    call, job = diagnosis.verdict.stalled, diagnosis.job
    rows = []
    if call is not None:
        who = names.ranks_phrase(call.entered, 4) if call.entered else "a rank"
        size = f" of {numbers.plural(call.numel_in, 'element')}" if call.numel_in else ""
        since = f" since {times.instant(call.since)}" if call.since is not None else ""
        waited = names.verb(call.entered, "was", "were") if call.entered else "was"
        rows.append(FactLine("Known", f"{capitalized(who)} {waited} in {wording.stalled_name(call)}{size}{since}."))
    lacking = ["world size"] if job.world_size is None else []
    lacking += ["hosts"] if not job.hosts else []
    lacking += ["which ranks arrived"] if call is None or call.unseen or not call.missing else []
    lacking += ["what the ranks were doing"] if diagnosis.stacks is None else []
    if lacking:
        rows.append(FactLine("Unknown", f"{capitalized(and_list(lacking))}."))
    unchecked = [line(item.text, 60) for item in diagnosis.ruled_out if item.met is None]
    if unchecked:
        rows.append(FactLine("Not checked", f"{capitalized(and_list(unchecked))}: the input for it is missing."))
    return tuple(rows)
