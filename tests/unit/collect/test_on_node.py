"""What the collector finds on a node, on real processes: ranks that wait, that a signal has stopped, and that are gone."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.fake_ranks import ON_NODE, PARENT, WAIT, Ranks, fake_ranks, state, tool

from nccldoctor.collect import on_node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SOURCE = ON_NODE.read_text()
PYSPY = ("if [ \"$1\" = dump ]; then echo \"Process $3: python train.py\"; echo; echo \"Thread $3 (idle): \\\"MainThread\\\"\";"
         " echo \"    wait_for_peer (train.py:3)\"; fi",)  # fmt: skip


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    with fake_ranks(tmp_path) as started:
        yield started


@pytest.fixture
def pyspy(tmp_path: Path) -> str:
    """A path on which py-spy answers for every process."""
    return f"{tool(tmp_path / 'bin', 'py-spy', PYSPY)}:{os.environ['PATH']}"


def changed(**values: object) -> str:
    """The collector with other constants."""
    source = SOURCE
    for name, value in values.items():
        before = source
        source = source.replace(f"\n{name} = ", f"\n{name} = {value!r}  # ", 1)
        assert source != before, name
    return source


def test_every_rank_has_its_stack_state_and_environment(ranks: Ranks, pyspy: str) -> None:
    pids = [ranks.start(rank, NCCL_DEBUG="INFO", WANDB_MODE="offline")[0] for rank in (0, 1)]
    stream = ranks.collect(PATH=pyspy)
    told, files = stream.told(), stream.files()
    assert [(p["rank"], p["world_size"], p["pid"], p["state"], p["of"]) for p in told["processes"]] == [
        (0, 2, pids[0], "S", None),
        (1, 2, pids[1], "S", None),
    ]
    assert b"wait_for_peer" in files["rank-1/stack-1.txt"]
    assert b"NCCL_DEBUG=INFO\n" in files["rank-0/environment.txt"]
    assert b"WANDB_MODE" not in files["rank-0/environment.txt"], "no variable that is not allowed is copied"
    row = next(row for row in told["files"] if row["path"] == "rank-1/stack-1.txt")
    assert (row["kind"], row["rank"], row["pid"], row["look"]) == ("stack", 1, pids[1], 1)
    assert told["ended"] is not None


def test_two_looks_are_told_apart(ranks: Ranks, pyspy: str) -> None:
    ranks.start(0)
    stream = ranks.collect("--twice", "0.1", PATH=pyspy)
    assert {row["look"] for row in stream.told()["files"] if row["kind"] == "stack"} == {1, 2}
    assert [look["look"] for look in stream.told()["processes"][0]["looks"]] == [1, 2]


def test_a_stopped_process_is_seen_without_being_stopped_again(ranks: Ranks, tmp_path: Path) -> None:
    waits, stopped = ranks.start(0)[0], ranks.start(1)[0]
    ranks.stop(stopped)
    path = tool(tmp_path / "bin", "py-spy", ('echo "$@" >> asked', *PYSPY))
    source = SOURCE.replace('cwd="/"', f"cwd={str(tmp_path)!r}")
    stream = ranks.collect(source=source, PATH=f"{path}:{os.environ['PATH']}")
    assert {p["rank"]: p["state"] for p in stream.told()["processes"]} == {0: "S", 1: "T"}
    assert stream.told()["processes"][1]["wchan"] in ("do_signal_stop", "0", None)
    assert f" {stopped} --nonblocking" in (tmp_path / "asked").read_text()
    assert f" {waits} --nonblocking" not in (tmp_path / "asked").read_text()
    assert (state(stopped), state(waits)) == ("T", "S")


def test_the_launcher_is_no_rank_and_the_loader_is_a_worker(ranks: Ranks, pyspy: str) -> None:
    same = PARENT.format(script=WAIT, env=None)
    other = PARENT.format(
        script=same, env="{**__import__('os').environ, 'RANK': '5', 'LOCAL_RANK': '1', 'WORLD_SIZE': '8'}"
    )
    launcher, line = ranks.start(0, world=1, script=other)
    worker, rank = map(int, line.split()[1:])
    told = ranks.collect(PATH=pyspy).told()
    assert [(p["pid"], p["rank"], p["of"]) for p in told["processes"]] == [(rank, 5, None), (worker, 5, rank)]
    assert f"rank-5/worker-{worker}-stack-1.txt" in {row["path"] for row in told["files"]}
    assert launcher not in {p["pid"] for p in told["processes"]}


def test_a_process_that_is_gone_is_told(ranks: Ranks) -> None:
    pid, _ = ranks.start(0)
    ranks.processes[0].kill()
    ranks.processes[0].wait()
    assert ranks.collect("--pid", str(pid)).why(f"pid {pid}") == "no such process on this node"


def test_a_local_rank_that_does_not_run_is_told(ranks: Ranks) -> None:
    ranks.start(0, LOCAL_WORLD_SIZE="2")
    assert "LOCAL_WORLD_SIZE is 2" in ranks.collect().why("local rank 1")


def test_two_jobs_are_not_mixed(ranks: Ranks, pyspy: str) -> None:
    pids = [ranks.start(0)[0], ranks.start(0)[0]]
    stream = ranks.collect(PATH=pyspy)
    assert {f"rank-0-pid-{pid}/stack-1.txt" for pid in pids} <= set(stream.files())
    assert "two jobs" in stream.why("rank 0")


def test_the_files_of_two_jobs_are_told_apart(ranks: Ranks, pyspy: str) -> None:
    pids = {port: ranks.start(0, MASTER_PORT=port)[0] for port in ("29500", "29501")}
    stream = ranks.collect(PATH=pyspy)
    jobs = {row["job"]: row["pid"] for row in stream.told()["files"] if row["kind"] == "stack"}
    assert jobs == {f"MASTER_PORT={port} WORLD_SIZE=2": pid for port, pid in pids.items()}
    tables = {row["job"]: stream.files()[row["path"]] for row in stream.told()["files"] if row["kind"] == "processes"}
    for job, pid in jobs.items():
        assert [str(other).encode() in tables[job] for other in jobs.values()] == [
            other == pid for other in jobs.values()
        ]


SECRETS = (
    "hunter2hunter2",
    "sk-abcdefghijklmnopqrstuvwx",
    "hf_abcdefghijklmnopqrstuvwx",
    "AKIAABCDEFGHIJKLMNOP",
    "s3cr3t-db-pass",
    "plain0paragraph",
)


def test_no_secret_is_in_the_stream(ranks: Ranks, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        f"using {SECRETS[1]} and {SECRETS[2]}\npostgres://me:{SECRETS[4]}@db/x\nkey {SECRETS[3]}\nAPI_KEY={SECRETS[5]}\nlost {SECRETS[0]}\n"
    )
    script = "import sys; log = open('train.log', 'a')\n" + WAIT
    env = {
        "MY_PASSWORD": SECRETS[0],
        "NCCL_AUTH_TOKEN": SECRETS[3],
        "NCCL_PROXY": f"http://u:{SECRETS[4]}@h",
        "OPENAI_API_KEY": SECRETS[1],
    }
    ranks.start(0, script=script, args=["--hub-token", SECRETS[2], f"--password={SECRETS[5]}", "--lr", "0.1"], **env)
    path = tool(tmp_path / "bin", "py-spy", ('echo "Process $3: $(tr "\\0" " " < /proc/$3/cmdline)"', *PYSPY))
    stream = ranks.collect(PATH=f"{path}:{os.environ['PATH']}")
    assert b"--lr 0.1" in stream.data
    assert "rank-0/logs/train.log" in stream.files()
    assert [secret for secret in SECRETS if secret.encode() in stream.data] == []


def test_words_of_training_are_no_secrets() -> None:
    line = b"tokens per second: 1234 max_tokens=4096 KeyError: 'x' authentication tokenizer=gpt2 [PAD] sort_key\n"
    assert on_node.hide_secrets(line) == line
    assert on_node.masked_command(["train.py", "--num-tokens", "4096", "--tokenizer", "gpt2", "--key-dim", "64"]) == (
        "train.py --num-tokens 4096 --tokenizer gpt2 --key-dim 64"
    )


def test_logs_are_found_by_their_descriptors_and_cut_at_their_end(ranks: Ranks, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(b"step 0\n" + b"x" * 99 + b"\n" + b"step 1\n" * 100)
    (tmp_path / "data.bin").write_bytes(b"weights")
    script = (
        "import socket; files = [open('train.log', 'a'), open('data.bin', 'ab'), open('/dev/null', 'w'), socket.socket()]\n"
        + WAIT
    )
    ranks.start(3, script=script)
    stream = ranks.collect(source=changed(LOG_TAIL=750))
    files = stream.files()
    assert [path for path in files if path.startswith("rank-3/logs/")] == ["rank-3/logs/train.log"]
    assert files["rank-3/logs/train.log"] == b"step 1\n" * 100
    assert "only the end of a log" in stream.why("train.log")


def test_a_log_that_all_ranks_write_is_of_no_rank(ranks: Ranks) -> None:
    script = "log = open('all.log', 'a'); log.write('step 1\\n'); log.flush()\n" + WAIT
    for rank in (0, 1):
        ranks.start(rank, script=script)
    rows = [row for row in ranks.collect().told()["files"] if row["kind"] == "log"]
    assert [(row["path"], row["rank"]) for row in rows if "all" in row["path"]] == [("node/logs/all.log", None)]


def test_dumps_of_this_run_are_taken_and_older_ones_named(ranks: Ranks, tmp_path: Path) -> None:
    (tmp_path / "fr_0").write_bytes(b"old")
    os.utime(tmp_path / "fr_0", (1, 1))
    script = "import os\nif os.environ['RANK'] == '1': open('fr_1', 'wb').write(b'new')\n" + WAIT
    for rank in (0, 1):
        ranks.start(rank, script=script, TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "fr_"))
    stream = ranks.collect()
    assert {path: data for path, data in stream.files().items() if "/dump" in path} == {
        "rank-1/dump-2-existing_1": b"new"
    }
    assert "of another run" in stream.why("of rank 0")


def test_a_byte_in_the_pipe_brings_a_dump(ranks: Ranks, tmp_path: Path) -> None:
    prefix = str(tmp_path / "fr_")
    script = (
        "import os\nos.mkfifo('pipe_0.pipe'); pipe = os.open('pipe_0.pipe', os.O_RDWR)\nprint('ready', flush=True)\n"
        "os.read(pipe, 128)\nopen('fr_0', 'wb').write(b'triggered')\nimport sys; sys.stdin.read()\n"
    )
    ranks.start(
        0, script=script, TORCH_FR_DUMP_TEMP_FILE=prefix, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "pipe_")
    )
    assert ranks.collect().files()["rank-0/dump-1-triggered_0"] == b"triggered"


def test_a_pipe_that_nobody_reads_holds_nobody_up(ranks: Ranks, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe_0.pipe")
    ranks.start(0, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "pipe_"))
    assert ranks.collect().why("a new flight recorder dump") == "no rank reads its pipe"


def test_ras_is_asked_by_its_protocol(ranks: Ranks) -> None:
    heard: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                heard.append(line)
                if line.startswith(b"CLIENT"):
                    connection.sendall(b"SERVER PROTOCOL 2\n")
                elif line.startswith(b"VERBOSE"):
                    connection.sendall(b"NCCL version 2.27.3\nrank 1 is dead\n")
                    return
                else:
                    connection.sendall(b"OK\n")

    thread = threading.Thread(target=serve)
    thread.start()
    ranks.start(0, NCCL_RAS_ADDR=f"127.0.0.1:{server.getsockname()[1]}")
    files = ranks.collect().files()
    server.close()
    thread.join()
    assert b"rank 1 is dead" in files["node/ras-0.txt"]
    assert (heard[0], heard[-1]) == (b"CLIENT PROTOCOL 2\n", b"VERBOSE STATUS\n")


def test_without_any_stack_tool_the_wait_channels_remain(ranks: Ranks) -> None:
    pid, _ = ranks.start(0)
    stream = ranks.collect(source=changed(STACK_TOOLS=("no-such-tool",)))
    assert "no-such-tool" in stream.why("stacks")
    assert str(pid).encode() in stream.files()["rank-0/threads-1.txt"]
    assert str(pid).encode() in stream.files()["node/processes-1.txt"]


def test_a_refused_tool_leaves_its_words_and_advice(ranks: Ranks, tmp_path: Path) -> None:
    ranks.start(0)
    path = tool(
        tmp_path / "bin",
        "py-spy",
        ("echo 'Error: Permission Denied: Try running again with elevated permissions'", "exit 1"),
    )
    stream = ranks.collect(source=changed(STACK_TOOLS=("py-spy",)), PATH=f"{path}:{os.environ['PATH']}")
    assert b"Permission Denied" in stream.files()["rank-0/stack-1.txt"]
    assert "py-spy: Error: Permission Denied" in stream.why("rank 0")


def test_the_next_tool_is_tried(ranks: Ranks, tmp_path: Path) -> None:
    ranks.start(0)
    tool(tmp_path / "bin", "py-spy", ("exit 1",))
    path = tool(
        tmp_path / "bin",
        "pystack",
        (
            "echo 'Traceback for thread 1 (python) [] (most recent call last):'",
            "echo '    (Python) File \"/a.py\", line 3, in f'",
        ),
    )
    files = ranks.collect(PATH=f"{path}:{os.environ['PATH']}").files()
    assert b'File "/a.py"' in files["rank-0/stack-1.txt"]


def test_a_tool_that_hangs_costs_one_stack_and_leaves_no_process_stopped(ranks: Ranks, tmp_path: Path) -> None:
    hangs, fine = ranks.start(0)[0], ranks.start(1)[0]
    lines = (f'if [ "$3" = {hangs} ]; then kill -STOP $3; exec sleep 1000; fi', *PYSPY)
    path = tool(tmp_path / "bin", "py-spy", lines)
    source = changed(STACK_TOOLS=("py-spy",)).replace(
        "STACK_SECONDS, TOOL_SECONDS", "STACK_SECONDS, TOOL_SECONDS = 0.5, 5.0\n_, _"
    )
    stream = ranks.collect(source=source, PATH=f"{path}:{os.environ['PATH']}")
    assert b"wait_for_peer" in stream.files()["rank-1/stack-1.txt"]
    assert "did not answer in time" in stream.why(f"rank 0 (pid {hangs})")
    assert "SIGCONT" in stream.why(f"rank 0 (pid {hangs})")
    assert (state(hangs), state(fine)) == ("S", "S")


def test_a_tool_that_others_can_write_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tool(tmp_path / "bin", "py-spy", PYSPY) / "py-spy"
    monkeypatch.setenv("PATH", str(script.parent))
    assert on_node.find_tool("py-spy", ()) == str(script)
    script.chmod(0o777)
    assert on_node.find_tool("py-spy", ()) != str(script)


def test_a_read_that_hangs_costs_itself_alone() -> None:
    silent, _ = os.pipe()

    def look(item: int) -> int:
        if item == 2:
            os.read(silent, 1)
        return item * 10

    assert list(on_node.each([1, 2, 3], look, 0.3)) == [(1, 10), (2, None), (3, 30)]


def test_kernel_messages_from_before_the_job_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_node, "_BOOT", 1_000_000.0)
    log = b"[   10.500000] Out of memory: Killed process 7 (python)\n[  500.250000] NVRM: Xid (PCI:0000:3a:00): 79\n  continued\n"
    kept = on_node.kernel_lines(log, 1_000_400.0)
    assert b"Out of memory" not in kept
    assert b"Xid (PCI:0000:3a:00): 79\n  continued\n" in kept
    assert kept.startswith(b"[")


def test_print_lists_what_would_be_done_and_does_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-", "--print"], input=SOURCE.encode(), capture_output=True, check=True
    )
    lines = done.stdout.decode().splitlines()
    assert any(line.startswith("py-spy dump --pid PID") for line in lines)
    assert any("28028" in line for line in lines)
    assert "nvidia-smi -q" in lines


def test_it_is_one_file_for_python_3_8() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 8))
    names = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names
    newer = {
        "removeprefix",
        "removesuffix",
        "pairwise",
        "batched",
        "UTC",
        "cache",
        "zip_longest_strict",
        "StrEnum",
        "to_thread",
    }
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert not newer & (attributes | imported)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not any(isinstance(c.func, ast.Name) and c.func.id == "zip" and c.keywords for c in calls), (
        "zip(strict=) is of 3.10"
    )
