"""``nccldoctor watch``: what it prints, how it ends, and the command that it runs."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from builders.live.clocks import FakeClock
from builders.live.ras_server import RasServer, Report
from builders.live.receivers import TOKEN, Receiver
from click.testing import CliRunner

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.cli.app import cli
from nccldoctor.cli.live import watching
from nccldoctor.cli.live.watching import watch_source
from nccldoctor.ingest import ingest
from nccldoctor.live.hook import hook_variables, run_hook
from nccldoctor.live.metrics import MetricsServer, metrics_server


def test_a_stuck_job_ends_the_watch_with_its_report(tmp_path: Path) -> None:
    demo.write("late-rank-three-groups", tmp_path / "logs")
    result = CliRunner().invoke(cli, ["watch", str(tmp_path / "logs")])
    assert result.exit_code == 1
    assert "Rank 1" in result.stdout.splitlines()[0]
    assert "error[not-arrived]" in result.stdout


def log_of_a_stopped_job(folder: Path) -> None:
    """Its last step is of long ago."""
    log = folder / "rank_0.log"
    log.write_text("".join(f"2026-01-11 10:05:0{n} [rank 0] step {n} loss=2.5\n" for n in range(9)))
    os.utime(log, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize(("job", "look"), [(None, "--pid all --twice 10"), ("4711", "--slurm 4711 --twice 10")])
def test_a_job_that_just_stops_is_stuck_without_a_cause(job: str | None, look: str, tmp_path: Path) -> None:
    log_of_a_stopped_job(tmp_path)
    result = CliRunner(env={"SLURM_JOB_ID": job}).invoke(cli, ["watch", str(tmp_path)])
    assert result.exit_code == 1
    assert "The job counts as stuck. No rank has reported a step for" in result.stdout
    assert f"next: nccldoctor live {look}" in result.stderr
    assert "help:" not in result.stdout, "a look at the job comes first"


def test_a_healthy_job_that_ended_is_zero(tmp_path: Path) -> None:
    demo.write("healthy", tmp_path / "logs")
    assert CliRunner().invoke(cli, ["watch", str(tmp_path / "logs")]).exit_code == 0


def test_the_command_gets_the_verdict_as_variables(tmp_path: Path) -> None:
    demo.write("late-rank-three-groups", tmp_path / "logs")
    told = tmp_path / "told"
    hook = (
        f'printf "%s|%s|%s|%s" "$NCCLDOCTOR_CLASS" "$NCCLDOCTOR_RANKS" "$NCCLDOCTOR_EXIT" "$NCCLDOCTOR_PATH" > {told}'
    )
    assert CliRunner().invoke(cli, ["watch", str(tmp_path / "logs"), "--exec", hook]).exit_code == 1
    assert told.read_text() == f"not-arrived|1|1|{tmp_path / 'logs'}"


def test_the_text_of_a_log_is_never_part_of_a_shell_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception of a rank is in the headline, and is data."""
    (tmp_path / "logs").mkdir()
    monkeypatch.chdir(tmp_path)
    trap = Path("trap")
    for rank in range(2):
        (tmp_path / "logs" / f"rank_{rank}.log").write_text(
            f"[rank {rank}] step 1 loss=2\n"
            + ('Traceback (most recent call last):\n  File "train.py", line 9, in load\n    x()\n' if rank else "")
            + (f"ValueError: $(touch {trap}); `touch {trap}`; '; touch {trap} #\n" if rank else "")
        )
    incident = nccldoctor.analyze(tmp_path / "logs")
    variables = hook_variables(incident, "logs", 1)
    assert str(trap) in variables["NCCLDOCTOR_HEADLINE"]
    assert run_hook('test -n "$NCCLDOCTOR_HEADLINE"', variables) == ""
    assert not trap.exists()


def test_a_command_that_fails_or_hangs_is_told(tmp_path: Path) -> None:
    assert run_hook("exit 4", {}) == "exit code 4"
    assert run_hook("sleep 600", {}, patience=0.1) == "no end within 0 s"


def test_a_command_that_fails_is_told_on_the_terminal_and_by_the_exit_code(tmp_path: Path) -> None:
    demo.write("late-rank-three-groups", tmp_path / "logs")
    result = CliRunner().invoke(cli, ["watch", str(tmp_path / "logs"), "--exec", "exit 3"])
    assert result.exit_code == 4
    assert "error[not-arrived]" in result.stdout
    assert "error: the command of --exec failed with exit code 3" in result.stderr
    demo.write("healthy", tmp_path / "well")
    assert CliRunner().invoke(cli, ["watch", str(tmp_path / "well"), "--exec", "exit 3"]).exit_code == 0


START = 1_780_000_000.0


def watched(
    folder: Path,
    hook: str | None,
    *,
    steps_at: tuple[int, ...],
    stopped_at: int,
    looks_on: Callable[[int], object] = int,
    **told: str,
) -> int:
    """The exit code of a watch of a rank that reports steps at these seconds; SIGTERM comes at the last one.

    ``looks_on`` is called with each second that a look follows.
    """
    log = folder / "logs" / "rank_0.log"
    log.parent.mkdir()
    steps = list(steps_at)

    def plays(now: float) -> None:
        second = int(now - START)
        looks_on(second)
        while steps and steps[0] <= second:
            with log.open("a") as file:
                file.write(f"[rank 0] step {steps.pop(0)} loss=2.5\n")
            os.utime(log, (now, now))
        if second >= stopped_at:
            os.kill(os.getpid(), signal.SIGTERM)

    plays(START)
    wishes = {"every": 10.0, "behind": 500.0, "stall": 60.0, "color": "never"}
    return watch_source(str(log.parent), hook=hook, clock=FakeClock(START, plays), **wishes, **told)


@pytest.mark.parametrize(
    ("steps_at", "stopped_at", "alarms", "code"),
    [
        ((0, 10, 100, 110), 400, 2, 1),
        ((0, 10), 400, 1, 1),
        ((0, 10, 100, 110), 130, 1, 0),
    ],
    ids=["stuck twice", "stuck for good", "only a pause"],
)
def test_a_command_runs_at_each_alarm_of_a_job_that_moved_in_between(
    steps_at: tuple[int, ...], stopped_at: int, alarms: int, code: int, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    assert watched(tmp_path, f"echo alarm >> {told}", steps_at=steps_at, stopped_at=stopped_at) == code
    assert told.read_text().splitlines() == ["alarm"] * alarms
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_second_signal_while_the_watch_ends_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def echo(text: str, **_: object) -> None:
        told.append(text)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(watching.click, "echo", echo)
    assert watched(tmp_path, "true", steps_at=(0, 10), stopped_at=30) == 0
    assert told == ["the watch was stopped"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_command_that_failed_at_an_alarm_that_stands_is_four(tmp_path: Path) -> None:
    assert watched(tmp_path, "exit 3", steps_at=(0, 10), stopped_at=400) == 4


@pytest.mark.parametrize(("hook", "has_next"), [(None, True), ("true", False)])
def test_where_a_command_collects_nobody_is_asked_to_look(
    hook: str | None, has_next: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(tmp_path, hook, steps_at=(0, 10), stopped_at=400)
    assert ("next:" in capsys.readouterr().err) is has_next


def test_without_a_command_the_first_alarm_ends_the_watch(tmp_path: Path) -> None:
    assert watched(tmp_path, None, steps_at=(0, 10, 100), stopped_at=110) == 1


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[MetricsServer]:
    """The server of a watch that listens at a free port."""
    servers: list[MetricsServer] = []

    @contextmanager
    def noted(address: str) -> Iterator[MetricsServer]:
        with metrics_server(address) as server:
            servers.append(server)
            yield server

    monkeypatch.setattr(watching, "metrics_server", noted)
    return servers


def test_a_scraper_sees_a_stall_come_and_go(
    tmp_path: Path, served: list[MetricsServer], capsys: pytest.CaptureFixture[str]
) -> None:
    pages: dict[int, str] = {}

    def scrapes(second: int) -> None:
        if second:
            address = f"http://127.0.0.1:{served[0].server_address[1]}/metrics"
            with build_opener(ProxyHandler({})).open(address) as answer:
                pages[second - 10] = answer.read().decode()

    code = watched(tmp_path, None, steps_at=(0, 10, 100), stopped_at=120, looks_on=scrapes, metrics=":0")
    assert code == 0, "it moved when the watch was stopped"
    stuck = {second: "\nnccldoctor_stuck 1\n" in page for second, page in pages.items()}
    assert {second for second, is_stuck in stuck.items() if is_stuck} == {80, 90}
    assert list(pages) == list(range(0, 120, 10))
    assert f"\nnccldoctor_last_look_timestamp_seconds {START + 90}\n" in pages[90]
    assert '_without_progress_seconds{of="step"} 80.0\n' in pages[90]
    assert "\nnccldoctor_last_step 100\n" in pages[100]
    out = capsys.readouterr()
    assert "The job moves again." in out.out
    assert out.err.splitlines()[1:] == ["the watch was stopped"], "a scrape is no line of the watch"
    with socket.socket() as gone:
        assert gone.connect_ex(served[0].server_address) != 0, "the server ends with the watch"


def test_a_watch_whose_port_is_in_use_does_not_start(tmp_path: Path) -> None:
    demo.write("healthy", tmp_path / "logs")
    with metrics_server(":0") as other:
        port = other.server_address[1]
        result = CliRunner().invoke(cli, ["watch", str(tmp_path / "logs"), "--metrics", f":{port}"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: --metrics :{port}: Address already in use" in result.stderr


def posted(server: Receiver) -> list[str]:
    return [body["event"] for body in server.bodies]


def test_a_receiver_is_told_of_each_alarm_and_of_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with Receiver() as server:
        code = watched(tmp_path, None, steps_at=(0, 10, 100, 110), stopped_at=400, webhook=server.url)
    assert (code, posted(server)) == (1, ["stuck", "moving", "stuck"])


@pytest.mark.parametrize(("steps_at", "code"), [((0, 10), 4), ((0, 10, 100), 0)], ids=["it stands", "it moves"])
def test_a_post_that_fails_is_one_line_and_the_exit_code_of_an_alarm_that_stands(
    steps_at: tuple[int, ...],
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    told = tmp_path / "told"
    with Receiver([500, 500, 500, 200]) as server:
        assert watched(tmp_path, f"echo > {told}", steps_at=steps_at, stopped_at=200, webhook=server.url) == code
    assert told.exists(), "the command runs all the same"
    out, err = capsys.readouterr()
    assert "error: the post to 127.0.0.1 failed with 500 Internal Server Error" in err.splitlines()
    assert TOKEN not in out + err
    assert posted(server) == ["stuck"] * 3 + ["moving"] * (code == 0)


def test_a_job_that_failed_is_posted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.write("late-rank-three-groups", tmp_path / "logs")
    with Receiver() as server:
        environment = {"NCCLDOCTOR_WEBHOOK": server.url, "no_proxy": "*"}
        result = CliRunner(env=environment).invoke(cli, ["watch", str(tmp_path / "logs")])
    assert result.exit_code == 1, result.output
    assert [(body["event"], body["class"], body["ranks"]) for body in server.bodies] == [("failed", "not-arrived", "1")]


def test_a_receiver_that_is_no_url_is_two(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["watch", str(tmp_path), "--webhook", f"file:///{TOKEN}"])
    assert result.exit_code == 2
    assert "--webhook" in result.stderr
    assert TOKEN not in result.output


@pytest.mark.parametrize(("source", "says"), [("nowhere", "no such file"), ("http://a", "names no RAS service")])
def test_nothing_to_watch_is_two(source: str, says: str) -> None:
    result = CliRunner().invoke(cli, ["watch", source])
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_dead_rank_of_ras_is_one() -> None:
    with RasServer([Report((45,) * 8, dead=(5,))]) as server:
        result = CliRunner().invoke(cli, ["watch", f"ras://localhost:{server.port}"])
    assert result.exit_code == 1, result.output
    assert "ank 5" in result.stdout


def test_a_stop_while_a_file_is_read_is_no_broken_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps one broken file from costing the others must not swallow SIGTERM: a batch script waits for the end of the watch."""
    demo.write("healthy", tmp_path / "logs")
    begun = []

    def stopped(one: object, *_: object) -> None:
        begun.append(one)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ingest, "_parse", stopped)
    result = CliRunner().invoke(cli, ["watch", str(tmp_path / "logs"), "--stall", "600"])
    assert "the watch was stopped" in result.stderr
    assert len(begun) == 1, "no further file was read"
