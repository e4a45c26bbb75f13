"""The score of the history on a fleet's record, over small fleets whose truth is known."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from scoring.fleet import score_fleet
from scoring.fleet.score_fleet import Fault, Named, failed_again, failed_beside, first_named, read_faults, trials_of

FLEET = [f"s{number}" for number in range(50)]


def faults_with(offender: str, every: int) -> list[Fault]:
    """A fault a day for 120 days, each ``every``-th of the offender and the others of one server after the other."""
    return [Fault(offender if day % every == 0 else FLEET[1 + day % 49], float(day)) for day in range(120)]


def test_starts_are_read_in_the_order_of_their_days(tmp_path: Path) -> None:
    rows = [("b", 2.0, "fault_start"), ("a", 1.0, "fault_start"), ("a", 1.5, "fault_end")]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([dict(zip(("node_id", "event_time", "event_type"), row, strict=True)) for row in rows]))

    assert read_faults(path) == [Fault("a", 1.0), Fault("b", 2.0)]


@pytest.mark.parametrize("hosts", [50, 10])
def test_a_server_that_fails_every_fifth_time_is_named_and_nobody_else(hosts: int) -> None:
    faults = faults_with("s0", 5)
    named = first_named(faults, trials_of(faults, FLEET, hosts, random.Random(3)), 10, 1e9)

    assert [one.server for one in named] == ["s0"]
    assert named[0].incidents <= 40
    assert named[0].own == 1 + (named[0].incidents - 1) // 5


def test_a_short_window_forgets() -> None:
    faults = [*faults_with("s0", 5)[:60], *(Fault(FLEET[1 + n % 49], 400.0 + n) for n in range(40))]
    trials = trials_of(faults, FLEET, 50, random.Random(3))

    named = dict(score_fleet.looks(faults, trials, 10, 30))
    assert "s0" in named[60]
    assert named[100] == set()


def test_who_fails_again_is_counted_within_the_days_after_the_look() -> None:
    faults = [Fault("a", 0.0), Fault("b", 1.0), Fault("c", 2.0), Fault("a", 20.0), Fault("c", 90.0)]
    named = [Named("a", 1, 1, 5.0), Named("b", 2, 1, 5.0), Named("c", 3, 1, 80.0)]

    assert failed_again(faults, named) == (1, 2), "a failed again, b did not, and of c the record ends too early"
    assert failed_beside(faults, named[:2]) == (0, 1), "c failed by day 5 and not again until day 35"


def test_the_table_has_a_row_for_each_size_and_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"node_id": f.server, "event_time": f.day, "event_type": "fault_start"} for f in faults_with("s0", 3)]
    (tmp_path / "trace.json").write_text(json.dumps(rows))
    words = ["--fleet", "50", "--hosts", "50", "10", "--windows", "1e9", "30", "--every", "40", "--shuffles", "2"]

    assert score_fleet.main([str(tmp_path / "trace.json"), *words]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "120 faults of 50 of 50 servers in 119 days"
    assert [line.split(" | ")[:2] for line in shown[4:]] == [
        ["| 50", "all"],
        ["| 50", "30 days"],
        ["| 10", "all"],
        ["| 10", "30 days"],
    ]
