"""Steps for a job that runs under ``nccldoctor.capture``. It takes stacks and dumps itself, and needs no other tool and no setting."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nccldoctor.events import CaptureNotice
from nccldoctor.identify.flaws.file_flaws import owed_look
from nccldoctor.model import Finding
from nccldoctor.model.steps import JobState, Step, StepKind
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.prescribe.remote_commands import is_this_machine
from nccldoctor.questions.process import stopped
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sentences import capitalized
from nccldoctor.words.times import instant


def is_captured(survey: Survey) -> bool:
    """True where a rank says that capture watches it."""
    return bool(survey.events_of(CaptureNotice))


def wait_for_look(survey: Survey, state: JobState) -> Step | None:
    """To read the folder again, where ranks still owe the newest look; None where all answered, or nobody asked."""
    owed = owed_look(survey.case.events, survey.case.world) if state is not JobState.ENDED else None
    if owed is None:
        return None
    detail = (
        f"{capitalized(ranks_phrase(owed.ranks, 4))} had not answered rank {owed.asker}, which asked for stacks at {instant(owed.asked)}. "
        "A rank that never answers holds the interpreter lock, or its host or disk is gone."
    )
    return Step(StepKind.WAIT, f"Run `nccldoctor analyze` again after {instant(owed.due)}.", detail)


def another_look(finding: Finding, survey: Survey) -> Iterator[Step]:
    """To ask one rank for stacks and dumps of all. Nothing where a look is owed, or no process is known to live."""
    case = survey.case
    if owed_look(case.events, case.world) is not None:
        return
    left = {event.rank for event in case.of(CaptureNotice) if event.last_words}
    known = (case.rank_pid.keys() & case.rank_host.keys()) - left
    able = [rank for rank in (*finding.victims, *case.world) if rank in known]
    rank = next((rank for rank in able if not stopped(survey.facts, [rank]).holds), None)
    if rank is None:  # nobody to ask
        return
    host, command = case.rank_host[rank], f"kill -USR1 {case.rank_pid[rank]}"
    if case.pods.is_pod(host):
        command = f"kubectl exec {shlex.quote(host)} -- {command}"
    elif not is_this_machine(case.pods.place(host)):
        command = f"ssh {shlex.quote(case.pods.place(host))} {command}"
    seconds = max((event.within_s or 0 for event in survey.events_of(CaptureNotice)), default=0)
    limit = f"within {seconds} s" if seconds else "within a minute"
    detail = f"Capture in rank {rank} makes all ranks write their stacks and dumps {limit}. Two looks tell a busy rank from a blocked one."
    text = "Ask capture for another look at all ranks, and run `nccldoctor analyze` on its folder again."
    yield Step(StepKind.CHECK, text, detail, command, host)
