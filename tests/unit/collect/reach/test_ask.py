"""All targets are asked at once, and each costs itself alone."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from builders.live import shims

from nccldoctor.collect.bundle import Answer
from nccldoctor.collect.reach import ask
from nccldoctor.collect.reach.ask import Limits, ask_all, look_up
from nccldoctor.collect.reach.ssh import Ssh
from nccldoctor.collect.reach.way import Target
from nccldoctor.model.errors import InputError

PATIENT = Limits(seconds=300.0, size=1 << 20, silence=300.0)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> shims.Cluster:
    return shims.Cluster(tmp_path / "bin", monkeypatch)


@pytest.fixture
def collector(tmp_path: Path) -> Path:
    path = tmp_path / "on_node.py"
    path.write_text(shims.COLLECTOR)
    return path


def over_ssh(*hosts: str, python: tuple[str, ...] = ("python3", "-")) -> tuple[Target, ...]:
    return Ssh(hosts).find_targets(look_up, python)


def members(answer: Answer) -> dict[str, bytes]:
    assert answer.stream is not None
    with tarfile.open(fileobj=io.BytesIO(answer.stream.read_bytes())) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def test_every_target_gets_the_collector_and_answers(cluster: shims.Cluster, collector: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    answers = ask_all(
        over_ssh("n0", "n1", "n2"), collector, tmp_path, PATIENT, lambda answer: heard.append(answer.node)
    )
    assert [(answer.node, answer.error) for answer in answers] == [("n0", None), ("n1", None), ("n2", None)]
    assert sorted(heard) == ["n0", "n1", "n2"]
    for answer in answers:
        assert f"rank 0 on {answer.node}: step 7".encode() in members(answer)["rank-0/train.log"]


def test_no_more_are_asked_at_once_than_wanted(cluster: shims.Cluster, collector: Path, tmp_path: Path) -> None:
    limits = Limits(seconds=300.0, size=1 << 20, silence=300.0, at_once=1)
    order: list[str] = []
    ask_all(over_ssh("n0", "n1", "n2"), collector, tmp_path, limits, lambda answer: order.append(answer.node))
    assert order == ["n0", "n1", "n2"]


def test_a_silent_host_costs_itself_alone(
    cluster: shims.Cluster, collector: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of the silent host ends when the others have answered: nothing depends on how fast they are."""
    cluster.misbehave("n1", shims.SILENT.format(pid=tmp_path / "pid"))
    cluster.misbehave("n2", shims.GARBAGE)
    started: list[asyncio.Timeout] = []
    unlimited = asyncio.timeout

    def limit(seconds: float | None) -> asyncio.Timeout:
        started.append(unlimited(None))
        return started[-1]

    heard: list[str] = []

    def others_answered(answer: Answer) -> None:
        heard.append(answer.node)
        if len(heard) == 3:
            for timeout in started:
                with suppress(RuntimeError):  # that of a host which answered has ended
                    timeout.reschedule(asyncio.get_running_loop().time())

    monkeypatch.setattr(ask.asyncio, "timeout", limit)
    answers = ask_all(over_ssh("n0", "n1", "n2", "n3"), collector, tmp_path, Limits(40.0, 1 << 20), others_answered)
    assert [answer.error for answer in answers] == [None, "no answer in 25 s", None, None]
    assert answers[2].stream is not None
    assert answers[2].stream.read_bytes() == b"Welcome to node n2!\n"
    assert heard[-1] == "n1"
    assert shims.has_ended(int((tmp_path / "pid").read_text()))


def test_a_limit_ends_the_command_and_what_it_started(cluster: shims.Cluster, collector: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    cluster.misbehave("n0", f"trap '' TERM; sleep 3600 & echo $! > {pid}; printf half; wait; wait")
    (answer,) = ask_all(over_ssh("n0"), collector, tmp_path, Limits(1.0, 1 << 20))
    assert answer.error in ("cut off after 1 s, when 4 bytes had arrived", "no answer in 1 s")
    assert not pid.exists() or shims.has_ended(int(pid.read_text()))


def test_a_flood_is_cut_at_the_limit(cluster: shims.Cluster, collector: Path, tmp_path: Path) -> None:
    cluster.misbehave("n0", "exec cat /dev/zero")
    flood, fine = ask_all(over_ssh("n0", "n1"), collector, tmp_path, PATIENT)
    assert flood.error == "more than 1.05 MB: the rest was not taken"
    assert flood.stream is not None and flood.stream.stat().st_size == 1 << 20
    assert fine.error is None


def test_what_a_shell_prints_before_the_answer_is_left_out(
    cluster: shims.Cluster, collector: Path, tmp_path: Path
) -> None:
    cluster.misbehave("n0", "printf 'Welcome to ustar %300s ustar\\\\n' x; \"$@\"")
    (answer,) = ask_all(over_ssh("n0"), collector, tmp_path, PATIENT)
    assert list(members(answer)) == ["rank-0/train.log", "node.json"]


def test_a_pod_that_does_not_run_is_not_asked(cluster: shims.Cluster, collector: Path, tmp_path: Path) -> None:
    answers = ask_all((Target("p0", problem="the pod is Pending"),), collector, tmp_path, PATIENT)
    assert answers[0].error == "the pod is Pending"
    assert not cluster.asked()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (shims.REFUSED, "the host is down, or accepts no ssh"),
        ("echo 'gpu: Permission denied (publickey).' >&2; exit 255", "ssh needs a key or an agent"),
        ("echo 'bash: python3: command not found' >&2; exit 127", "--python"),
        ("echo '  File \"<stdin>\", line 9' >&2; echo 'SyntaxError: invalid syntax' >&2; exit 1", "older than 3.8"),
        ("exit 3", "ssh ended with exit code 3"),
        ("kill -9 $$", "ssh ended with signal 9"),
    ],
)
def test_a_failure_says_why(script: str, says: str, cluster: shims.Cluster, collector: Path, tmp_path: Path) -> None:
    cluster.misbehave("n0", script)
    (answer,) = ask_all(over_ssh("n0"), collector, tmp_path, PATIENT)
    assert says in str(answer.error)


def test_a_command_that_is_not_installed_is_an_error_of_each_target(collector: Path, tmp_path: Path) -> None:
    (answer,) = ask_all((Target("n0", ("no-such-command", "x")),), collector, tmp_path, PATIENT)
    assert answer.error == "no-such-command isn't installed here"


def test_text_of_a_host_cannot_draw_on_the_terminal(cluster: shims.Cluster, collector: Path, tmp_path: Path) -> None:
    cluster.misbehave("n0", "printf 'evil \\033[2J\\n' >&2; exit 1")
    (answer,) = ask_all(over_ssh("n0"), collector, tmp_path, PATIENT)
    assert "\x1b" not in str(answer.error)


ASKING = """
import sys
from pathlib import Path
from nccldoctor.collect.reach.ask import Limits, ask_all
from nccldoctor.collect.reach.ssh import Ssh
from nccldoctor.collect.reach.ask import look_up
targets = Ssh(("n0",)).find_targets(look_up, ("python3", "-"))
try:
    ask_all(targets, Path(sys.argv[1]), Path(sys.argv[2]), Limits(seconds=3000.0, size=1 << 20, silence=3000.0))
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_leaves_nothing_running(cluster: shims.Cluster, collector: Path, tmp_path: Path) -> None:
    """The interrupt comes when the silent host has said its process id, through a pipe that blocks until then."""
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    cluster.misbehave("n0", f"echo $$ > {fifo}; exec sleep 3600")
    asking = subprocess.Popen([sys.executable, "-c", ASKING, str(collector), str(tmp_path)])
    pid = int(fifo.read_text())
    asking.send_signal(signal.SIGINT)
    assert asking.wait() == 130
    assert shims.has_ended(pid)


def test_a_look_up_that_fails_says_what_it_printed(cluster: shims.Cluster, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^cat failed: .*No such file"):
        look_up(("cat", str(tmp_path / "missing")))
    with pytest.raises(InputError, match="isn't installed here"):
        look_up(("no-such-command",))
