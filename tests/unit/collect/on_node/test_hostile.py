"""Processes and servers of strangers: what they hold costs nobody but themselves."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders.live.fake_ranks import MARK, PYSPY, SOURCE, Ranks, state, tool

from nccldoctor.collect.on_node import children, masking, network
from nccldoctor.collect.on_node.process import Process
from nccldoctor.collect.on_node.process_tree import ProcessTree, number_spawned
from nccldoctor.collect.on_node.tar_answer import TarAnswer


@pytest.mark.parametrize("text", ["²", "9" * 5000, "-1", "1 "])
def test_a_rank_that_is_no_number_is_no_rank(ranks: Ranks, text: str) -> None:
    ranks.start(None, RANK=text, WORLD_SIZE="2", LOCAL_WORLD_SIZE=text, NCCL_RAS_ADDR=f"localhost:{text}")
    ranks.start(1)
    stream = ranks.collect()
    assert [process["rank"] for process in stream.told()["processes"]] == [1]
    assert "failed" not in str(stream.told()["missing"])


def process(pid: int, parent: int, user: int = 0, **env: str) -> Process:
    seen = {
        "pid": pid,
        "parent": parent,
        "started": 0.0,
        "state": "S",
        "comm": "python",
        "words": [],
        "exe": "",
        "env": env,
        "user": user,
    }
    return Process({**seen, "secrets": []})


@pytest.mark.parametrize(
    ("command", "is_launcher"),
    [
        ("python train_torchrun.py --lr 1", False),
        ("python -u train.py --out /runs/torchrun-7b", False),
        ("/usr/bin/python3 train.py --strategy deepspeed", False),
        ("python -m trainer torchrun", False),
        ("python -X dev -c deepspeed train.py", False),
        ("python mpirun/train.py ray", False),
        ("torchrun --nproc-per-node 8 train.py", True),
        ("/venv/bin/python -u /venv/bin/torchrun train.py", True),
        ("python3.11 -X dev -um torch.distributed.run train.py", True),
        ("python /site-packages/torch/distributed/launch.py train.py", True),
        ("python /venv/bin/accelerate launch train.py", True),
        ("python /venv/bin/accelerate-launch train.py", True),
        ("python -m accelerate.commands.launch train.py", True),
        ("python -m deepspeed.launcher.launch train.py", True),
        ("/opt/mpi/bin/mpiexec.hydra -n 8 python train.py", True),
        ("slurmstepd: [12.0]", True),
        ("", False),
    ],
)
def test_a_launcher_is_known_by_what_runs_and_not_by_a_name_in_an_argument(command: str, is_launcher: bool) -> None:
    started = process(7, 1)
    started.words = command.split()
    assert started.is_launcher == is_launcher


@pytest.mark.parametrize("root_parent", [1, 4000])
def test_a_chain_of_thousands_of_processes_and_a_circle_are_no_trouble(root_parent: int) -> None:
    tree = ProcessTree.__new__(ProcessTree)
    chain = [process(2, root_parent), *(process(pid, pid - 1) for pid in range(3, 4001))]
    tree.all = {one.pid: one for one in chain}  # type: ignore[assignment]
    tree.children = {one.parent: [one] for one in chain}
    tree.ranks = []
    assert [one.pid for one in tree.below(chain[0])] == list(range(3, 4001))


def spawned(*pipes: int) -> list[Process]:
    """What one parent started by ``mp.spawn``, in no order."""
    found = [process(pid, 2) for pid, _ in enumerate(pipes, 30)]
    for one, pipe in zip(found, pipes, strict=True):
        one.words = [
            "python",
            "-c",
            f"from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=4, pipe_handle={pipe})",
        ]
    return found


@pytest.mark.parametrize(
    ("pipes", "ranks"),
    [
        ((10, 6, 8), [2, 0, 1]),
        ((6, 8, 12), [None, None, None]),  # one between them has ended
        ((6,), [None]),
    ],
)
def test_ranks_of_mp_spawn_are_numbered_by_the_pipes_of_their_parent(
    pipes: tuple[int, ...], ranks: list[int | None]
) -> None:
    found = spawned(*pipes)
    number_spawned(found)
    assert [one.rank for one in found] == ranks


def test_what_lightning_starts_has_a_rank_on_the_first_node_alone() -> None:
    variables = {"LOCAL_RANK": "2", "WORLD_SIZE": "4", "NODE_RANK": "0"}
    assert (process(7, 1, **variables).rank, process(7, 1, **variables).world_size) == (2, 4)
    assert process(7, 1, **variables | {"NODE_RANK": "1"}).rank is None


def claims(*users_and_ranks: tuple[int, int]) -> list[Process]:
    """Processes of one job: of which user, and which rank each says it is."""
    job = {"MASTER_PORT": "29500", "WORLD_SIZE": "4"}
    return [process(10 + n, 1, user, RANK=str(rank), **job) for n, (user, rank) in enumerate(users_and_ranks)]


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ([(7, 0), (7, 1), (7, 2), (9, 1)], [10, 11, 12]),  # another user says it is rank 1
        ([(7, 0), (9, 1)], [10, 11]),  # only the other user's process says it is rank 1
        ([(7, 1), (9, 1)], [10, 11]),  # one of each: which is right is not known
        ([(7, 0), (7, 1), (7, 1)], [10, 11, 12]),  # one user
    ],
)
def test_a_process_of_another_user_does_not_pass_for_a_rank_of_the_job(
    found: list[tuple[int, int]], kept: list[int]
) -> None:
    answer = TarAnswer(io.BytesIO(), 1 << 20, 60.0)
    assert [rank.pid for rank in ProcessTree._of_its_user(claims(*found), answer)] == kept
    assert len(answer.missing) == len(found) - len(kept), "one line of missing for each process that is left out"


@pytest.mark.parametrize("value", ['"path": "', "processes", "started"])
def test_no_value_of_a_variable_breaks_the_answer(ranks: Ranks, value: str) -> None:
    ranks.start(0, MY_PASSWORD=value)
    assert [one["rank"] for one in ranks.collect().told()["processes"]] == [0]


def test_secrets_of_other_processes_hide_nothing_of_the_job(ranks: Ranks, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("Watchdog caught collective operation timeout\n")
    ranks.start(0, script="log = open('train.log', 'a')\nimport sys\nprint('ready', flush=True)\nsys.stdin.read()\n")
    ranks.start(None, EVIL_TOKEN="Watchdog caught collective")
    assert b"Watchdog caught collective" in ranks.collect().files()["rank-0/logs/train.log"]


def test_a_word_and_a_part_of_a_word_are_no_secrets() -> None:
    assert masking.secrets_in(
        [], [("KEY", "localhost"), ("KEY", "/etc/key"), ("KEY", "12345678"), ("KEY", "a1b2c3")]
    ) == {"a1b2c3"}
    answer = TarAnswer(None, 0, 0.0)
    answer.secrets = {"job": [b"a1b2c3"]}
    assert answer.without_secrets(b"hash 9a1b2c3d and a1b2c3.", "job") == b"hash 9a1b2c3d and ***."
    assert answer.without_secrets(b"a1b2c3", "other") == b"a1b2c3"


@contextmanager
def served(*answers: bytes, host: str = "127.0.0.1") -> Iterator[int]:
    """A server that sends one answer for each line it gets, the last without end, b"" for silence; its port."""
    server = socket.create_server((host, 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as lines:
            try:
                for answer in answers:
                    lines.readline()
                    connection.sendall(answer)
                while answers[-1]:
                    connection.sendall(answers[-1])
                lines.read()
            except OSError:
                return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()
        thread.join()


def test_a_server_that_never_ends_its_line_is_read_in_blocks() -> None:
    class Enough(Exception):
        pass

    got: list[bytes] = []

    def write(block: bytes, /) -> None:
        got.append(block)
        if len(got) == 100:
            raise Enough

    with served(b"SERVER PROTOCOL 2\n", b"OK\n", b"OK\n", b"x" * 1000) as port, pytest.raises(Enough):
        network.ask_ras("127.0.0.1", port, write)
    assert max(map(len, got)) <= 1 << 16


@pytest.mark.parametrize(("host", "is_asked"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_only_this_machine_is_asked_where_a_variable_says_so(host: str, is_asked: bool) -> None:
    with served(b"hello\n", b"", host=host) as port, network.Conversation(host, port) as connected:
        assert connected.is_with_this_machine is is_asked
        connected.send(b"hello\n")
        assert connected.one_line() == b"hello\n"


@pytest.mark.parametrize("answer", [b"x" * 1000, b""])
def test_a_conversation_has_an_end_in_time(answer: bytes) -> None:
    with served(answer) as port, network.Conversation("127.0.0.1", port, seconds=0.2) as other:
        other.send(b"hello\n")
        with pytest.raises(OSError, match="timed out"):
            while True:
                other.block()


def test_a_reader_that_hangs_keeps_no_stream_of_the_collector() -> None:
    child = children.reader(
        lambda write: write("\n".join(str(Path(f"/proc/self/fd/{n}").readlink()) for n in range(3)).encode()), 5.0
    )
    children.run_all([lambda: child])
    assert child.data.decode().split() == [os.devnull] * 3


def test_a_part_that_fails_costs_itself_alone(ranks: Ranks) -> None:
    ranks.start(0)
    source = SOURCE.replace(
        "def add_environments(",
        "def add_environments(*_: object) -> None:\n    raise ValueError('no')\n\n\ndef unused(",
    )
    stream = ranks.collect(source=source)
    assert "ValueError (no)" in stream.why("variables")
    assert "node/machine.txt" in stream.files()


def test_a_signal_between_the_start_of_a_child_and_its_entry_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    interruption = children.Interruption()
    entered = False
    with pytest.raises(children.Stopped, match="SIGTERM"), interruption.held():
        interruption._hear(signal.SIGTERM, None)
        entered = True
    assert entered
    with pytest.raises(children.Stopped, match="SIGINT"):
        interruption._hear(signal.SIGINT, None)


@pytest.mark.parametrize("end", ["signal", "closed pipe"])
def test_a_collector_that_has_to_end_leaves_no_process_stopped(ranks: Ranks, tmp_path: Path, end: str) -> None:
    fine, held = ranks.start(0)[0], ranks.start(1)[0]
    hold = f'if [ "$3" = {held} ]; then kill -STOP $3; echo > held; exec sleep 1000; fi'
    wait = "while [ ! -e go ]; do sleep 0.01; done"
    path = tool(tmp_path / "bin", "py-spy", (f"cd {tmp_path}", hold, wait, *PYSPY))
    collector = subprocess.Popen(
        [sys.executable, "-I", "-", "--where", f"{MARK}={ranks.mark}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert collector.stdin is not None
    assert collector.stdout is not None
    collector.stdin.write(SOURCE.encode())
    collector.stdin.close()
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    if end == "signal":
        collector.send_signal(signal.SIGTERM)
        assert b"SIGTERM" in collector.stdout.read()
    collector.stdout.close()
    (tmp_path / "go").touch()
    assert collector.wait() == (0 if end == "signal" else 1)
    assert (state(held), state(fine)) == ("S", "S")
