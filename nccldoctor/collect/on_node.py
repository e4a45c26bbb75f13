"""Gathers on one node what shows why a training job stands; the answer is a tar stream on standard output.

``python3 - --pid all --twice 10 < on_node.py`` is all that a node needs: Python 3.8 and its standard library. Nothing is installed or
written there, with one exception: where a job asks for it by ``TORCH_NCCL_DEBUG_INFO_PIPE_FILE``, a byte in its pipe makes PyTorch
write its own flight recorder dump. No process of the job gets a signal; stack tools stop a process for the moment of their look.

The stream is an uncompressed tar archive. Files of a rank stand in ``rank-R/``, of a training process without a rank in ``pid-N/``, of
the machine in ``node/``. ``node.json`` comes several times, so that a stream that is cut keeps what came; the last one counts::

    {"version": 1, "tool": "nccldoctor on_node", "host": "gpu-a07", "started": TIME, "ended": TIME or null, "python": "3.8.10",
     "files": [{"path": "rank-3/stack-1.txt", "kind": "stack", "rank": 3, "local_rank": 3, "pid": 4711, "time": TIME, "look": 1}],
     "processes": [{"pid": 4711, "rank": 3, "local_rank": 3, "world_size": 8, "node_rank": 0, "master_addr": "gpu-a07", "gpu": "3",
                    "state": "S", "wchan": "futex_do_wait", "command": "python train.py", "of": null, "looks": [...]}],
     "missing": [{"what": "stack of rank 3 (pid 4711)", "why": "py-spy: Permission Denied; ..."}]}

TIME is ISO 8601 with the offset of the node's clock. ``kind`` is one of :data:`KINDS`. A file of a worker of a rank's data loader
has the rank and ``"of"``, the pid of the rank's process. ``"job"`` tells the files of several jobs apart. ``rank`` and ``pid`` are null
where a file is of the whole node, ``look`` is 1 or 2 for what was looked at once or twice. Secrets are masked in commands, variables,
stacks and logs.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import itertools
import json
import os
import re
import selectors
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import time
from collections import OrderedDict, deque
from datetime import datetime, timezone
from functools import partial
from typing import Any, Callable, Iterable, Iterator

NO_PROCESSES = "training processes"
"""What is missing on a node without a process of the job."""

KINDS = ("stack", "threads", "processes", "environment", "log", "dump", "ras", "kernel log", "gpu", "versions", "node")
"""What a file is."""

LOG_TAIL = 5_000_000
"""Bytes of the end of each log."""

MOST_DUMP = 64 << 20
MOST_OUTPUT = 4 << 20
"""Bytes taken of one dump, and of what one command prints."""

MOST_PROCESSES, MOST_WORKERS, MOST_LOGS = 256, 8, 512
"""Ranks of a node, stacks of workers for each rank, and logs that are looked at."""

AT_ONCE = 4
"""Stack tools that run side by side: each stops one process for a moment."""

STACK_SECONDS, TOOL_SECONDS, READ_SECONDS, DUMP_SECONDS = 20.0, 15.0, 5.0, 8.0

SYMBOL_SECONDS = 60.0
"""gdb reads the symbols of all of PyTorch before its first word."""

RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
"""Variables in which launchers give a process its rank and the number of ranks, the surest first."""

JOB_VARIABLES = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
"""Variables that all ranks of a job share, on all nodes, and that tell it from another job."""

LOCAL_RANKS = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
)
NODE_RANKS = ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID")

ALLOWED = re.compile(
    r"(?:NCCL|TORCH|TORCHELASTIC|GLOO|UCX|FI|NCCLDOCTOR)_\w+|SLURM_JOB\w*|SLURM_(?:PROCID|NTASKS|LOCALID|NODEID|NNODES|STEP_ID)"
    r"|CUDA_(?:VISIBLE_DEVICES|DEVICE_ORDER|LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS)|(?:NVIDIA|HIP|ROCR)_VISIBLE_DEVICES|OMP_NUM_THREADS"
    r"|(?:(?:LOCAL|GROUP|NODE|ROLE)_)?RANK|(?:(?:LOCAL|GROUP|ROLE)_)?WORLD_SIZE|MASTER_(?:ADDR|PORT)"
    r"|(?:OMPI|MV2)_COMM_WORLD_\w*(?:RANK|SIZE)|PMIX?_(?:RANK|SIZE)|MPI_LOCALRANKID|RAY_JOB_ID|JOB_COMPLETION_INDEX|TZ"
)
"""Variables that are copied; no other one is."""

USED = ("HOME", "XDG_CACHE_HOME", "PATH", "VIRTUAL_ENV")
"""Variables that tell where to look; they are not copied."""

LAUNCHER = re.compile(
    r"torchrun\b|torch[./]distributed[./](?:run|launch)|torch_distributed_run|accelerate(?:[ -]launch|[./]commands)"
    r"|deepspeed(?:[. ]launcher|\s|$)"
    r"|(?:^|/)(?:mpirun|mpiexec\S*|orterun|prte|srun|slurmstepd|horovodrun|ray|jsrun)(?:\s|$)"
)
"""Commands that start ranks and are none, although they may have a rank in their environment."""

SECRET_NAME = re.compile(
    r"api[_-]?key|(?:access|secret|private|signing|encryption|account|ssh|license|auth)[_-]?key|(?:^-*|[_-])key$|secret|passw|passphrase"
    r"|(?<!num)[_-]?token(?!iz|s(?![a-z])|_?(?:id|len|size|count|type|dim|per))|(?<!old)(?<!^)pwd$|credential|cookie|auth(?!or)|signature|bearer|jwt",
    re.IGNORECASE,
)
"""Names of variables and options whose values are not copied."""

_VALUE = r"[^\s'\"&,;]{1,4000}"
_EQUALS = r"['\"]?\s{0,2}[=:]\s{0,2}['\"]?"
_SECRETS = (
    re.compile(rb"(?P<keep>[a-z][a-z0-9+.-]{1,20}://[^\s/@:'\"]{0,200}:)[^\s/@'\"]{1,500}(?=@)", re.IGNORECASE),
    re.compile(rb"(?P<keep>\b(?:Bearer|Basic)\s{1,3})[A-Za-z0-9._~+/=-]{12,4000}", re.IGNORECASE),
    re.compile(
        rb"(?P<keep>)\b(?:hf_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
        rb"|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{6,}(?:\.[\w-]*)?)"
    ),
    re.compile(
        (
            rf"(?P<keep>(?:api|access|secret|private|auth|account|encryption|signing)[_-]?(?:key|token|secret)(?:[_-]?id)?{_EQUALS}"
            rf"|(?:passwd|password|passphrase|secret){_EQUALS}|\b[a-z]\w{{0,60}}_(?:token|key|secret|password|pwd){_EQUALS}){_VALUE}"
        ).encode(),
        re.IGNORECASE,
    ),
)
_MAYBE_SECRET = re.compile(
    rb"://[^\s/]*@|bearer|basic |hf_|gh[pousr]_|github_pat|glpat|sk-|xox|akia|asia|aiza|eyj|key|token|secret|passw|passp|pwd",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,8000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
)
MASK = "<masked>"


def hide_secrets(data: bytes) -> bytes:
    """The text without values that look like secrets: keys, tokens, passwords."""
    if b"PRIVATE KEY-----" in data:
        data = _PRIVATE_KEY.sub(MASK.encode(), data)
    if _MAYBE_SECRET.search(data) is None:
        return data
    return b"\n".join(_masked_line(line) if _MAYBE_SECRET.search(line) else line for line in data.split(b"\n"))


def _masked_line(line: bytes) -> bytes:
    for pattern in _SECRETS:
        line = pattern.sub(lambda hit: bytes(hit.group("keep")) + MASK.encode(), line)
    return line


def secrets_in(words: Iterable[str], pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Values of options and variables that are named like secrets: they are masked wherever else they occur."""
    found = {value for name, value in pairs if SECRET_NAME.search(name)}
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if equals and SECRET_NAME.search(name):
            found.add(value)
        elif SECRET_NAME.search(option) and not word.startswith("-"):
            found.add(word)
        option = word if word.startswith("-") and not equals else ""
    return {value for value in found if len(value) >= 6 and value[0] not in "/.~" and not value.isdigit()}


def masked_command(words: Iterable[str]) -> str:
    """A command line without secrets: ``--hub-token abc`` and ``KEY=abc`` lose their values."""
    out: list[str] = []
    follows = False
    for word in words:
        name, equals, _ = word.partition("=")
        if follows and not word.startswith("-"):
            word = MASK
        elif equals and SECRET_NAME.search(name):
            word = f"{name}={MASK}"
        follows = not equals and word.startswith("-") and SECRET_NAME.search(word) is not None
        out.append(word)
    text = hide_secrets(" ".join(out).encode("utf-8", "surrogateescape")).decode("utf-8", "backslashreplace")
    return " ".join(text.split())[:1000]


def now() -> str:
    """The time with the offset of this node's clock, as logs of this node print it."""
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="milliseconds")


# ---- children: whatever may block runs in one, with a time of its own ---------------------------------------------------------------


class Child:
    """A command or a forked reader; ``data`` grows until it ends, is late, or has printed too much."""

    def __init__(self, pid: int, pipe: int, seconds: float, limit: int = MOST_OUTPUT) -> None:
        self.pid = pid
        self.pipe = pipe
        self.until = time.monotonic() + seconds
        self.limit = limit
        self.data = bytearray()
        self.late = False
        self.status: int | None = None
        self.then: Callable[[Child], None] = lambda child: None

    def has_more(self) -> bool:
        """Take what is there; False at the end."""
        block = os.read(self.pipe, 1 << 16)
        self.data += block[: max(0, self.limit - len(self.data))]
        return bool(block) and len(self.data) < self.limit

    def end(self, patience: float = 2.0) -> None:
        """Close the pipe; a child that does not go by itself is ended. Only children of this program get signals."""
        os.close(self.pipe)
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + (patience if not self.late or number else 0)
            if number:
                _signal(self.pid, number)
            while True:
                done, status = os.waitpid(self.pid, os.WNOHANG)
                if done:
                    self.status = status
                    return
                if time.monotonic() >= until:
                    break
                time.sleep(0.01)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def command(words: list[str], seconds: float, limit: int = MOST_OUTPUT) -> Child:
    """Start a command without a shell. Raises :class:`OSError` where it cannot be started."""
    env = {
        **{key: value for key, value in os.environ.items() if key in ("PATH", "LD_LIBRARY_PATH", "HOME", "TZ")},
        "LC_ALL": "C",
    }
    got, put = os.pipe()
    try:
        started = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=put, stderr=subprocess.STDOUT, env=env, cwd="/"
        )
    except BaseException:
        os.close(got)
        raise
    finally:
        os.close(put)
    started.returncode = 0  # this program waits for it by itself
    return Child(started.pid, got, seconds, limit)


def reader(work: Callable[[Callable[[bytes], None]], None], seconds: float, limit: int = MOST_OUTPUT) -> Child:
    """Run ``work(write)`` in a fork: a file system that hangs then hangs the fork alone."""
    got, put = os.pipe()
    pid = os.fork()
    if pid:
        os.close(put)
        return Child(pid, got, seconds, limit)
    try:
        os.close(got)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)

        def write(data: bytes) -> None:
            view = memoryview(data)
            while len(view):
                view = view[os.write(put, view) :]

        work(write)
    except BaseException:
        os._exit(1)
    os._exit(0)


def run_all(starters: Iterable[Callable[[], Child | None]], at_once: int = AT_ONCE) -> None:
    """Run children side by side to their end; each starter returns the next child, or None."""
    waiting, running = deque(starters), selectors.DefaultSelector()
    while waiting or running.get_map():
        while waiting and len(running.get_map()) < at_once:
            child = waiting.popleft()()
            if child is not None:
                running.register(child.pipe, selectors.EVENT_READ, child)
        if not running.get_map():
            continue
        first = min(key.data.until for key in running.get_map().values())
        for key, _ in running.select(max(0.0, first - time.monotonic())):
            if not key.data.has_more():
                running.unregister(key.data.pipe)
                key.data.end()
                key.data.then(key.data)
        for key in list(running.get_map().values()):
            if key.data.until <= time.monotonic():
                key.data.late = True
                running.unregister(key.data.pipe)
                key.data.end()
                key.data.then(key.data)
    running.close()


def each(items: list[Any], look: Callable[[Any], Any], seconds: float = READ_SECONDS) -> Iterator[tuple[Any, Any]]:
    """Pairs of an item and ``look(item)``, made in a fork.

    None stands for an item at which the fork hung: it costs only itself.
    """
    at = 0
    while at < len(items):
        rest = items[at:]

        def work(write: Callable[[bytes], None], rest: list[Any] = rest) -> None:
            for item in rest:
                write(json.dumps(look(item)).encode() + b"\n")

        child = reader(work, seconds)
        line = bytearray()
        polling = selectors.DefaultSelector()
        polling.register(child.pipe, selectors.EVENT_READ)
        while polling.select(seconds):
            block = os.read(child.pipe, 1 << 16)
            if not block:
                break
            *whole, rest_of_line = bytes(line + block).split(b"\n")
            line = bytearray(rest_of_line)
            for text in whole:
                yield items[at], json.loads(text)
                at += 1
        else:
            child.late = True
        polling.close()
        child.end()
        if at < len(items):
            yield items[at], None
            at += 1


# ---- the answer: a tar stream -------------------------------------------------------------------------------------------------------


class TarAnswer:
    """The stream, and what ``node.json`` says of it. Each member is out as soon as it is written."""

    def __init__(self, out: Any, limit: int, seconds: float) -> None:
        self.out = out
        self.left = limit
        self.until = time.monotonic() + seconds
        self.started = now()
        self.files: list[dict[str, Any]] = []
        self.processes: list[Process] = []
        self.missing: list[dict[str, str]] = []
        self.secrets: list[bytes] = []

    def without_secrets(self, data: bytes) -> bytes:
        """The text without the values that processes of this node hold under names of secrets."""
        for secret in self.secrets:
            data = data.replace(secret, MASK.encode())
        return data

    @property
    def seconds_left(self) -> float:
        """What is left of the whole time."""
        return max(0.0, self.until - time.monotonic())

    def lacks(self, what: str, why: str) -> None:
        """Say once what could not be had."""
        row = {"what": what[:300], "why": hide_secrets(why.encode("utf-8", "backslashreplace")).decode("utf-8")[:600]}
        if row not in self.missing and len(self.missing) < 2000:
            self.missing.append(row)

    def add(
        self,
        path: str,
        kind: str,
        data: bytes,
        process: Process | None = None,
        look: int | None = None,
        **more: Any,
    ) -> None:
        """Write one file; ``more`` goes to its row in ``node.json``."""
        if kind != "dump":
            data = hide_secrets(self.without_secrets(data))
        if len(data) > self.left:
            self.lacks(path, "over the limit of this answer (--limit-mb)")
            return
        self.left -= len(data)
        row: dict[str, Any] = {
            "path": path,
            "kind": kind,
            "rank": None,
            "local_rank": None,
            "pid": None,
            "time": now(),
            "look": look,
        }
        if process is not None:
            row.update(rank=process.rank, local_rank=process.local_rank, pid=process.pid, job=process.job)
            if process.of is not None:
                row["of"] = process.of
        row.update(more)
        self.files.append(row)
        self._member(path, data)

    def _member(self, path: str, data: bytes) -> None:
        info = tarfile.TarInfo(path)
        info.size, info.mtime, info.mode = len(data), int(time.time()), 0o644
        self.out.write(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))
        self.out.write(data)
        self.out.write(b"\0" * (-len(data) % tarfile.BLOCKSIZE))
        self.out.flush()

    def tell(self, over: bool = False) -> None:
        """Write ``node.json`` as it is now."""
        document = {
            "version": 1,
            "tool": "nccldoctor on_node",
            "host": socket.gethostname(),
            "started": self.started,
            "ended": now() if over else None,
            "python": sys.version.split()[0],
            "files": self.files,
            "processes": [process.row() for process in self.processes],
            "missing": self.missing,
        }
        self._member("node.json", self.without_secrets(json.dumps(document, indent=1).encode("ascii")))

    def end(self) -> None:
        """Write the last ``node.json`` and the end of the archive."""
        self.tell(over=True)
        self.out.write(b"\0" * (2 * tarfile.BLOCKSIZE))
        self.out.flush()


# ---- processes: which are ranks, which are workers of a rank ------------------------------------------------------------------------


class Process:
    """A process of the job: a rank, or a worker that a rank has started, whose pid is ``of``."""

    def __init__(self, seen: dict[str, Any]) -> None:
        self.pid: int = seen["pid"]
        self.parent: int = seen["parent"]
        self.started: float = seen["started"]
        self.state: str = seen["state"]
        self.comm: str = seen["comm"]
        self.words: list[str] = seen["words"]
        self.exe: str = seen["exe"]
        self.env: dict[str, str] = seen["env"]
        self.secrets: list[str] = seen["secrets"]
        self.wchan: str | None = None
        self.of: int | None = None
        self.job = " ".join(f"{name}={self.env[name]}" for name in JOB_VARIABLES if self.env.get(name))[:500]
        self.looks: list[dict[str, Any]] = []
        self.rank, self.world_size = self._identity()
        self.local_rank = _first_number(self.env, LOCAL_RANKS)
        if self.local_rank is None:
            hit = re.search(r"--local[-_]rank[= ](\d+)", " ".join(self.words))
            self.local_rank = int(hit.group(1)) if hit else None

    def _identity(self) -> tuple[int | None, int | None]:
        for rank, size in RANK_VARIABLES:
            if self.env.get(rank, "").isdigit() and self.env.get(size, "").isdigit():
                return int(self.env[rank]), int(self.env[size])
        return None, None

    @property
    def identity(self) -> tuple[Any, ...]:
        """What a worker has in common with its rank, and two ranks have not."""
        return self.rank, self.world_size, self.local_rank

    @property
    def name(self) -> str:
        """How messages call it."""
        if self.of is not None:
            return (
                f"worker {self.pid} of rank {self.rank}"
                if self.rank is not None
                else f"worker {self.pid} of process {self.of}"
            )
        return f"rank {self.rank} (pid {self.pid})" if self.rank is not None else f"pid {self.pid}"

    @property
    def is_python(self) -> bool:
        """True where its executable is a Python."""
        names = [os.path.basename(name) for name in (self.exe, *self.words[:1])]
        return any(re.match(r"(?:python|pypy|pt_main_thread|VLLM|sglang|ray::)", name) for name in names)

    @property
    def is_launcher(self) -> bool:
        """True of torchrun and its like, by the command."""
        return LAUNCHER.search(" ".join(self.words[:6])) is not None

    @property
    def is_collector(self) -> bool:
        """True of this program in another process: ``srun`` gives it the variables of a rank."""
        return self.words[1:4] == ["-I", "-", "--pid"]

    def gpu(self) -> str | None:
        """The device that it uses, by CUDA_VISIBLE_DEVICES and its local rank."""
        visible = self.env.get("CUDA_VISIBLE_DEVICES") or self.env.get("HIP_VISIBLE_DEVICES") or ""
        devices = [name.strip() for name in visible.split(",") if name.strip()]
        if len(devices) == 1:
            return devices[0]
        if devices and self.local_rank is not None and self.local_rank < len(devices):
            return devices[self.local_rank]
        return None

    def row(self) -> dict[str, Any]:
        """Its row in ``node.json``."""
        return {
            "pid": self.pid,
            "rank": self.rank,
            "local_rank": self.local_rank,
            "world_size": self.world_size,
            "node_rank": _first_number(self.env, NODE_RANKS),
            "master_addr": self.env.get("MASTER_ADDR"),
            "gpu": self.gpu(),
            "state": self.state,
            "wchan": self.wchan,
            "command": masked_command(self.words),
            "of": self.of,
            "started": datetime.fromtimestamp(self.started, timezone.utc).astimezone().isoformat(timespec="seconds"),
            "looks": self.looks,
        }


def _first_number(env: dict[str, str], names: Iterable[str]) -> int | None:
    return next((int(env[name]) for name in names if env.get(name, "").isdigit()), None)


def proc_text(path: str, limit: int = 1 << 20) -> str:
    """A small file of ``/proc``; "" where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def state_of(pid: int) -> str:
    """R, S, D, T, Z and so on; "" where the process is gone."""
    return proc_text(f"/proc/{pid}/stat").rpartition(")")[2].strip()[:1]


def look_at_process(pid: int) -> dict[str, Any] | None:
    """What ``/proc`` says of a process; the states come first, since the rest may hang."""
    head, _, tail = proc_text(f"/proc/{pid}/stat").rpartition(")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [
                item.decode("utf-8", "backslashreplace").partition("=") for item in file.read(1 << 20).split(b"\0")
            ]
        is_readable = True
    except OSError:
        pairs, is_readable = [], False
    env = {name: value for name, _, value in pairs if name in USED or ALLOWED.fullmatch(name)}
    words = [word for word in proc_text(f"/proc/{pid}/cmdline", 1 << 16).split("\0") if word]
    try:
        exe = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        exe = ""
    return {
        "pid": pid,
        "parent": int(fields[1]),
        "state": fields[0],
        "started": _BOOT + int(fields[19]) / os.sysconf("SC_CLK_TCK"),
        "comm": head.partition("(")[2],
        "words": words,
        "exe": exe,
        "env": env,
        "secrets": sorted(secrets_in(words, ((name, value) for name, _, value in pairs))),
        "is_readable": is_readable,
    }


def _boot_time() -> float:
    hit = re.search(r"^btime (\d+)", proc_text("/proc/stat"), re.MULTILINE)
    return float(hit.group(1)) if hit else 0.0


_BOOT = _boot_time()


class ProcessTree:
    """All processes of the node, and which of them are of the job."""

    def __init__(self, answer: TarAnswer, wanted: set[int] | None, where: dict[str, str]) -> None:
        self.all: OrderedDict[int, Process] = OrderedDict()
        hidden = 0
        secrets: set[str] = set()
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
        for pid, seen in each(pids, look_at_process):
            if seen is None:
                if state_of(pid) == "D":
                    answer.lacks(f"pid {pid}", "reading its /proc files hangs; it is blocked in the kernel")
                continue
            process = self.all[pid] = Process(seen)
            secrets.update(process.secrets)
            hidden += not seen["is_readable"] and process.is_python and process.state not in "ZX"
        answer.secrets = sorted((s.encode("utf-8", "backslashreplace") for s in secrets), key=len, reverse=True)
        if hidden:
            answer.lacks(
                f"the environment of {hidden} Python processes",
                "no permission to read /proc/PID/environ: run the collector as root or as the user of the job",
            )
        self.children: dict[int, list[Process]] = {}
        for process in self.all.values():
            self.children.setdefault(process.parent, []).append(process)
        self.ranks = self._wanted(wanted, answer) if wanted is not None else self._ranks(where)
        if not self.ranks and wanted is None and not where:
            self.ranks = self._unnamed()
        self.workers = [worker for rank in self.ranks for worker in self._workers(rank)]

    def below(self, process: Process) -> Iterator[Process]:
        """All descendants."""
        for child in self.children.get(process.pid, ()):
            yield child
            yield from self.below(child)

    def above(self, process: Process) -> Iterator[Process]:
        """Its ancestors without the first process of the machine."""
        seen = set()
        while process.parent > 1 and process.parent in self.all and process.parent not in seen:
            process = self.all[process.parent]
            seen.add(process.pid)
            yield process

    def _ranks(self, where: dict[str, str]) -> list[Process]:
        """Processes with a rank in their environment that neither start other ranks nor are workers of one."""
        named = [
            p
            for p in self.all.values()
            if p.rank is not None and p.is_python and not p.is_launcher and not p.is_collector and p.state not in "ZX"
        ]
        keys = {p.pid: p.identity for p in named}
        starters = {p.pid for p in named if any(keys.get(c.pid, p.identity) != p.identity for c in self.below(p))}
        named = [
            p for p in named if p.pid not in starters and all(p.env.get(name) == value for name, value in where.items())
        ]
        pids = {p.pid for p in named}
        ranks = [p for p in named if not any(a.pid in pids for a in self.above(p))]
        return sorted(ranks, key=lambda p: (p.rank, p.pid))[:MOST_PROCESSES]

    def _unnamed(self) -> list[Process]:
        """Without any rank in an environment: the processes that have PyTorch's libraries in their memory."""
        python = [p for p in self.all.values() if p.is_python and not p.is_launcher and p.state not in "ZX"]
        loaded = [self.all[pid] for pid, has in each([p.pid for p in python], _has_torch) if has]
        pids = {p.pid for p in loaded}
        leaves = [
            p
            for p in loaded
            if not any(
                c.pid in pids and "multiprocessing" in " ".join(c.words) and "spawn" in " ".join(c.words)
                for c in self.below(p)
            )
        ]
        kept = {p.pid for p in leaves}
        return [p for p in leaves if not any(a.pid in kept for a in self.above(p))][:MOST_PROCESSES]

    def _wanted(self, wanted: set[int], answer: TarAnswer) -> list[Process]:
        for pid in sorted(wanted - set(self.all)):
            answer.lacks(f"pid {pid}", "no such process on this node")
        return [self.all[pid] for pid in sorted(wanted & set(self.all))]

    def _workers(self, rank: Process) -> list[Process]:
        """Processes that a rank has started; compilers and shells are none."""
        out = [p for p in self.below(rank) if p.is_python and "resource_tracker" not in " ".join(p.words)]
        for worker in out:
            worker.job = rank.job
            worker.of, worker.rank, worker.local_rank, worker.world_size = (
                rank.pid,
                rank.rank,
                rank.local_rank,
                rank.world_size,
            )
        return out

    def launchers(self) -> list[Process]:
        """What stands above the ranks up to the highest launcher, without one the parents alone."""
        out: OrderedDict[int, Process] = OrderedDict()
        for rank in self.ranks:
            above = list(self.above(rank))
            highest = max((at for at, process in enumerate(above) if process.is_launcher), default=0)
            for process in above[: highest + 1]:
                if process.pid not in out:
                    process.job = rank.job
                    out[process.pid] = process
        return list(out.values())


def _has_torch(pid: int) -> bool:
    return re.search(r"/lib(?:torch|nccl)[\w.+-]*\.so", proc_text(f"/proc/{pid}/maps", 16 << 20)) is not None


# ---- looks: states, wait channels and stacks ----------------------------------------------------------------------------------------


def folder(process: Process, tree: ProcessTree) -> str:
    """``rank-3``; two processes that say they are rank 3 get their pids too."""
    rank = process.pid if process.of is None else process.of
    if process.rank is None:
        return f"pid-{rank}"
    is_only = sum(other.rank == process.rank for other in tree.ranks) == 1
    return f"rank-{process.rank}" if is_only else f"rank-{process.rank}-pid-{rank}"


def threads_of(pid: int) -> dict[str, Any]:
    """State and wait channel of each thread of a process.

    Root also gets the kernel's stack of the main thread.
    """
    rows = []
    try:
        names = sorted((name for name in os.listdir(f"/proc/{pid}/task")), key=int)
    except OSError:
        names = []
    for name in names[:1024]:
        task = f"/proc/{pid}/task/{name}"
        head, _, tail = proc_text(f"{task}/stat").rpartition(")")
        if tail:
            rows.append([int(name), tail.split()[0], proc_text(f"{task}/wchan").strip() or "-", head.partition("(")[2]])
    return {"threads": rows, "kernel": proc_text(f"/proc/{pid}/stack")}


def look_at_states(answer: TarAnswer, tree: ProcessTree, look: int) -> None:
    """One table of the processes of each job as ``ps`` prints it, and one of the threads of each rank."""
    tables: OrderedDict[str, list[tuple[str, ...]]] = OrderedDict()
    processes = [*tree.launchers(), *tree.ranks, *tree.workers]
    by_pid = {process.pid: process for process in processes}
    moment = now()
    for pid, seen in each([*by_pid], threads_of):
        process = by_pid[pid]
        process.state = state_of(pid) or "X"
        main = next((row for row in (seen or {}).get("threads", ()) if row[0] == pid), None)
        process.wchan = main[2] if main is not None else None
        process.looks.append({"look": look, "time": moment, "state": process.state, "wchan": process.wchan})
        if process.state == "X":
            answer.lacks(process.name, "the process ended while it was looked at")
            continue
        command = masked_command(process.words) or f"[{process.comm}]"
        ago = max(0, int(time.time() - process.started))
        row = (str(pid), str(process.parent), process.state, process.wchan or "-", _elapsed(ago), command)
        tables.setdefault(process.job, [("PID", "PPID", "STAT", "WCHAN", "ELAPSED", "COMMAND")]).append(row)
        if seen is not None and process not in tree.workers and process.pid in {rank.pid for rank in tree.ranks}:
            lines = [
                f"TID S WCHAN{'':<24} NAME",
                *(f"{tid} {state} {wchan:<29} {name}" for tid, state, wchan, name in seen["threads"]),
            ]
            if seen["kernel"].strip():
                lines += [
                    "",
                    "kernel stack of the main thread:",
                    *("  " + line for line in seen["kernel"].splitlines()),
                ]
            answer.add(f"{folder(process, tree)}/threads-{look}.txt", "threads", _lines(lines), process, look)
    for number, (job, rows) in enumerate(tables.items(), 1):
        path = f"node/processes-{look}.txt" if number == 1 else f"node/job-{number}-processes-{look}.txt"
        answer.add(path, "processes", _lines(" ".join(row) for row in rows), look=look, time=moment, job=job)


def _elapsed(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours:02}:{rest // 60:02}:{rest % 60:02}"


def _lines(lines: Iterable[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


STACK_TOOLS = ("py-spy", "pystack", "eu-stack", "gdb")
"""The best first. py-spy reads a process without stopping it where it must: one that is stopped or blocked already."""


def stack_command(tool: str, path: str, pid: str, standing: bool, native: bool) -> list[str] | None:
    """The command of a tool; ``standing`` is a process that cannot be stopped, for which only two tools will do."""
    if tool == "py-spy":
        return [path, "dump", "--pid", pid, *(["--nonblocking"] if standing else ["--native"] if native else [])]
    if tool == "pystack":
        return [path, "remote", *(["--no-block"] if standing else ["--native"] if native else []), pid]
    if standing:
        return None
    if tool == "eu-stack":
        return [path, "-p", pid]
    quiet = ["-iex", "set auto-load off", "-iex", "set debuginfod enabled off", "-ex", "set pagination off"]
    return [path, "-nx", "-batch", *quiet, "-p", pid, "-ex", "thread apply all bt 64"]


def find_tool(name: str, processes: Iterable[Process]) -> str | None:
    """Where a tool is: on the path of this program, or on that of the job.

    A file that another user could have put there is never run.
    """
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), os.path.dirname(sys.executable)]
    folders += ["/usr/local/bin", "/opt/conda/bin"]
    for process in processes:
        if _is_same_place(process.pid):
            folders += [
                os.path.join(process.env.get("VIRTUAL_ENV") or "/nowhere", "bin"),
                os.path.dirname(process.words[0] if process.words else ""),
            ]
            folders += process.env.get("PATH", "").split(os.pathsep)
    for place in OrderedDict.fromkeys(folders):
        path = os.path.join(place, name)
        if os.path.isabs(path) and os.access(path, os.X_OK) and _is_trusted(path):
            return path
    return None


def _is_trusted(path: str) -> bool:
    """True for a file of root or of this user that nobody else can write."""
    for place in (os.path.realpath(path), os.path.dirname(os.path.realpath(path))):
        found = os.stat(place)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
            return False
    return stat.S_ISREG(os.stat(path).st_mode)


def _is_same_place(pid: int) -> bool:
    """True where a process sees the same files as this program."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return False


def why_no_stacks(pid: int) -> str:
    """What to change where the kernel refuses to show a process."""
    advice = []
    powers = re.search(r"^CapEff:\s*([0-9a-f]+)", proc_text("/proc/self/status"), re.MULTILINE)
    if powers and not int(powers.group(1), 16) >> 19 & 1:
        advice.append(
            "this program lacks SYS_PTRACE: run it as root, or give the pod securityContext.capabilities.add: [SYS_PTRACE], "
            "or the container --cap-add=SYS_PTRACE"
        )
    scope = proc_text("/proc/sys/kernel/yama/ptrace_scope").strip()
    if scope not in ("", "0"):
        advice.append(
            f"kernel.yama.ptrace_scope is {scope}; 0 lets a user look at own processes (sysctl -w kernel.yama.ptrace_scope=0)"
        )
    tracer = re.search(r"^TracerPid:\s*([1-9]\d*)", proc_text(f"/proc/{pid}/status"), re.MULTILINE)
    if tracer:
        advice.append(f"process {tracer.group(1)} already traces it")
    return "; ".join(advice)


class StackLook:
    """One look at the stacks of all ranks and of their workers."""

    def __init__(self, answer: TarAnswer, tree: ProcessTree, look: int) -> None:
        self.answer = answer
        self.tree = tree
        self.look = look
        self.tools = [
            (name, path) for name, path in ((name, find_tool(name, tree.ranks)) for name in STACK_TOOLS) if path
        ]
        self.tried: dict[int, list[str]] = {}
        self.said: dict[int, tuple[str, bytearray]] = {}
        if not self.tools:
            answer.lacks(
                "stacks",
                f"none of {', '.join(STACK_TOOLS)} is on this node (pip install py-spy); states and wait channels were taken from /proc",
            )

    def look_at_all(self) -> None:
        """The ranks first, all at about the same time, then a few workers of each."""
        self._run_tools(self.tree.ranks, 0)
        few: list[Process] = []
        for rank in self.tree.ranks:
            few += [worker for worker in self.tree.workers if worker.of == rank.pid][:MOST_WORKERS]
        self._run_tools(few, 0)

    def _run_tools(self, processes: list[Process], attempt: int) -> None:
        again: dict[int, list[Process]] = {}
        run_all([partial(self._start_tool, process, attempt, again) for process in processes])
        for number, failed in sorted(again.items()):
            self._run_tools(failed, number)

    def _start_tool(self, process: Process, attempt: int, again: dict[int, list[Process]]) -> Child | None:
        """Start the tool number ``attempt`` on a process; where it fails, the next one is tried afterwards."""
        state = state_of(process.pid)
        if not state or state in "ZX":
            self.answer.lacks(
                f"stack of {process.name}",
                "the process is gone" if not state else "the process has ended and waits for its parent (zombie)",
            )
            return None
        if attempt >= len(self.tools):
            if self.tools:
                self._give_up(process)
            return None
        if self.answer.seconds_left < 1:
            self.answer.lacks(f"stack of {process.name}", "no time left (--seconds)")
            return None
        name, path = self.tools[attempt]
        words = stack_command(name, path, str(process.pid), state in "TtD", native=False)
        if words is None:
            again.setdefault(attempt + 1, []).append(process)
            return None
        try:
            patience = SYMBOL_SECONDS if name == "gdb" else STACK_SECONDS
            child = command(words, min(patience, self.answer.seconds_left))
        except OSError as error:
            self.tried.setdefault(process.pid, []).append(f"{name} cannot be started: {error.strerror}")
            again.setdefault(attempt + 1, []).append(process)
            return None
        child.then = lambda child: self._done(process, attempt, state, child, again)
        return child

    def _done(self, process: Process, attempt: int, before: str, child: Child, again: dict[int, list[Process]]) -> None:
        name, _ = self.tools[attempt]
        self._unfreeze(process, before, name, child)
        if child.late or child.status != 0 or not _has_frames(child.data):
            self._note_failure(process, name, child)
            again.setdefault(attempt + 1, []).append(process)
        else:
            self._add_stack(process, name, child.data)

    def _note_failure(self, process: Process, tool: str, child: Child) -> None:
        why = "did not answer in time" if child.late else _last_line(child.data) or "printed nothing"
        self.tried.setdefault(process.pid, []).append(f"{tool}: {why}")
        if child.data:
            self.said.setdefault(process.pid, (tool, child.data))

    def _give_up(self, process: Process) -> None:
        """No tool has given a stack: say what each said, and keep the words of the first."""
        said = self.said.get(process.pid)
        tried = self.tried.get(process.pid, ["no tool can look at a process that is stopped or blocked"])
        refused = any(re.search(r"[Pp]ermission [Dd]enied|not permitted|EPERM", why) for why in tried)
        advice = why_no_stacks(process.pid) if refused else ""
        self.answer.lacks(f"stack of {process.name}", "; ".join(filter(None, (advice, *tried))))
        if said is not None:
            self._add_stack(process, *said)

    def _add_stack(self, process: Process, tool: str, data: bytearray) -> None:
        who = f"worker-{process.pid}-" if process.of is not None else ""
        path = f"{folder(process, self.tree)}/{who}stack-{self.look}.txt"
        self.answer.add(path, "stack", bytes(data), process, self.look, tool=tool)

    def _unfreeze(self, process: Process, before: str, tool: str, child: Child) -> None:
        """A tool that was ended in the middle of its look may leave its process stopped: let that go on."""
        if child.late and before not in "Tt" and state_of(process.pid) == "T":
            _signal(process.pid, signal.SIGCONT)
            self.answer.lacks(
                f"stack of {process.name}",
                f"{tool} was ended and left the process stopped; SIGCONT set it running again",
            )


def _has_frames(data: bytearray) -> bool:
    return re.search(rb"(?m)^ {1,8}\S.* \(.+\)$|^#\d+ |File \"", data) is not None


def _last_line(data: bytearray) -> str:
    lines = [line.strip() for line in bytes(data).decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"rror|denied|ailed|permitted", line)]
    return " / ".join(OrderedDict.fromkeys((errors or lines)[-3:]))[:300]


# ---- what else a job leaves: variables, logs, recorder dumps, RAS -------------------------------------------------------------------


def add_environments(answer: TarAnswer, tree: ProcessTree) -> None:
    """The allowed variables of each rank, as they were when it started."""
    for rank in tree.ranks:
        rows = []
        for name, value in sorted(rank.env.items()):
            if ALLOWED.fullmatch(name):
                rows.append(f"{name}={MASK if SECRET_NAME.search(name) else ' '.join(value.split())[:2000]}")
        if rows:
            answer.add(f"{folder(rank, tree)}/environment.txt", "environment", _lines(rows), rank)


_LOG_NAME = re.compile(
    r"(?:\.(?:log|out|err|txt|jsonl|stdout|stderr)(?:\.\d+)?|(?:^|[._-])(?:std(?:out|err)|log))$", re.IGNORECASE
)
_NO_LOG = re.compile(
    r"^/(?:dev|proc|sys|run|memfd:|anon_inode)|\.(?:so|pyc?|pt|pth|bin|npy|safetensors|db|sqlite|lock|tfevents)\b"
)


def open_logs(pid: int) -> list[dict[str, Any]]:
    """Regular files that a process writes: its output, and files that are named like logs."""
    out = []
    try:
        names = sorted(os.listdir(f"/proc/{pid}/fd"), key=int)[:4096]
    except OSError:
        return [{"error": "no permission to list /proc/PID/fd"}] if state_of(pid) else []
    for name in names:
        link = f"/proc/{pid}/fd/{name}"
        try:
            target = os.readlink(link)
            flags = re.search(r"^flags:\s*([0-7]+)", proc_text(f"/proc/{pid}/fdinfo/{name}"), re.MULTILINE)
            is_written = flags is not None and int(flags.group(1), 8) & os.O_ACCMODE != os.O_RDONLY
            path = target[: -len(" (deleted)")] if target.endswith(" (deleted)") else target
            if not target.startswith("/") or not is_written or _NO_LOG.search(path):
                continue
            if name in ("1", "2") or _LOG_NAME.search(os.path.basename(path)):
                found = os.stat(link)
                if stat.S_ISREG(found.st_mode):
                    out.append({"fd": name, "path": path, "file": [found.st_dev, found.st_ino], "size": found.st_size})
        except OSError:
            continue
    return out


def add_logs(answer: TarAnswer, tree: ProcessTree) -> None:
    """The end of each log that a rank, a worker or a launcher writes; each file once."""
    writers: OrderedDict[tuple[int, int], list[tuple[Process, dict[str, Any]]]] = OrderedDict()
    by_pid = {process.pid: process for process in (*tree.ranks, *tree.workers, *tree.launchers())}
    for pid, found in each([*by_pid], open_logs):
        if found is None:
            answer.lacks(f"logs of {by_pid[pid].name}", "its file system does not answer")
        for log in found or ():
            if "error" in log:
                answer.lacks(f"logs of {by_pid[pid].name}", log["error"])
            else:
                writers.setdefault(tuple(log["file"]), []).append((by_pid[pid], log))
    used: set[str] = set()
    of_ranks = {process.pid for process in (*tree.ranks, *tree.workers)}
    for number, rows in enumerate(list(writers.values())):
        if number == MOST_LOGS:
            answer.lacks("logs", f"more than {MOST_LOGS}: the rest was left out")
            break
        # torchrun keeps the files open that it gives its ranks for their output
        rows = [row for row in rows if row[0].pid in of_ranks] or rows
        process, log = rows[0]
        is_of_rank = process.pid in of_ranks and len({p.pid if p.of is None else p.of for p, _ in rows}) == 1
        top = folder(process, tree) + "/logs" if is_of_rank else "node/logs"
        name = re.sub(r"[^\w.+-]", "_", os.path.basename(log["path"]))[:80] or "log"
        path = next(
            p for p in (f"{top}/{n}-{name}" if n else f"{top}/{name}" for n in itertools.count()) if p not in used
        )
        used.add(path)
        log["job"] = process.job if len({p.job for p, _ in rows}) == 1 else None
        _add_tail(answer, path, f"/proc/{process.pid}/fd/{log['fd']}", process if is_of_rank else None, log)


def _add_tail(answer: TarAnswer, path: str, link: str, process: Process | None, log: dict[str, Any]) -> None:
    want = min(LOG_TAIL, answer.left)

    def work(write: Callable[[bytes], None]) -> None:
        with open(link, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - want))
            write(b"%d\n" % size)
            left = want
            while left > 0:
                block = file.read(min(left, 1 << 16))
                if not block:
                    break
                write(block)
                left -= len(block)

    child = reader(work, min(READ_SECONDS, answer.seconds_left), want + 32)
    run_all([lambda: child])
    head, found, data = bytes(child.data).partition(b"\n")
    if not found or child.late:
        answer.lacks(
            f"the log {log['path']}", "its file system does not answer" if child.late else "no permission to read it"
        )
        return
    cut = max(0, int(head) - want)
    if cut:
        data = data.partition(b"\n")[2]
        answer.lacks(f"the first {cut:,} bytes of {log['path']}", "only the end of a log is collected")
    answer.add(path, "log", data, process, source=log["path"], cut=cut, job=log["job"])


def dump_paths(rank: Process) -> list[str]:
    """Where PyTorch writes the recorder dump of a rank: by its variables, else in its default places.

    Source: pytorch ``torch/csrc/distributed/c10d/FlightRecorder.cpp`` 2.2 to 2.13, ``DebugInfoWriter::getWriter``.
    """
    named = [rank.env.get(name, "") for name in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")]
    caches = [rank.env.get("XDG_CACHE_HOME") or "", os.path.join(rank.env.get("HOME") or "/nowhere", ".cache")]
    usual = [
        os.path.join(cache, "torch", name)
        for cache in caches
        if cache
        for name in ("comm_lib_trace_rank_", "nccl_trace_rank_")
    ]
    prefixes = [prefix for prefix in (*named, *usual, "/tmp/nccl_trace_rank_") if os.path.isabs(prefix)]
    return [f"{prefix}{rank.rank}" for prefix in OrderedDict.fromkeys(prefixes)]


def pipe_paths(rank: Process) -> list[str]:
    """The pipe that makes PyTorch write a dump (``ProcessGroupNCCL.hpp``, ``DumpPipe``; XCCL has its own name for it)."""
    names = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DEBUG_INFO_PIPE_FILE")
    return [f"{rank.env[name]}{rank.rank}.pipe" for name in names if os.path.isabs(rank.env.get(name, ""))]


def inside(pid: int, path: str) -> str:
    """A path as the process sees it, also where it lives in a container."""
    return f"/proc/{pid}/root{path}"


def _read_dumps(pid: int, paths: list[str], since: float) -> Callable[[Callable[[bytes], None]], None]:
    """A reader that writes path, NUL, why it is left out, NUL for each dump, and then bytes.

    Only the first good dump is read.
    """

    def work(write: Callable[[bytes], None]) -> None:
        for path in paths:
            try:
                descriptor = os.open(inside(pid, path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError:
                continue
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or not found.st_size:
                    continue
                name = path.encode("utf-8", "surrogateescape")
                if found.st_mtime < since:
                    write(name + b"\0older than the process: of another run\0")
                elif found.st_size > MOST_DUMP:
                    write(name + b"\0larger than 64 MB\0")
                else:
                    write(name + b"\0\0")
                    while True:
                        block = file.read(1 << 16)
                        if not block:
                            return
                        write(block)

    return work


def add_dumps(answer: TarAnswer, tree: ProcessTree, name: str, since: dict[int, float] | None = None) -> set[int]:
    """Recorder dumps that exist, of this run only; the pids that have one. ``since`` asks for dumps written after a moment."""
    have: set[int] = set()
    ranks = [rank for rank in tree.ranks if rank.rank is not None and (since is None or rank.pid in since)]

    def start(rank: Process) -> Child:
        begin = rank.started if since is None else since[rank.pid]
        child = reader(
            _read_dumps(rank.pid, dump_paths(rank), begin), min(READ_SECONDS, answer.seconds_left), MOST_DUMP + 4096
        )
        child.then = lambda child: end(child, rank)
        return child

    def end(child: Child, rank: Process) -> None:
        rest = bytes(child.data)
        while rest:
            path, _, rest = rest.partition(b"\0")
            why, _, rest = rest.partition(b"\0")
            source = path.decode("utf-8", "backslashreplace")
            if why:
                answer.lacks(f"flight recorder dump {source} of {rank.name}", why.decode()) if since is None else None
                continue
            answer.add(f"{folder(rank, tree)}/{name}_{rank.rank}", "dump", rest, rank, source=source)
            have.add(rank.pid)
            return

    run_all([partial(start, rank) for rank in ranks], 1)
    return have


def trigger_dumps(answer: TarAnswer, tree: ProcessTree) -> dict[int, float]:
    """Ask each rank that has a pipe for a dump; the pids that were asked, and when."""

    def ask(pid: int) -> str:
        for path in pipe_paths(ranks[pid]):
            try:
                descriptor = os.open(inside(pid, path), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError as error:
                return "no rank reads its pipe" if error.errno == errno.ENXIO else f"its pipe {path}: {error.strerror}"
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"1\n")
                    return ""
            finally:
                os.close(descriptor)
        return "its pipe is no pipe"

    ranks = {rank.pid: rank for rank in tree.ranks if rank.rank is not None and pipe_paths(rank)}
    asked: dict[int, float] = {}
    for pid, why in each([*ranks], ask):
        if why == "":
            asked[pid] = time.time() - 1.0
        else:
            answer.lacks(f"a new flight recorder dump of {ranks[pid].name}", why or "its file system does not answer")
    if not ranks and tree.ranks:
        answer.lacks(
            "new flight recorder dumps",
            "the job has no TORCH_NCCL_DEBUG_INFO_PIPE_FILE (set it with TORCH_FR_BUFFER_SIZE=2000 next time)",
        )
    return asked


def add_triggered_dumps(answer: TarAnswer, tree: ProcessTree, asked: dict[int, float]) -> None:
    """Wait for the dumps that were asked for; PyTorch looks at its pipe once a second."""
    until = time.monotonic() + min(DUMP_SECONDS, answer.seconds_left)
    while asked:
        for pid in add_dumps(answer, tree, "dump-1-triggered", asked):
            del asked[pid]
        if not asked or time.monotonic() >= until:
            break
        time.sleep(0.5)
    for rank in tree.ranks:
        if rank.pid in asked:
            answer.lacks(
                f"a new flight recorder dump of {rank.name}",
                f"none was written within {DUMP_SECONDS:.0f} s after the byte in its pipe",
            )


def listening_ports(pid: int) -> set[int]:
    """TCP ports on which anything in the network of a process listens."""
    rows = re.findall(
        r"^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F:]+ 0A",
        proc_text(f"/proc/{pid}/net/tcp", 8 << 20) + proc_text(f"/proc/{pid}/net/tcp6", 8 << 20),
        re.MULTILINE,
    )
    return {int(port, 16) for port in rows}


def ras_addresses(tree: ProcessTree) -> list[tuple[str, int]]:
    """Where NCCL's RAS listens: NCCL_RAS_ADDR, else localhost:28028, where something listens."""
    out: OrderedDict[tuple[str, int], None] = OrderedDict()
    for rank in tree.ranks:
        host, _, port = rank.env.get("NCCL_RAS_ADDR", "localhost:28028").rpartition(":")
        host = host.strip("[]")
        if port.isdigit() and rank.env.get("NCCL_RAS_ENABLE") != "0" and int(port) in listening_ports(rank.pid):
            out["localhost" if host in ("", "0.0.0.0", "::") else host, int(port)] = None
    return list(out)[:8]


def ask_ras(host: str, port: int, write: Callable[[bytes], None]) -> None:
    """The verbose report of RAS, by the protocol of ``ncclras`` (NVIDIA/nccl ``src/ras/client.cc`` 2.24 to 2.30).

    JSON, which lists every rank, comes from 2.28.7 on; an older one refuses the format and reports outliers as text.
    """
    with socket.create_connection((host, port), 3.0) as connection:
        connection.settimeout(12.0)
        stream = connection.makefile("rb")
        connection.sendall(b"CLIENT PROTOCOL 2\n")
        if not stream.readline(1024).upper().startswith(b"SERVER PROTOCOL"):
            return
        connection.sendall(b"TIMEOUT 5\n")
        if stream.readline(1024).strip().upper() != b"OK":
            return
        connection.sendall(b"SET FORMAT json\n")
        stream.readline(1024)
        connection.sendall(b"VERBOSE STATUS\n")
        for line in stream:
            write(line)


DEBUG_SERVER_PORT = 25999
"""The port of ``torch.distributed.debug.start_debug_server`` on rank 0 (pytorch ``torch/distributed/debug/__init__.py`` 2.10)."""


def ask_debug_server(write: Callable[[bytes], None]) -> None:
    """The page with the recorder dumps of all ranks."""
    with socket.create_connection(("localhost", DEBUG_SERVER_PORT), 3.0) as connection:
        connection.settimeout(12.0)
        connection.sendall(b"GET /fr_trace_json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        stream = connection.makefile("rb")
        if b" 200 " not in stream.readline(1024):
            return
        while stream.readline(65536) not in (b"\r\n", b"\n", b""):
            pass
        for block in iter(lambda: stream.read(1 << 16), b""):
            write(block)


def add_network_reports(answer: TarAnswer, tree: ProcessTree) -> None:
    """RAS and PyTorch's debug server, where the job has them."""
    starters = []

    def ask(path: str, kind: str, what: str, work: Callable[[Callable[[bytes], None]], None]) -> Callable[[], Child]:
        def end(child: Child) -> None:
            if child.data:
                answer.add(path, kind, bytes(child.data))
            if child.late or not child.data:
                answer.lacks(what, "it did not answer in time" if child.late else "it gave no report")

        def start() -> Child:
            child = reader(work, min(TOOL_SECONDS, answer.seconds_left), MOST_DUMP)
            child.then = end
            return child

        return start

    addresses = ras_addresses(tree)
    for number, (host, port) in enumerate(addresses):
        starters.append(ask(f"node/ras-{number}.txt", "ras", f"RAS at {host}:{port}", partial(ask_ras, host, port)))
    if not addresses and tree.ranks:
        answer.lacks("RAS report", "nothing listens where NCCL's RAS does (NCCL 2.24 or newer, NCCL_RAS_ENABLE)")
    if any(DEBUG_SERVER_PORT in listening_ports(rank.pid) for rank in tree.ranks if rank.rank == 0):
        starters.append(ask("node/debug_server_fr_trace_json.html", "dump", "PyTorch's debug server", ask_debug_server))
    run_all(starters)


# ---- the machine --------------------------------------------------------------------------------------------------------------------

NETWORK_FILE_SYSTEMS = re.compile(
    r"^(?:nfs\d?|lustre|gpfs|ceph|cifs|smb\w*|beegfs|glusterfs|wekafs|9p|virtiofs|fuse\.\w+|orangefs|panfs)$"
)

NODE_COMMANDS = (
    ("node/dmesg.log", "kernel log", ["dmesg"]),
    ("node/nvidia-smi.txt", "gpu", ["nvidia-smi"]),
    ("node/nvidia-smi-q.txt", "gpu", ["nvidia-smi", "-q"]),
)


def add_node(answer: TarAnswer, tree: ProcessTree) -> None:
    """The kernel's log, the state of GPUs, memory, load, mounts, and versions of libraries."""
    since = min((process.started for process in (*tree.ranks, *tree.launchers())), default=time.time() - 3600)
    run_all([partial(_start_node_command, answer, since, *row) for row in NODE_COMMANDS])
    mounts = [line.split()[:3] for line in proc_text("/proc/self/mounts").splitlines()]
    rows = [
        f"load: {proc_text('/proc/loadavg').strip()}",
        f"kernel: {' '.join(os.uname()[:3])}",
        f"cores: {os.cpu_count()}",
    ]
    rows += [
        line
        for line in proc_text("/proc/meminfo").splitlines()
        if line.startswith(("MemTotal", "MemAvailable", "SwapFree", "Shmem:"))
    ]
    rows += [
        f"mount: {where} is {kind} from {what}"
        for what, where, kind in (m for m in mounts if len(m) == 3)
        if NETWORK_FILE_SYSTEMS.match(kind)
    ]
    answer.add("node/machine.txt", "node", _lines(rows))
    found = OrderedDict(
        (line, None) for _, lines in each([rank.pid for rank in tree.ranks[:8]], versions_of) for line in lines or ()
    )
    if found:
        answer.add("node/versions.txt", "versions", _lines(found))


def kernel_lines(data: bytes, since: float) -> bytes:
    """The kernel's messages since a moment, with times as ``dmesg -T`` prints them.

    What is older than the job is not of it: a process that was killed an hour before must not be accused.
    """
    out = []
    is_late = False
    for line in data.splitlines():
        hit = re.match(rb"(?:<\d+>)?\[ *(\d+\.\d+)\] ?", line)
        if hit is not None:
            at = _BOOT + float(hit.group(1))
            is_late = at >= since
            line = f"[{time.strftime('%a %b %d %H:%M:%S %Y', time.localtime(at))}] ".encode() + line[hit.end() :]
        if is_late:
            out.append(line)
    return b"\n".join(out) + b"\n" if out else b""


def _start_node_command(answer: TarAnswer, since: float, path: str, kind: str, words: list[str]) -> Child | None:
    tool = find_tool(words[0], ())
    if tool is None:
        answer.lacks(words[0], "not on this node")
        return None

    def end(child: Child) -> None:
        if child.status != 0 or child.late:
            answer.lacks(
                " ".join(words), "did not answer in time" if child.late else _last_line(child.data) or "failed"
            )
        else:
            data = kernel_lines(bytes(child.data), since) if kind == "kernel log" else bytes(child.data)
            answer.add(path, kind, data[-(512 << 10) :])

    child = command([tool, *words[1:]], min(TOOL_SECONDS, answer.seconds_left))
    child.then = end
    return child


def versions_of(pid: int) -> list[str]:
    """Versions of PyTorch and NCCL by the files that a process has mapped; nothing is imported."""
    maps = proc_text(f"/proc/{pid}/maps", 16 << 20)
    out = []
    for site in OrderedDict.fromkeys(re.findall(r"(/\S*/(?:site|dist)-packages)/torch/lib/", maps)):
        try:
            names = os.listdir(inside(pid, site))
        except OSError:
            continue
        for name in sorted(names):
            hit = re.match(
                r"(torch|nvidia_nccl_cu\d+|pytorch_lightning|transformers|accelerate|deepspeed)-([\w.+]+)\.dist-info$",
                name,
            )
            if hit:
                label = {"torch": "PyTorch version: "}.get(
                    hit.group(1), "NCCL version " if "nccl" in hit.group(1) else hit.group(1) + "=="
                )
                out.append(label + hit.group(2))
    out += [f"mapped: {path}" for path in OrderedDict.fromkeys(re.findall(r"/\S*/libnccl\S*", maps))]
    return out


# ---- the order of it all ------------------------------------------------------------------------------------------------------------


def gather(answer: TarAnswer, wanted: set[int] | None, where: dict[str, str], twice: float) -> None:
    """What shows most comes first: a stream that is cut has it."""
    tree = ProcessTree(answer, wanted, where)
    answer.processes = [*tree.ranks, *tree.workers]
    if not tree.ranks:
        answer.lacks(
            NO_PROCESSES,
            "no Python process has RANK and WORLD_SIZE, or a launcher's like, in its environment; name them with --pid",
        )
    _tell_missing_ranks(answer, tree)
    look_at_states(answer, tree, 1)
    answer.tell()
    StackLook(answer, tree, 1).look_at_all()
    began = time.monotonic()
    answer.tell()
    add_environments(answer, tree)
    add_dumps(answer, tree, "dump-2-existing")
    asked = trigger_dumps(answer, tree)
    add_network_reports(answer, tree)
    add_node(answer, tree)
    add_triggered_dumps(answer, tree, asked)
    answer.tell()
    if twice:
        time.sleep(max(0.0, min(twice - (time.monotonic() - began), answer.seconds_left - STACK_SECONDS)))
        look_at_states(answer, tree, 2)
        StackLook(answer, tree, 2).look_at_all()
    add_logs(answer, tree)


def _tell_missing_ranks(answer: TarAnswer, tree: ProcessTree) -> None:
    """Local ranks that should run here and do not, and ranks that are there twice."""
    counts: dict[int, list[int]] = {}
    for rank in tree.ranks:
        if rank.rank is not None:
            counts.setdefault(rank.rank, []).append(rank.pid)
    for number, pids in counts.items():
        if len(pids) > 1:
            answer.lacks(
                f"which process is rank {number}",
                f"pids {', '.join(map(str, pids))} all say so: two jobs run here; name one with --pid or --where",
            )
    sizes = {rank.env.get("LOCAL_WORLD_SIZE", "") for rank in tree.ranks}
    size = sizes.pop() if len(sizes) == 1 else ""
    here = {rank.local_rank for rank in tree.ranks}
    for number in range(min(int(size), MOST_PROCESSES) if size.isdigit() else 0):
        if number not in here:
            answer.lacks(f"the process with local rank {number}", f"it does not run here; LOCAL_WORLD_SIZE is {size}")


def printed() -> list[str]:
    """Every command and read of :func:`gather`; PID stands for each process of the job."""
    proc = "stat, environ (allowed variables only), cmdline, exe, maps, status, fd, fdinfo, net/tcp, task/*/stat, task/*/wchan, stack"
    tools = [" ".join(stack_command(name, name, "PID", False, False) or []) for name in STACK_TOOLS]
    return [
        f"read /proc/PID/: {proc}",
        *(f"{'or ' if number else ''}{line}" for number, line in enumerate(tools)),
        "read $TORCH_FR_DUMP_TEMP_FILE<rank>, $TORCH_NCCL_DEBUG_INFO_TEMP_FILE<rank>, ~/.cache/torch/*_trace_rank_<rank>, "
        "/tmp/nccl_trace_rank_<rank>",
        "write one byte to $TORCH_NCCL_DEBUG_INFO_PIPE_FILE<rank>.pipe, where the job has it: PyTorch then writes a dump",
        "connect to $NCCL_RAS_ADDR or localhost:28028: VERBOSE STATUS",
        f"GET http://localhost:{DEBUG_SERVER_PORT}/fr_trace_json, where rank 0 listens there",
        *(" ".join(words) for _, _, words in NODE_COMMANDS),
        "read /proc/self/mounts, /proc/loadavg, /proc/meminfo; names of *.dist-info beside the mapped torch",
        f"read the last {LOG_TAIL // 1_000_000} MB of each log that a process of the job has open for writing: /proc/PID/fd/N",
    ]


def pids(text: str) -> set[int] | None:
    """``all`` or numbers with commas."""
    if text == "all":
        return None
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError("all, or process ids with commas")
    return {int(pid) for pid in text.split(",")}


def main() -> int:
    """Parse the options, gather, and end the stream."""
    parser = argparse.ArgumentParser(
        description="Writes what shows why a training job on this node stands as a tar stream."
    )
    parser.add_argument("--pid", type=pids, default=None, help="all training processes, or these")
    parser.add_argument(
        "--where", action="append", default=[], metavar="NAME=VALUE", help="only processes with this variable"
    )
    parser.add_argument("--twice", type=float, default=0.0, metavar="SECONDS", help="look again after so many seconds")
    parser.add_argument("--limit-mb", type=int, default=512, help="most MB that are written")
    parser.add_argument("--seconds", type=float, default=90.0, help="most seconds for all of it")
    parser.add_argument("--print", action="store_true", dest="only_print", help="print what would be run and read")
    options = parser.parse_args()
    if options.only_print:
        print("\n".join(printed()))
        return 0
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    answer = TarAnswer(sys.stdout.buffer, options.limit_mb << 20, options.seconds + options.twice)
    try:
        gather(answer, options.pid, dict(pair.partition("=")[::2] for pair in options.where), options.twice)
    except Exception as error:
        answer.lacks("the rest of this node", f"the collector failed with {type(error).__name__} ({error})")
    answer.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
