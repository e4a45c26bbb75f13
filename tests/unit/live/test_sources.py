"""What is watched: files that grow, and a RAS service that replays NCCL's protocol."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders.live.clocks import FakeClock
from builders.live.ras_server import RasServer, Report

import nccldoctor
from nccldoctor.events import RasStatus
from nccldoctor.live.sources import KEPT, WatchedFolder, WatchedRas, ras_address
from nccldoctor.model.errors import InputError

WELL = Report(calls=(40,) * 8)
ONE_DEAD = Report(calls=(41,) * 8, dead=(5,), stamp="2026-01-11 10:06:00")


def test_a_folder_has_grown_when_a_file_is_new_or_longer(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("step 1\n")
    watched = WatchedFolder(tmp_path)
    assert watched.has_grown()
    assert not watched.has_grown()
    with (tmp_path / "rank_0.log").open("a") as log:
        log.write("step 2\n")
    assert watched.has_grown()
    (tmp_path / "rank_1.log").write_text("")
    assert watched.has_grown()
    (tmp_path / ".rank_2.swp").write_text("hidden")
    assert not watched.has_grown()


def test_the_newest_file_says_when_something_was_written(tmp_path: Path) -> None:
    for name, when in (("a", 100), ("b", 300), ("c", 200)):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (when, when))
    watched = WatchedFolder(tmp_path)
    watched.has_grown()
    assert watched.last_written() == 300.0


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        WatchedFolder(tmp_path / "logs")


@pytest.mark.parametrize("knows_json", [True, False])
def test_a_dead_rank_is_read_from_the_report(knows_json: bool, tmp_path: Path) -> None:
    with RasServer([ONE_DEAD], knows_json) as server:
        watched = WatchedRas("localhost", server.port, tmp_path, FakeClock())
        assert watched.has_grown()
    assert server.heard == [["CLIENT PROTOCOL 2", "TIMEOUT 5", "SET FORMAT json", "VERBOSE STATUS"]]
    (kept,) = tmp_path.iterdir()
    assert kept.read_text() == (ONE_DEAD.as_json() if knows_json else ONE_DEAD.as_text())
    events = nccldoctor.analyze(tmp_path).case.of(RasStatus)
    assert ("DEAD", 7005, "10.0.0.12") in {(event.what, event.pid, event.host) for event in events}


def test_only_the_newest_answers_are_kept(tmp_path: Path) -> None:
    clock = FakeClock()
    with RasServer([WELL]) as server:
        watched = WatchedRas("localhost", server.port, tmp_path, clock)
        for _ in range(KEPT + 3):
            assert watched.has_grown()
            clock.sleep(10)
    assert len(list(tmp_path.iterdir())) == KEPT
    assert len(server.heard) == KEPT + 3


def test_three_questions_without_an_answer_are_the_end(tmp_path: Path) -> None:
    with RasServer([WELL]) as server:
        watched = WatchedRas("localhost", server.port, tmp_path, FakeClock())
        assert watched.has_grown()
    assert [(watched.has_grown(), watched.has_ended) for _ in range(3)] == [
        (False, False),
        (False, False),
        (False, True),
    ]


def test_no_service_at_all_is_an_error(tmp_path: Path) -> None:
    server = RasServer([WELL])
    with server:
        port = server.port
    with pytest.raises(InputError, match=f"no RAS at localhost:{port}") as raised:
        WatchedRas("localhost", port, tmp_path, FakeClock()).has_grown()
    assert "NCCL_RAS_ADDR" in raised.value.hint


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("ras://gpu-a07", ("gpu-a07", 28028)),
        ("ras://localhost:28029/", ("localhost", 28029)),
        ("ras://[2001:db8::1]:5000", ("2001:db8::1", 5000)),
    ],
)
def test_an_address_of_ras(url: str, address: tuple[str, int]) -> None:
    assert ras_address(url) == address


@pytest.mark.parametrize("url", ["http://a:1", "ras://", "ras://a:port", "ras://a:99999", "ras://a/path"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(InputError):
        ras_address(url)
