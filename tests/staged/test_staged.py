"""The staged jobs themselves: same seed same bytes, every scene plays, dumps load, truth fits what was played."""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import pytest
from staged import jobs
from staged.play import open_works
from staged.scenes.stage import SCENES

ALL = sorted(SCENES)


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
