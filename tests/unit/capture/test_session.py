"""One rank that is captured: a fake torch, and a clock that the test moves."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from nccldoctor.capture import session as module
from nccldoctor.capture.evidence import Evidence, Scratch, prepare
from nccldoctor.capture.identity import Identity
from nccldoctor.capture.session import Session

ME = Identity(rank=3, world=8, host="node0", pid=os.getpid())


def scratch() -> Scratch:
    return Scratch(Path(tempfile.mkdtemp(prefix="nccldoctor-")))


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic


class Job:
    """A session without its thread: ``pass_time`` is one glance of the watcher."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.clock = clock
        self.failed: list[str] = []
        self.calls = (5,)
        self.evidence: Evidence = prepare(folder, ME)
        self.session = Session(self.evidence, ME, scratch(), 10.0, True, self.failed.append)
        self.session.torch.calls = lambda: self.calls  # type: ignore[method-assign]
        self.session.torch.groups = list  # type: ignore[method-assign]
        self.session._told_groups = 1

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now += 1
            self.session._glance()

    def looks(self) -> list[str]:
        return [name for name in self.evidence.known_looks() if self.evidence.stack(name).exists()]

    def log(self) -> str:
        return self.evidence.log.read_text()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "recorder_dumps", lambda: iter([("fr_trace_", b"calls")]))
    job = Job(tmp_path, clock)
    yield job
    job.session.release()


def test_a_rank_that_steps_leaves_heartbeats_and_no_stacks(job: Job) -> None:
    for step in range(1, 31):
        job.session.step = step
        job.pass_time(1)
    assert "[rank 3] heartbeat: step=30\n" in job.log()
    assert not job.looks()


def test_calls_alone_are_progress(job: Job) -> None:
    for number in range(30):
        job.calls = (number,)
        job.pass_time(1)
    assert not job.looks()


def test_a_stall_leaves_two_looks_and_a_dump(job: Job) -> None:
    job.pass_time(60)
    assert len(job.looks()) == 2
    text = job.evidence.stack(job.looks()[-1]).read_text()
    assert "test_a_stall_leaves_two_looks_and_a_dump" in text
    assert (job.evidence.recorder / "fr_trace_3").read_bytes() == b"calls"


def test_the_dump_of_a_stall_outlives_that_of_the_way_out_and_gives_way_to_the_next_stall(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [b"#92 stuck"]
    monkeypatch.setattr(module, "recorder_dumps", lambda: iter([("fr_trace_", held[0])]))
    job.session.step = 40
    job.pass_time(20)
    assert not (job.evidence.recorder / "at-stall" / "fr_trace_3").exists(), "one dump while it stands"
    for call, content in ((93, b"#93 of the clean-up"), (94, b"#94")):
        held[0], job.calls = content, (call,)
        job.pass_time(20)
    dumps = job.evidence.recorder
    assert (dumps / "fr_trace_3").read_bytes() == b"#94"
    assert (dumps / "at-stall" / "fr_trace_3").read_bytes() == b"#92 stuck"
    job.session.step, held[0] = 41, b"#99 stuck"
    job.pass_time(1)
    assert not (dumps / "at-stall" / "fr_trace_3").exists(), "the rank went on"
    job.pass_time(60)
    held[0] = b"#100 of the way out"
    job.session.leave()
    assert (dumps / "at-stall" / "fr_trace_3").read_bytes() == b"#99 stuck"
    assert (dumps / "fr_trace_3").read_bytes() == b"#100 of the way out"


def test_a_rank_joins_the_look_of_another(job: Job) -> None:
    job.session.step = 1
    job.pass_time(1)
    job.evidence.open_look(job.clock.now)
    job.pass_time(1)
    assert len(job.looks()) == 1


def test_looks_that_several_ranks_ask_for_at_once_are_one_and_a_second_one_follows(job: Job) -> None:
    job.pass_time(9)
    job.evidence.open_look(job.clock.now)
    job.evidence.open_look(job.clock.now + 1)
    job.pass_time(1)
    assert len(job.looks()) == 2
    job.pass_time(5)
    assert len(job.looks()) == 3
    job.pass_time(20)
    assert len(job.looks()) == 3


def test_a_rank_joins_a_look_that_it_sees_instead_of_asking_for_another(job: Job) -> None:
    job.pass_time(10)
    assert not job.looks()
    look = job.evidence.open_look(job.clock.now - 3)
    job.pass_time(1)
    assert job.looks() == [look]


def test_of_many_new_looks_a_rank_joins_the_newest_alone(job: Job) -> None:
    for second in range(50):
        job.evidence.open_look(job.clock.now + second)
    job.pass_time(3)
    assert job.looks() == job.evidence.known_looks()[-2:]


def test_the_looks_of_a_stall_that_ended_give_way_to_the_next(job: Job) -> None:
    job.pass_time(20)
    first = job.looks()
    job.session.step = 1
    job.pass_time(1)
    assert job.looks() == first
    job.pass_time(20)
    assert len(job.looks()) == 2
    assert not set(job.looks()) & set(first)


def test_a_phase_is_told_and_is_progress(job: Job) -> None:
    job.session.step = 4
    job.pass_time(1)
    job.session.phase = "checkpoint"
    job.pass_time(9)
    assert "heartbeat: step=4 phase=checkpoint" in job.log()
    assert not job.looks()


def test_sigusr1_makes_a_look_without_a_stall(job: Job) -> None:
    os.kill(os.getpid(), signal.SIGUSR1)
    job.pass_time(1)
    (look,) = job.looks()
    assert f"nccldoctor.capture asks all ranks for look {look}, to be answered within 2 s" in job.log()


def test_a_handler_of_the_job_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        job = Job(tmp_path, Clock())
        os.kill(os.getpid(), signal.SIGUSR1)
        assert heard == [signal.SIGUSR1]
        job.session.release()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert len(heard) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_folder_that_goes_away_costs_one_warning(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.evidence.log.unlink(missing_ok=True)
    job.evidence.log.mkdir()
    job.session.step = 1
    monkeypatch.setattr(job.session, "_waits", SimpleNamespace(acquire=lambda timeout: bool(job.failed)))
    job.session._runs.acquire()
    job.session._watch()
    assert len(job.failed) == 1


def test_the_way_out_writes_last_words_once(job: Job) -> None:
    job.session.leave()
    job.session.leave()
    assert job.log().count("the interpreter exits") == 1


def test_optimizer_steps_of_the_first_optimizer_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from nccldoctor.capture import torch_state

    hooks: list[object] = []
    handle = SimpleNamespace(remove=hooks.clear)

    def register(hook: object) -> SimpleNamespace:
        hooks.append(hook)
        return handle

    optimizer = SimpleNamespace(register_optimizer_step_post_hook=register)
    monkeypatch.setattr(torch_state, "loaded", lambda name: optimizer)
    state = torch_state.TorchState()
    state.attach()
    state.attach()
    generator, critic = object(), object()
    for stepping in (generator, critic, critic, generator):
        hooks[0](stepping, (), {})  # type: ignore[operator]
    assert state.optimizer_steps == 2
    state.detach()
    assert not hooks


def test_the_thread_is_gone_after_the_end(tmp_path: Path) -> None:
    evidence = prepare(tmp_path, ME)
    session = Session(evidence, ME, scratch(), 1.0, True, lambda why: None)
    session.begin()
    assert session._runs.locked()
    session.leave()
    assert not session._runs.locked()
