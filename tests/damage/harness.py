"""Analyses a job whole and damaged, and tells what the damage did to the verdict.

Each analysis runs in a forked child: what it takes of time and memory is its own, and nothing that it breaks is seen by the next one.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.files.packing import write
from damage.kinds.folders import rank_in
from damage.kinds.registry import Files, Kind, NotApplicable
from damage.labelled import Labelled, Truth

from nccldoctor import pipeline
from nccldoctor.identify.case import Case
from nccldoctor.incident import Incident
from nccldoctor.model.ranks import Ranks

SCALE = ("cannot-tell", "low", "medium", "high")

MOST_SECONDS = 30
MOST_MEMORY = 2 << 30
GIVEN_UP_AFTER = 120
"""Seconds of the processor after which a child is ended; of wall time ten times as many."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an analysis said. ``crash`` is a traceback, ``broken`` what failed and was left out.

    ``seconds`` are those of the processor, ``memory`` is in bytes. ``heard`` are files that gave events or calls, ``named`` those that
    the coverage names, ``counted`` how many more it counts without their names (*and 3 more*).
    ``blamed`` are the ranks of all findings, ``remedy`` the first that is offered.
    """

    crash: str = ""
    broken: tuple[str, ...] = ()
    cause: str = "undetermined"
    ranks: str = ""
    confidence: str = "cannot-tell"
    in_ranks: str = "cannot-tell"
    in_class: str = "cannot-tell"
    blamed: str = ""
    remedy: str = ""
    heard: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    counted: int = 0
    seconds: float = 0.0
    memory: int = 0

    def __str__(self) -> str:
        return f"{self.ranks or '-'} {self.cause} (ranks {self.in_ranks}, class {self.in_class})"

    def is_right(self, truth: Truth) -> bool:
        return truth.has_ranks(self.ranks) and truth.has_class(self.cause)

    def is_wrong(self, truth: Truth) -> bool:
        """True where it names a rank or a class that is not true. To name nobody is not wrong."""
        if self.cause == "undetermined":
            return False
        return (bool(self.ranks) and not truth.has_ranks(self.ranks)) or not truth.has_class(self.cause)

    def is_sure_and_wrong(self, truth: Truth) -> bool:
        """True where something wrong is said with high confidence: the ranks, the class, or that nothing failed."""
        if self.cause == "none":
            return truth.is_failure and self.confidence == "high"
        return self.confidence == "high" and self.is_wrong(truth)

    def is_sure_of_wrong_ranks(self, truth: Truth) -> bool:
        """True where the wrong ranks are named with high confidence in the ranks, whatever the class."""
        return self.in_ranks == "high" and bool(self.ranks) and not truth.has_ranks(self.ranks)


def seen(files: Files) -> Answer:
    """The answer about these files, from a child process."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = write(Path(scratch) / "job", files)
        return answer_of(from_child(lambda: told_by(_analysed(folder), files)))


def seen_here(files: Files) -> Answer:
    """The answer about these files, from this process: patterns and modules that they need are loaded before children are forked."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = write(Path(scratch) / "job", files)
        return answer_of(told_by(_analysed(folder), files))


def _analysed(folder: Path) -> Incident:
    return pipeline.analyze([str(folder)])


def told_by(incident: Incident, files: Files) -> dict[str, Any]:
    """What an analysis of these files said, as the fields of an :class:`Answer`; it goes through a pipe as JSON."""
    document = json.loads(incident.to_json())
    verdict = document["verdict"]
    broken = [p for row in document["coverage"] if row["input"] == "nccldoctor itself" for p in row["problems"]]
    broken += [
        f"{g.what}: {g.why}" for g in incident.case.gaps if "analysis broke" in g.why or "reading it failed" in g.why
    ]
    return {
        "broken": broken,
        "cause": verdict["class"],
        "ranks": verdict["ranks"],
        "confidence": verdict["confidence"],
        "in_ranks": verdict["confidence_in"]["ranks"],
        "in_class": verdict["confidence_in"]["class"],
        "blamed": str(Ranks(rank for finding in document["findings"] for rank in Ranks.parse(finding["ranks"]))),
        "remedy": next((remedy["id"] for remedy in document["remedies"]), ""),
        "heard": _heard(incident.case),
        "named": _named_in_coverage(incident.case, files),
        "counted": sum(int(n) for gap in incident.case.gaps for n in re.findall(r"\b(\d+) more\b", gap.what)),
    }


def _heard(case: Case) -> list[str]:
    """The files of which an event or a recorded call was used, or of which lines of a known format were read."""
    sources = {event.place.source for event in case.events}
    sources |= {dump.source for dump in case.dumps if not dump.problem}
    sources |= {reading.source for reading in case.readings if reading.understood}
    return sorted({source.path for source in case.sources if source.id in sources})


def _named_in_coverage(case: Case, files: Files) -> list[str]:
    """The files that a gap names, or of which lines were not understood."""
    paths = {source.id: source.path for source in case.sources}
    words = [f"{gap.what} {gap.why} {paths.get(-1 if gap.source is None else gap.source, '')}" for gap in case.gaps]
    unread = {paths[reading.source] for reading in case.readings if reading.understood < reading.candidates}
    return sorted(path for path in files if path in unread or any(path in text for text in words))


def from_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``work`` gives in a forked process, with its ``seconds`` and ``memory``; ``crash`` says why it gave nothing."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        try:
            signal.setitimer(signal.ITIMER_PROF, GIVEN_UP_AFTER)
            signal.alarm(10 * GIVEN_UP_AFTER)  # it may wait for ever
            answer = work()
        except BaseException:
            answer = {"crash": traceback.format_exc()}
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        answer["seconds"] = sum(one.ru_utime + one.ru_stime for one in used)
        answer["memory"] = sum(one.ru_maxrss for one in used) * 1024
        with os.fdopen(writable, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        return {"crash": f"no answer in {GIVEN_UP_AFTER} s", "seconds": GIVEN_UP_AFTER}
    told: dict[str, Any] = json.loads(text)
    return told


def answer_of(told: dict[str, Any]) -> Answer:
    """The answer with these fields."""
    return Answer(**{name: tuple(value) if isinstance(value, list) else value for name, value in told.items()})


def damaged(kind: Kind, job: Labelled, seed: int = 0) -> Files | None:
    """The files after the damage; None where there is nothing to damage, or nothing changes."""
    rng = random.Random(f"{kind.name} {job.name} {seed}")
    try:
        files = kind.damage(rng, job.files)
    except NotApplicable:
        return None
    return None if files == job.files else files


@dataclass(frozen=True, slots=True)
class Effect:
    """What one damage did to one job."""

    kind: str
    job: str
    before: Answer
    after: Answer
    findings: tuple[str, ...]


FINDINGS = {
    "crash": "an exception ended the analysis",
    "part broke": "a file, rule or picture failed and was left out",
    "slow": f"more than {MOST_SECONDS} s of the processor",
    "large": f"more than {MOST_MEMORY >> 30} GB of memory",
    "flip": "wrong with high confidence, and not so before",
    "flip of ranks": "the wrong ranks with high confidence in the ranks alone, and not so before",
    "wrong high": "wrong with high confidence before and after",
    "false all-clear": "no failure found where there is one, and not so before",
    "new rank": "a rank that is not at fault is named with medium or high confidence, and was not named before",
    "raised": "a higher confidence than before in a wrong verdict",
    "wrong": "wrong below high confidence, and right before",
    "silent": "a file that told something tells nothing, and the coverage does not name it",
}
"""What can go wrong, and what it means."""


def effect(kind: Kind, job: Labelled, before: Answer, seed: int = 0) -> Effect | None:
    """The effect of one kind of damage on one job; None where it has nothing to damage."""
    files = damaged(kind, job, seed)
    if files is None:
        return None
    after = seen(files)
    return Effect(kind.name, job.name, before, after, tuple(findings(job, before, after, files)))


def findings(job: Labelled, before: Answer, after: Answer, files: Files) -> list[str]:
    if after.crash:
        return ["crash"]
    truth, out = _truth_of_names(job, files), []
    out += ["part broke"] if after.broken else []
    out += ["slow"] if after.seconds > MOST_SECONDS else []
    out += ["large"] if after.memory > MOST_MEMORY else []
    is_wrong = after.is_wrong(truth)
    if after.is_sure_and_wrong(truth):
        out.append("wrong high" if before.is_sure_and_wrong(truth) else "flip")
    elif is_wrong and not before.is_wrong(truth):
        out.append("wrong")
    if after.is_sure_of_wrong_ranks(truth) and not before.is_sure_of_wrong_ranks(truth) and "flip" not in out:
        out.append("flip of ranks")
    if after.cause == "none" != before.cause and truth.is_failure:
        out.append("false all-clear")
    named = set(Ranks.parse(after.ranks)) - set(Ranks.parse(before.ranks))
    if after.in_ranks in ("medium", "high") and any(not truth.has_rank(rank) for rank in named):
        out.append("new rank")
    if is_wrong and SCALE.index(after.confidence) > SCALE.index(before.confidence):
        out.append("raised")
    return out + (["silent"] if silent(job.files, files, before, after) else [])


def _truth_of_names(job: Labelled, files: Files) -> Truth:
    """What is true where two files have each other's name: nothing in them may say whose they are, and the verdict moves with the names."""
    changed = [path for path in sorted(job.files) if job.files[path] != files.get(path)]
    if len(changed) != 2 or job.files.keys() != files.keys():
        return job.truth
    ranks = [rank for path in changed if (rank := rank_in(path)) is not None]
    is_exchange = files[changed[0]] == job.files[changed[1]] and files[changed[1]] == job.files[changed[0]]
    return job.truth.moved(*ranks) if is_exchange and len(ranks) == 2 else job.truth


def silent(whole: Files, files: Files, before: Answer, after: Answer) -> tuple[str, ...]:
    """Files that told something, still hold most of their bytes, tell nothing now and are not named."""
    told = set(before.heard) & whole.keys() & files.keys()
    inside = {path.rpartition("/")[0] for path in after.heard}  # a dump that was found inside another text
    quiet = sorted(told - {*after.heard, *after.named} - inside)
    left = tuple(path for path in quiet if 2 * len(files[path]) > len(whole[path]))
    return left if len(left) > after.counted else ()


def by_command(files: Files) -> tuple[int, str]:
    """The exit code and the JSON document of the command about these files, in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = write(Path(scratch) / "job", files)
        words = [sys.executable, "-m", "nccldoctor", "analyze", str(folder), "--format", "json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=GIVEN_UP_AFTER)
        return done.returncode, done.stdout
