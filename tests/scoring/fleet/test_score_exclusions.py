"""What attributions leave out holds a culprit, also where ranks run in pods or no line names the host of a rank."""

from __future__ import annotations

import pytest
from scoring.fleet.score_exclusions import counted, hosts_at_fault


@pytest.mark.parametrize("seed", [87, 200, 211, 219])
def test_an_excluded_node_holds_the_culprit(seed: int) -> None:
    """The board of a pod's node, one of a rank without a host, and a pod that froze."""
    found = counted("simulator", seed)

    assert (found["excluded"], found["innocent excluded"]) == (1, 0)


def test_hosts_of_every_answer_are_at_fault() -> None:
    truth = {"culprit_ranks": [1], "acceptable_rank_sets": [[4, 5]], "hosts": {"a": [0, 1], "b": [2, 3], "c": [4, 5]}}

    assert hosts_at_fault(truth) == {"a", "c"}
