"""What a receiver is told of a watched job, and what happens where it fails."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from builders.live.clocks import FakeClock
from builders.live.receivers import TOKEN, Receiver

import nccldoctor
from nccldoctor.align.divergence.step_counters import Pace
from nccldoctor.cli import demo
from nccldoctor.incident import Incident
from nccldoctor.live import webhook
from nccldoctor.live.watch import Observation, State
from nccldoctor.live.webhook import PAUSES_S, Webhook
from nccldoctor.model.errors import InputError


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    folder = tmp_path_factory.mktemp("logs")
    demo.write("late-rank-three-groups", folder)
    return nccldoctor.analyze(folder)


def look(incident: Incident, state: str) -> Observation:
    """``stuck`` is by the pace alone, ``known`` with a cause, ``failed`` has ended; others are the states of a job."""
    kind = State.STUCK if state in ("known", "failed") else State(state)
    pace = Pace(quiet=312.0, longest=9.0)
    return Observation(
        1_780_000_000.0, kind, incident, pace, is_verdict=state in ("known", "failed"), is_over=state == "failed"
    )


@pytest.mark.parametrize(
    ("states", "events"),
    [
        ("running stuck stuck known known running running", ["stuck", "stuck", "moving"]),
        ("known stuck known failed", ["stuck", "failed"]),
        ("failed", ["failed"]),
        ("stuck running stuck ended", ["stuck", "moving", "stuck", "ended"]),
        ("running ended", []),
        ("stuck lost lost", ["stuck"]),
    ],
)
def test_each_thing_is_told_once(states: str, events: list[str], incident: Incident) -> None:
    receiver = Webhook("https://chat/x", "logs/", FakeClock())
    told = [receiver.news(look(incident, state)) for state in states.split()]
    assert [event for event in told if event] == events


def test_a_body_has_the_verdict_and_a_text_for_people(incident: Incident) -> None:
    with Receiver() as server:
        assert Webhook(server.url, "runs/logs", FakeClock()).post("failed", look(incident, "failed")) == ""
    ((method, kind, body),) = server.asked
    assert (method, kind) == ("POST", "application/json")
    headline = "Rank 1 never reached ALLREDUCE #9 of TP 1: it was in refresh_expert_table (train.py:121)."
    assert body == {
        "event": "failed",
        "class": "not-arrived",
        "confidence": "high",
        "ranks": "1",
        "hosts": "node0",
        "headline": headline,
        "path": "runs/logs",
        "time": "2026-05-28T20:26:40+00:00",
        "text": "`runs/logs`: Rank 1 never reached `ALLREDUCE #9` of TP 1: it was in `refresh_expert_table` "
        "(`train.py:121`). [not-arrived, confidence high]",
    }


def test_without_a_cause_the_text_says_how_long_nothing_moved(incident: Incident) -> None:
    with Receiver() as server:
        receiver = Webhook(server.url, "logs", FakeClock())
        receiver.post("stuck", look(incident, "stuck"))
        receiver.post("moving", look(incident, "running"))
    assert [body["text"] for body in server.bodies] == [
        "`logs`: The job counts as stuck. No rank has reported a step for 5 min 12 s.",
        "`logs`: The job moves again.",
    ]


def test_the_text_of_a_log_notifies_nobody(tmp_path: Path) -> None:
    for rank in range(2):
        trap = "ValueError: <!here> @all hf_aB3dE5gH7jK9aB3dE5gH7jK9aB3dE5gH7j\n"
        (tmp_path / f"rank_{rank}.log").write_text(
            f"[rank {rank}] step 1 loss=2\n"
            + (f'Traceback (most recent call last):\n  File "train.py", line 9, in load\n    x()\n{trap}' * rank)
        )
    with Receiver() as server:
        Webhook(server.url, "logs", FakeClock()).post("failed", look(nccldoctor.analyze(tmp_path), "failed"))
    (body,) = server.bodies
    assert "ValueError: &lt;!here&gt; `@all` `***" in body["text"]
    assert "hf_aB" not in str(body)


@pytest.mark.parametrize(
    ("statuses", "problem", "tries"),
    [
        ([500, 503, 200], "", 3),
        ([204], "", 1),
        ([404], "404 Not Found", 3),
        ([500, 500, 500, 200], "500 Internal Server Error", 3),
    ],
)
def test_a_post_is_tried_three_times(statuses: list[int], problem: str, tries: int, incident: Incident) -> None:
    clock = FakeClock()
    with Receiver(statuses) as server:
        assert Webhook(server.url, "logs", clock).post("stuck", look(incident, "stuck")) == problem
    assert len(server.asked) == tries
    assert clock.slept == list(PAUSES_S[1:tries])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("scheme", ["http", "file"])
def test_a_redirect_is_not_followed(status: int, scheme: str, incident: Incident, tmp_path: Path) -> None:
    with Receiver() as other, Receiver([status], other.url if scheme == "http" else tmp_path.as_uri()) as server:
        assert Webhook(server.url, "logs", FakeClock()).post("stuck", look(incident, "stuck")).startswith(str(status))
    assert not other.asked


def test_a_receiver_that_is_gone_or_silent_is_told_without_the_url(
    incident: Incident, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "PATIENCE_S", 0.05)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/{TOKEN}"
        assert Webhook(url, "logs", FakeClock()).post("stuck", look(incident, "stuck")) == "Connection refused"
        bound.listen()
        assert Webhook(url, "logs", FakeClock()).post("stuck", look(incident, "stuck")) == "TimeoutError"


@pytest.mark.parametrize(
    "url",
    [
        f"file:///{TOKEN}",
        f"ftp://host/{TOKEN}",
        f"host/{TOKEN}",
        f"https:///{TOKEN}",
        f"https://me:{TOKEN}@host/",
        f"https://host:{TOKEN}/",
        f"https://host/{TOKEN} x",
        f"https://host/{TOKEN}\n",
        f"https://host/{TOKEN}ä",
        f"https://[{TOKEN}/",
    ],
)
def test_what_cannot_be_posted_to_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InputError) as error:
        Webhook(url, "logs", FakeClock())
    assert TOKEN.lower() not in f"{error.value.message} {error.value.hint}".lower()
