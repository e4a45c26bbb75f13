"""What is tried, by number: damaged bytes, damaged jobs, innocent files beside jobs, and files that attack; all with planted secrets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from builders.files.packing import as_bytes
from damage.harness import damaged
from damage.kinds.registry import Files
from damage.labelled import Labelled, of_samples, of_simulator, of_stage
from damage.measure import chosen
from fuzz.run import case_of, samples_of
from noise.beside import SAMPLES, innocent_files
from proof.hostile import attacked
from proof.planting import planted, with_secrets_beside

FAMILIES = {
    "damaged bytes": "bytes, lines, numbers and opcodes in files of a bundled incident, some of them packed (`tests/fuzz/run.py`)",
    "damaged jobs": "jobs with known truth, damaged in one of the ways of [reliability](reliability.md) (`tests/damage/`)",
    "innocent files": "files of other programs and people beside each bundled incident (`tests/noise/`)",
    "attacks": "payloads in each place of a bundled incident that holds a text, and pickles that call functions (`tests/proof/hostile.py`)",
}
"""The families of trials, with what they try."""

_TURN = (0, 1, 1, 3, 0, 1, 3, 1, 2, 0)
"""The families of ten trials in a row."""

KINDS_OF_A_JOB = 3
FIRST_SEED = 500
"""Jobs of ``docs/reliability.md`` have lower numbers."""

_GROUPS = 9
"""Groups of innocent files; beside each incident they are tried all at once, and group by group."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One input: its files, and the job that it was made from where its truth is known.

    ``is_same``: the verdict must not change at all. ``about`` says what was done.
    """

    number: int
    family: str
    about: str
    files: Files
    job: Labelled | None
    is_same: bool = False


def trial(number: int) -> Trial:
    """The trial of a number. Same number, same bytes."""
    round_, place = divmod(number, len(_TURN))
    which = _TURN[place]
    turn = round_ * _TURN.count(which) + _TURN[:place].count(which)
    about, files, job = (_damaged_bytes, _damaged_job, _innocent, _attack)[which](turn)
    family = tuple(FAMILIES)[which]
    return Trial(number, family, about, files, job, family == "innocent files")


def _damaged_bytes(turn: int) -> tuple[str, Files, Labelled | None]:
    """What is damaged holds no secrets, which would be damaged too: a token without its beginning has no shape."""
    drawn = samples_of(turn)
    files = with_secrets_beside(case_of(turn), f"case {turn}")
    return f"case {turn} of {', '.join(drawn)}", files, _sample(drawn[0]) if len(drawn) == 1 else None


def _damaged_job(turn: int) -> tuple[str, Files, Labelled | None]:
    job = _job(turn // KINDS_OF_A_JOB)
    kinds = _kinds(turn // KINDS_OF_A_JOB)
    kind = kinds[turn % len(kinds)]
    files = damaged(kind, job)
    assert files is not None
    return f"{kind.name} on {job.name}", files, job


@lru_cache(maxsize=2)
def _kinds(turn: int) -> list:
    return chosen(_job(turn), KINDS_OF_A_JOB, "")


@lru_cache(maxsize=2)
def _job(turn: int) -> Labelled:
    """The bundled incidents, then jobs of both simulators in turn."""
    if turn < len(SAMPLES):
        return _sample(SAMPLES[turn])
    source, seed = (of_simulator, of_stage)[turn % 2], FIRST_SEED + turn
    return _planted(next(iter(source([seed]))))


def _innocent(turn: int) -> tuple[str, Files, Labelled | None]:
    job = _sample(SAMPLES[turn % len(SAMPLES)])
    group = turn // len(SAMPLES) % (_GROUPS + 1)
    beside = sorted(innocent_files().items())
    if group:
        random.Random("groups").shuffle(beside)
        beside = beside[group - 1 :: _GROUPS]
    what = f"group {group} of {_GROUPS}" if group else "all"
    return f"{what} of the innocent files beside {job.name}", job.files | as_bytes(dict(beside)), job


def _attack(turn: int) -> tuple[str, Files, Labelled | None]:
    job = _sample(SAMPLES[turn * 7 % len(SAMPLES)])
    about, files = attacked(job.files, turn)
    return f"{about} of {job.name}", files, job


def _planted(job: Labelled) -> Labelled:
    return Labelled(job.name, planted(job.files, job.name), job.truth)


@lru_cache(maxsize=len(SAMPLES))
def _sample(name: str) -> Labelled:
    return _planted(next(job for job in of_samples() if job.name == f"sample {name}"))


def trials(first: int, last: int) -> Iterator[Trial]:
    """The trials from ``first`` up to, and without, ``last``."""
    return map(trial, range(first, last))
