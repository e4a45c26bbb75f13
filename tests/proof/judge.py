"""Tries one input in a watched process of its own, and says which promises it broke."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from builders.documents.packed_page import contents
from builders.files.packing import write
from builders.logs.planted_secrets import shown_in
from damage.harness import GIVEN_UP_AFTER, MOST_MEMORY, MOST_SECONDS, Answer, answer_of, findings, from_child, told_by
from damage.labelled import Labelled
from fuzz.run import unmentioned
from fuzz.surroundings import CANARY, CASES, ran
from noise.beside import verdict_of
from proof.live_content import links, loads
from proof.outputs import TICKETS, Output, analysed_once, frames, outputs, slower_outputs
from proof.trials import Trial, trial
from proof.watching import path_that_watches, seen_by_watch, watch_here

from nccldoctor import pipeline
from nccldoctor.incident import Incident

SLOWER_EVERY = 6
"""Of so many inputs one is tried in the slower outputs too."""

ALONE = "processes"
"""The family of inputs that the command tried in a process of its own."""

SURROUNDINGS = "surroundings"
"""The family of what lies around the command: homes, streams, disks, and folders too large to be made of bytes here."""

PROMISES = {
    "crash": "a traceback, or exit code 70, of any command",
    "part broke": "a file, rule or picture failed and was left out",
    "slow": f"more than {MOST_SECONDS} s of the processor for one input",
    "large": f"more than {MOST_MEMORY >> 30} GB of memory, all processes together",
    "code": "code of the input ran: a process, an import, an unpickled function, or a file that only such code writes",
    "request": "a connection, or a question for an address, by any process",
    "load": "something that a page would load or run, or that a ticket would turn into a link, an image or a mention",
    "flip": "wrong with high confidence, and not so before",
    "changed": "a verdict that innocent files changed",
    "unmentioned": "a file that neither the inputs nor the coverage mention",
    "secret": "a planted secret in an output",
    "differs": "the command in a process of its own says something else than here",
}
"""What no input may do, and what that means."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one input did. ``broken`` has the promises that it broke, each with what was seen; ``memory`` is in bytes."""

    name: str
    family: str
    about: str
    broken: dict[str, list[str]] = field(default_factory=dict)
    outputs: int = 0
    characters: int = 0
    seconds: float = 0.0
    memory: int = 0


def warm() -> None:
    """Load and compile here what every input needs, before processes are forked for them."""
    with _folder(trial(0)) as (scratch, folder):
        _shown(folder, scratch, trial(0))


def tried(one: Trial) -> Result:
    """Try one input in every output."""
    with _folder(one) as (scratch, folder):
        log = scratch / "watch.log"
        told = from_child(lambda: _watched(lambda: _shown(folder, scratch, one), log))
        broken = dict[str, list[str]](told.pop("broken", {}))
        _of_resources(broken, told)
        _of_watch(broken, log, scratch)
        if "answer" in told:
            answer = answer_of(told["answer"])
            if one.job is not None:
                _of_verdict(broken, one, one.job, answer, told["verdict"])
            _add(broken, "part broke", answer.broken)
        counts = {name: told.get(name, 0) for name in ("outputs", "characters", "seconds", "memory")}
        return Result(str(one.number), one.family, one.about, broken, **counts)


def tried_alone(one: Trial) -> Result:
    """Try one input by the command in a process of its own; its document must be the one that this process makes."""
    with _folder(one) as (scratch, folder):
        log = scratch / "watch.log"
        environment = {**os.environ, "PYTHONPATH": path_that_watches(scratch / "watching", log)}
        told = from_child(lambda: _by_command(folder, scratch, environment))
        broken = dict[str, list[str]](told.pop("broken", {}))
        _of_resources(broken, told)
        _of_watch(broken, log, scratch)
        counts = {name: told.get(name, 0) for name in ("characters", "seconds", "memory")}
        return Result(f"{one.number} alone", ALONE, one.about, broken, outputs=2, **counts)


def tried_surroundings(name: str) -> Result:
    """Try the command in odd surroundings."""
    seen = ran(CASES[name])
    broken = dict[str, list[str]]()
    for promise, what in seen.problems:
        _add(broken, promise, [what])
    return Result(
        f"surroundings {name}", SURROUNDINGS, CASES[name].about, broken, 1, seen.characters, seen.seconds, seen.memory
    )


@contextmanager
def _folder(one: Trial) -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "at").mkdir()
        yield scratch, write(scratch / "at" / "job", one.files)


def _watched(work: Callable[[], dict[str, Any]], log: Path) -> dict[str, Any]:
    """What ``work`` gives in this process, which is watched from here to its end."""
    watch_here(log)
    return work()


def _shown(folder: Path, scratch: Path, one: Trial) -> dict[str, Any]:
    broken: dict[str, list[str]] = {}
    count = characters = 0
    with chdir(folder.parent), analysed_once() as kept:
        made = [outputs(Path(folder.name), scratch)]
        made += [slower_outputs(Path(folder.name), scratch)] if one.number % SLOWER_EVERY == 0 else []
        for output in chain.from_iterable(made):
            count, characters = count + 1, characters + len(output.text)
            _of_output(broken, output)
        incident = next(iter(kept.values()), None)
        if incident is None:
            return {"broken": broken, "outputs": count, "characters": characters}
        shown = frames(incident)
        _of_output(broken, shown)
        _add(broken, "unmentioned", unmentioned(incident, one.files))
        return {
            "broken": broken,
            "outputs": count + 1,
            "characters": characters + len(shown.text),
            "answer": told_by(incident, one.files),
            "verdict": list(verdict_of(incident.unquoted)),
        }


def _of_output(broken: dict[str, list[str]], output: Output) -> None:
    """What is wrong with one output."""
    _add(broken, "crash", [f"{output.name}: {output.crash}"] if output.crash else [])
    _add(broken, "secret", [f"{output.name}: {secret}" for secret in shown_in(output.text)])
    if output.name.endswith(".html"):
        _add(broken, "load", [f"{output.name}: {one}" for one in loads(output.file)])
    elif output.name in TICKETS or output.name.endswith(".md"):
        text, dialect = (output.text, output.name) if output.name in TICKETS else (output.file, "md")
        _add(broken, "load", [f"{output.name}: {one}" for one in links(text, dialect)])


def _of_resources(broken: dict[str, list[str]], told: dict[str, Any]) -> None:
    _add(broken, "crash", [told["crash"]] if "crash" in told else [])
    _add(broken, "slow", [f"{told['seconds']:.0f} s"] if told["seconds"] > MOST_SECONDS else [])
    _add(broken, "large", [f"{told['memory'] >> 20} MB"] if told.get("memory", 0) > MOST_MEMORY else [])


def _of_watch(broken: dict[str, list[str]], log: Path, scratch: Path) -> None:
    for kind, what in seen_by_watch(log):
        _add(broken, kind, [what])
    _add(
        broken, "code", [str(path.relative_to(scratch)) for path in scratch.rglob(f"*{CANARY}*") if path.name == CANARY]
    )


def _of_verdict(
    broken: dict[str, list[str]], one: Trial, job: Labelled, after: Answer, verdict: list[str | None]
) -> None:
    before, same = _whole(job)
    if one.is_same and verdict != same:
        _add(broken, "changed", [f"{same} became {verdict}"])
    if "flip" in findings(job, before, after, one.files):
        _add(broken, "flip", [f"{before} became {after}"])


_WHOLE: dict[str, tuple[Answer, list[str | None]]] = {}


def _whole(job: Labelled) -> tuple[Answer, list[str | None]]:
    """The answer about the job before anything was done to it, and its verdict."""
    if job.name not in _WHOLE:
        with tempfile.TemporaryDirectory() as scratch:
            folder = write(Path(scratch) / "job", job.files)
            told = from_child(lambda: _judged(folder, job))
        _WHOLE[job.name] = (answer_of(told["answer"]), told["verdict"])
    return _WHOLE[job.name]


def _judged(folder: Path, job: Labelled) -> dict[str, Any]:
    incident: Incident = pipeline.analyze([folder])
    return {"answer": told_by(incident, job.files), "verdict": list(verdict_of(incident.unquoted))}


def _by_command(folder: Path, scratch: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The command in the folder of the input, as it is started by a person who unpacked a ticket."""
    page = scratch / "report.html"
    words = [sys.executable, "-m", "nccldoctor", "analyze", ".", "--format", "json", "-o", str(page)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=GIVEN_UP_AFTER)
    document, said = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    broken: dict[str, list[str]] = {}
    is_crash = done.returncode not in (0, 1, 2, 3) or "Traceback (most recent call last)" in said
    _of_output(broken, Output("json", document + said, "", said[-600:] or str(done.returncode) if is_crash else ""))
    if page.exists():
        _of_output(broken, Output(page.name, contents(text := page.read_text("utf-8")), text))
    with chdir(folder):
        here = pipeline.analyze(["."]).to_json()
    _add(broken, "differs", ["the document"] if document.strip() != here.strip() and not is_crash else [])
    return {"broken": broken, "characters": len(document)}


def _add(broken: dict[str, list[str]], promise: str, seen: Any) -> None:
    if seen:
        broken.setdefault(promise, []).extend(seen)
