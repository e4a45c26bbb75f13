"""The staged jobs themselves: same seed same bytes, every scene plays, dumps load, truth fits what was played."""

from __future__ import annotations

import io
import json
import pickle
import re
from typing import Any

import pytest
from staged import jobs
from staged.play import open_works
from staged.scenes.stage import SCENES, STRANGE
from staged.scenes.strange_files import OUTPUTS, rank_of

ALL = sorted(SCENES | STRANGE)


class Strict(pickle.Unpickler):
    """A dump needs no class and no function to load."""

    def find_class(self, module: str, name: str) -> object:
        raise AssertionError(f"{module}.{name}")


def load(content: bytes) -> Any:
    return json.loads(content) if content[:1] == b"{" else Strict(io.BytesIO(content)).load()


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_bytes(name: str) -> None:
    one, other = jobs.make(5, scenario=name), jobs.make(5, scenario=name)
    assert one.files == other.files
    assert one.truth == other.truth


@pytest.mark.parametrize("name", ALL)
def test_every_scene_leaves_files_and_a_consistent_truth(name: str) -> None:
    for seed in range(8):
        job = jobs.make(seed, scenario=name)
        truth, stalled = job.truth, job.truth["stalled"]
        assert job.files
        assert set(truth["culprit_ranks"]) <= set(range(truth["world_size"]))
        assert truth["class"] in truth["acceptable_classes"]
        still = [w for row in job.played.works for w in open_works(row)]
        assert bool(still) == truth["hang"] == (stalled is not None)
        if stalled is not None:
            entered, missing = set(stalled["entered"]), set(stalled["missing"])
            assert entered
            assert not entered & missing
            assert stalled["kind"] == "p2p" or entered | missing == set(stalled["members"])
        for content in job.files.values():
            if isinstance(content, bytes):
                load(content)


def test_nobody_waits_for_nothing() -> None:
    """A call that has not ended lacks a member, differs on a member, or stands behind one that has not ended."""
    job = jobs.make(3, scenario="busy_rank")
    (culprit,) = job.truth["culprit_ranks"]
    assert job.truth["stalled"]["missing"] == [culprit]
    assert not any(w.call.group.uid == job.truth["stalled"]["group"] for w in open_works(job.played.works[culprit]))


def test_no_seed_draws_a_strange_scene() -> None:
    assert STRANGE
    assert {jobs.scene_of(seed) for seed in range(500)} == {*SCENES}


def test_a_rank_without_a_file_has_none() -> None:
    job = jobs.make(3, scenario="rank_without_a_file")
    named = {rank_of(name) for name in job.files if not name.endswith((".md", ".yaml", ".py"))}
    assert named == {*range(job.plan.world)} - {*job.truth["culprit_ranks"]}


def test_one_innocent_dump_holds_what_is_no_bool() -> None:
    job = jobs.make(3, scenario="retired_that_is_no_bool")
    held = {rank_of(name): load(content) for name, content in job.files.items() if isinstance(content, bytes)}
    odd = {rank for rank, dump in held.items() if not all(type(e["retired"]) is bool for e in dump["entries"])}
    assert len(odd) == 1
    assert odd.isdisjoint(job.truth["culprit_ranks"])


def test_an_earlier_run_stands_above_and_blames_another_rank() -> None:
    job = jobs.make(3, scenario="earlier_run_in_the_same_file")
    (text,) = (str(content) for name, content in job.files.items() if name in OUTPUTS)
    raised, fired = text.index("Traceback"), text.index("Watchdog caught")
    assert raised < fired
    assert text[:raised].rpartition("[rank")[2].split("]")[0] != str(job.truth["culprit_ranks"][0])


def test_a_host_with_a_clock_ahead_says_the_same_six_seconds_later() -> None:
    job = jobs.make(3, scenario="clock_ahead")
    signals = {
        host: min(re.findall(r"\[E\d+ (\d\d:\d\d:\d\d)\S+ .*Received a dump signal", str(text)))
        for host, text in job.files.items()
        if host.endswith(".log")
    }
    ahead = f"{job.plan.host(job.truth['culprit_ranks'][0])}.log"
    others = [seconds(clock) for host, clock in signals.items() if host != ahead]
    assert others
    assert all(3 < seconds(signals[ahead]) - other < 9 for other in others)


def seconds(clock: str) -> int:
    hours, minutes, rest = map(int, clock.split(":"))
    return hours * 3600 + minutes * 60 + rest
