"""Dumps as recorders should not write them: sizes that are none, frames on some ranks only, active calls only."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
from builders.jobs.verdicts import Ruling, job, read

from nccldoctor.model.ranks import Ranks

Entry = dict[str, Any]

FAULTS = ("no_data", "stopped", "skipped", "one_more", "never_ends", "device_stopped", "swapped")


def altered(scenario: str, seed: int, change: Callable[[Entry, random.Random], None], **knobs: Any) -> Ruling:
    """What is said about a job whose recorders wrote such entries."""
    played, rng = job(scenario, seed, evidence="fr", **knobs), random.Random(seed)
    files = dict(played.files)
    for path, content in played.files.items():
        if isinstance(content, bytes):
            dump = pickle.loads(content)  # the test's own dump
            for entry in dump["entries"]:
                change(entry, rng)
            files[path] = pickle.dumps(dump, protocol=2)
    return read(files, played.truth)


def innocents_are_spared(ruling: Ruling) -> None:
    assert ruling.blamed <= set(ruling.truth["culprit_ranks"]), str(ruling)
    if ruling.sure == 3:
        assert ruling.cause in ruling.truth["acceptable_classes"], str(ruling)


def not_a_number(entry: Entry, rng: random.Random) -> None:
    if rng.random() < 0.2:
        entry["input_sizes"] = [[float("nan")]]


def negative(entry: Entry, rng: random.Random) -> None:
    kind = rng.choice(["input", "output", "huge", "", "", "", "", "", "", ""])
    if kind == "input":
        entry["input_sizes"] = [[-1]]
    elif kind == "output":
        entry["output_sizes"] = []
    elif kind == "huge":
        entry["output_sizes"] = [[2**62, 2**62]]


@pytest.mark.parametrize("change", [not_a_number, negative])
@pytest.mark.parametrize("scenario", FAULTS)
def test_sizes_that_cannot_be_read_differ_from_nothing(scenario: str, change: Callable[..., None]) -> None:
    layout = "tpdp" if scenario == "swapped" else "ddp"
    innocents_are_spared(altered(scenario, 2, change, layout=layout, gpus=4, era="2.4"))


def test_a_real_difference_shows_beside_sizes_that_cannot_be_read() -> None:
    def broken(entry: Entry, rng: random.Random) -> None:
        if rng.random() < 0.02:
            entry["input_sizes"] = [[float("nan")]]

    ruling = altered("other_size", 2, broken, layout="ddp", gpus=8)
    assert (ruling.cause, ruling.ranks) == ("size-mismatch", str(Ranks(ruling.truth["culprit_ranks"]))), str(ruling)


@pytest.mark.parametrize("nodes", [1, 2])
def test_calls_with_and_without_frames_are_not_compared_by_them(nodes: int) -> None:
    """A stream that is moved by one must not look like one call of another size, because its peer's recorder kept no stacks."""
    played = job("one_more", 1, evidence="fr", layout="ddp", nodes=nodes, gpus=8, era="2.4")
    files = dict(played.files)
    for path in sorted(p for p, c in played.files.items() if isinstance(c, bytes))[::2]:
        dump = pickle.loads(played.files[path])  # type: ignore[arg-type]
        for entry in dump["entries"]:
            entry.pop("frames", None)
        files[path] = pickle.dumps(dump, protocol=2)
    ruling = read(files, played.truth)
    assert (ruling.cause, ruling.ranks) == ("extra-call", str(Ranks(played.truth["culprit_ranks"]))), str(ruling)


@pytest.mark.parametrize("scenario", ["skipped_tensor", "swapped"])
@pytest.mark.parametrize("seed", [1, 2])
def test_dumps_of_active_calls_do_not_tell_who_issued_them_the_other_way_round(scenario: str, seed: int) -> None:
    """What is not there may have been issued and finished."""
    played = job(scenario, seed, evidence="fr", layout="tpdp", gpus=4, era="2.4")
    files = dict(played.files)
    for path, content in played.files.items():
        if isinstance(content, bytes):
            dump = pickle.loads(content)
            dump["entries"] = [e for e in dump["entries"] if e["state"] != "completed"]
            files[path] = pickle.dumps(dump, protocol=2)
    innocents_are_spared(read(files, played.truth))
