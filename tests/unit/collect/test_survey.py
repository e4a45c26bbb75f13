"""Several jobs on several hosts: one is chosen before any stack is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.live import shims

from nccldoctor.collect import gather
from nccldoctor.collect.node_options import NodeOptions
from nccldoctor.collect.reach.ssh import Ssh
from nccldoctor.collect.reach.way import Way

HOLDS = {"n1": {"PORT=1": [0, 1], "PORT=2": [0, 1, 2]}, "n2": {"PORT=1": [2, 3]}}
"""The job on port 1 is the larger one, and n1 has more ranks of the other."""

LISTS = """
held = {holds}.get(node, {{}})
described["processes"] = [{{"job": job, "rank": rank, "pid": 50 + rank, "ended": False}} for job in held for rank in held[job]]
with tarfile.open("""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> shims.Cluster:
    return shims.Cluster(tmp_path / "bin", monkeypatch)


def asked(
    cluster: shims.Cluster,
    monkeypatch: pytest.MonkeyPatch,
    holds: dict[str, dict[str, list[int]]],
    way: Way,
    options: NodeOptions,
) -> list[str]:
    """What stands behind the options of the collector in each command, in order of the names of the hosts."""
    source = shims.COLLECTOR.replace("\nwith tarfile.open(", LISTS.format(holds=holds), 1)
    monkeypatch.setattr(gather, "collector_source", lambda: source)
    gather.gather_bundle(way, options, cluster.folder / "b.tar.zst")
    return sorted(command[-1].partition("--limit-mb 512")[2] for command in cluster.asked())


def test_all_hosts_are_asked_for_stacks_of_the_job_that_is_largest_on_all(
    cluster: shims.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = asked(cluster, monkeypatch, HOLDS, Ssh(("n1", "n2")), NodeOptions())
    assert words == [" --job PORT=1"] * 2 + [" --survey"] * 2


@pytest.mark.parametrize(
    ("hosts", "holds", "options"),
    [
        (("n1",), HOLDS, NodeOptions()),
        (("n1", "n2"), HOLDS, NodeOptions(where=("PORT=1",))),
    ],
)
def test_one_host_chooses_by_itself_and_a_variable_has_chosen(
    cluster: shims.Cluster,
    monkeypatch: pytest.MonkeyPatch,
    hosts: tuple[str, ...],
    holds: dict[str, dict[str, list[int]]],
    options: NodeOptions,
) -> None:
    assert asked(cluster, monkeypatch, holds, Ssh(hosts), options) == [""] * len(hosts)


def test_hosts_with_one_job_or_without_an_answer_are_asked_as_they_are(
    cluster: shims.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.misbehave("n2", shims.REFUSED)
    words = asked(cluster, monkeypatch, {"n1": {"PORT=1": [0, 1]}}, Ssh(("n1", "n2")), NodeOptions())
    assert words == [""] * 2 + [" --survey"] * 2
