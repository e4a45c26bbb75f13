"""Runs the real command over hostile inputs and in odd surroundings, each in a process of its own, and judges how it ends:

python tests/fuzz/surroundings.py [--only NAME]

No case may end with a traceback or exit code 70, take more than 30 s of the processor or 2 GB, run code of the input, or show a secret.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import pickle
import re
import resource
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from builders.logs.planted_secrets import LINES, PEM, shown_in
from proof.watching import path_that_watches, seen_by_watch

from nccldoctor.cli import demo
from nccldoctor.discover.paths import printable

SAMPLE = "died"
CANARY = "canary"
MOST_SECONDS = 30
MOST_MEMORY = 2 << 30
GIVEN_UP_AFTER = 300
NCCLDOCTOR = shlex.join([sys.executable, "-m", "nccldoctor"])


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A case: what it is, and the shell command that runs in a folder where ``job`` holds a bundled incident.

    ``make`` adds files to that folder. In the command ``DOCTOR`` stands for ours. ``codes`` are the exit codes that are right.
    """

    about: str
    command: str
    codes: frozenset[int]
    make: Callable[[Path], None] = lambda folder: None


CASES: dict[str, Surroundings] = {}
"""All cases by name."""

JUDGED, NOTHING = frozenset({1}), frozenset({2, 3})


_ONE = "DOCTOR analyze job"
_LONG = "{{ yes '[rank1]: step 1 of many, the loss is 2.5' | head -c {megabytes}M; echo; cat job/node0/*.log; }}"


def _case(
    name: str, about: str, command: str = _ONE, codes: frozenset[int] = JUDGED
) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def add(make: Callable[[Path], None]) -> Callable[[Path], None]:
        CASES[name] = Surroundings(about, command, codes, make)
        return make

    return add


for _name, _about, _command, _codes in (
    ("no-home", "no HOME", "env -u HOME DOCTOR analyze job", JUDGED),
    ("home-is-a-file", "HOME is a file", "HOME=/etc/passwd DOCTOR analyze job", JUDGED),
    ("home-is-gone", "HOME does not exist", "HOME=/nowhere/at/all DOCTOR analyze job", JUDGED),
    ("no-environment", "an empty environment", 'env -i PYTHONPATH="$PYTHONPATH" DOCTOR analyze job', JUDGED),
    ("plain-locale", "LANG=C", "LANG=C LC_ALL=C PYTHONUTF8=0 DOCTOR analyze job", JUDGED),
    ("ascii", "an ASCII terminal", "PYTHONIOENCODING=ascii DOCTOR analyze job", JUDGED),
    ("closed-stdin", "closed standard input", "DOCTOR analyze - <&-", NOTHING),
    ("empty-stdin", "empty standard input", "DOCTOR analyze - </dev/null", NOTHING),
    (
        "long-stdin",
        "1.5 GB on standard input, of which the newest gigabyte is kept",
        f"{_LONG.format(megabytes=1500)} | DOCTOR analyze - >out; code=$?; "
        "grep -q 'only its last 1023 MB were kept: the 4.. MB' out || exit 9; exit $code",
        JUDGED,
    ),
    (
        "full-temporary-disk",
        "500 MB on standard input, and a temporary disk that is full behind 100 MB",
        f"{_LONG.format(megabytes=500)} | (ulimit -f 100000; DOCTOR analyze - >out); code=$?; "
        "grep -q 'only its last 25[56] MB were kept: the 2.. MB' out || exit 9; exit $code",
        JUDGED,
    ),
    ("closed-stdout", "closed standard output", "DOCTOR analyze job >&-", frozenset({1, 2})),
    ("closed-stderr", "closed standard error", "DOCTOR analyze job 2>&-", JUDGED),
    ("full-stdout", "a full disk behind standard output", "DOCTOR analyze job >/dev/full", frozenset({1, 2})),
    ("full-stderr", "a full disk behind standard error", "DOCTOR analyze job 2>/dev/full", JUDGED),
    ("closed-pipe", "a reader that leaves", "DOCTOR analyze job | true", frozenset({0})),
    (
        "report-on-full-disk",
        "a report onto a full disk",
        "ulimit -f 1; DOCTOR analyze job -o r.html",
        frozenset({1, 2}),
    ),
    ("report-to-nowhere", "a report into no folder", "DOCTOR analyze job -o nowhere/r.html", frozenset({2})),
    (
        "report-to-proc",
        "a report into a folder that takes no files",
        "DOCTOR analyze job -o /proc/r.html",
        frozenset({2}),
    ),
    (
        "two-writers",
        "two writers of one report",
        "DOCTOR analyze job -o r.html & first=$!; DOCTOR analyze job -o r.html; second=$?; wait $first; "
        "case $?$second in 12|21|11) exit 1;; *) exit 9;; esac",
        JUDGED,
    ),
    ("few-files", "24 open files", "ulimit -n 24; DOCTOR analyze job", JUDGED),
    (
        "gone-folder",
        "a working directory that is gone",
        'mkdir x; cd x; rmdir ../x; DOCTOR analyze "$OLDPWD/job"',
        JUDGED,
    ),
):
    CASES[_name] = Surroundings(_about, _command, _codes)


@_case("hostile-settings", "settings of a stranger in the working directory")
def _settings(folder: Path) -> None:
    (folder / "nccldoctor.toml").write_text('catalogue = ["r"]\n')
    (folder / "r").mkdir()
    (folder / "r/x.toml").write_text(f'title = "x"\n[[steps]]\ncommand = "touch {CANARY}"\n')


@_case("deep-folders", "1,200 folders inside each other")
def _deep(folder: Path) -> None:
    before = Path.cwd()
    try:
        os.chdir(folder / "job")
        for _ in range(1200):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(before)


@_case("links", "links in a circle, to nowhere, and out of the folder")
def _links(folder: Path) -> None:
    for name, target in (("a", "b"), ("b", "a"), ("self", "."), ("up", ".."), ("passwd", "/etc/passwd"), ("gone", "x")):
        (folder / "job" / name).symlink_to(target)


@_case("no-files-proper", "a pipe, a socket's name and a device beside the logs")
def _pipes(folder: Path) -> None:
    os.mkfifo(folder / "job/pipe.log")
    (folder / "job/null.log").symlink_to("/dev/zero")


@_case("odd-names", "names with line ends, colours, marks of direction and bytes that are no text")
def _names(folder: Path) -> None:
    for name in (b"a\nb.log", b"\x1b[31mred.log", "\u202egol.x".encode(), b"\xff\xfe.log", b"-o.html", b"<b>x<b>.log"):
        Path(os.fsdecode(os.path.join(os.fsencode(folder / "job"), name))).write_bytes(b"[rank3]: hello\n")  # noqa: PTH118


class _Touch:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {CANARY}",)


@_case("code-in-pickles", "dumps that call a function when they are unpickled")
def _pickles(folder: Path) -> None:
    for protocol in range(6):
        (folder / f"job/nccl_trace_rank_{protocol}").write_bytes(pickle.dumps({"entries": [_Touch()]}, protocol))


@_case(
    "secrets",
    "planted secrets in logs, in every format",
    "for f in text json html github jira slack md; do DOCTOR analyze job --format $f; done; DOCTOR inspect job",
    frozenset({0, 1, 2}),
)
def _secrets(folder: Path) -> None:
    text = "".join(f"[rank3]: RuntimeError: {line}\n" for line in LINES) + PEM + "\n"
    (folder / "job/rank_3.log").write_text(text)


def _sparse(name: str, head: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        with (folder / "job" / name).open("wb") as file:
            file.write(head)
            file.truncate(100 << 30)

    return make


_case("sparse-gzip", "a gzip of 100 GB that takes 4 kB of disk", _ONE)(_sparse("x.log.gz", gzip.compress(b"step 1\n")))
_case("sparse-zstd", "a zstd frame of 100 GB without content", _ONE)(_sparse("x.log.zst", b"\x28\xb5\x2f\xfd\0"))
_case("sparse-text", "a log of 100 GB that is a hole behind its first lines", _ONE)(
    _sparse("x.log", b"step 1\n" * 9999)
)
_case("sparse-dump", "a pickle of 100 GB", _ONE)(_sparse("nccl_trace_rank_9", b"\x80\x02"))


@_case("many-members", "a zip of 20,000 members")
def _members(folder: Path) -> None:
    with zipfile.ZipFile(folder / "job/x.zip", "w") as archive:
        for number in range(20_000):
            archive.writestr(zipfile.ZipInfo(f"x{number}.txt"), b"")


@_case("too-many-members", "a zip of 100,000 members, more than are read")
def _too_many_members(folder: Path) -> None:
    with zipfile.ZipFile(folder / "job/x.zip", "w") as archive:
        for number in range(100_000):
            archive.writestr(zipfile.ZipInfo(f"x{number}.txt"), b"")


@_case("nested", "fifty zips inside each other")
def _nested(folder: Path) -> None:
    data = b"step 1\n"
    for _ in range(50):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(zipfile.ZipInfo("x.zip"), data)
        data = packed.getvalue()
    (folder / "job/x.zip").write_bytes(data)


@_case("outside", "a tar whose members leave it")
def _outside(folder: Path) -> None:
    with tarfile.open(folder / "job/x.tar", "w") as archive:
        for name in (f"../{CANARY}", f"/{CANARY}", f"a/../../{CANARY}"):
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))


@_case("bomb", "a gzip that unpacks to 2 GB")
def _bomb(folder: Path) -> None:
    with gzip.open(folder / "job/x.log.gz", "wb", 1) as file:
        for _ in range(2 << 10):
            file.write(b"[rank1]: step 1 of many\n" * 43_690)


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder that is removed without recursion: the library's own way fails in deep folders."""
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def _is_touched(folder: Path) -> bool:
    found = subprocess.run(["find", str(folder), "-name", CANARY], capture_output=True, check=True)
    return bool(found.stdout)


@dataclass(frozen=True, slots=True)
class Ran:
    """How the command ended: each problem with the promise that it breaks, and what was used.

    ``seconds`` are those of the processor, ``memory`` the bytes of all processes together, both with the command's children.
    """

    problems: tuple[tuple[str, str], ...]
    characters: int = 0
    seconds: float = 0.0
    memory: int = 0


def problems(case: Surroundings) -> list[str]:
    """What is wrong with how the command ends in these surroundings; empty where nothing is."""
    return [what for _, what in ran(case).problems]


def ran(case: Surroundings) -> Ran:
    """Run the command in these surroundings, watched, and judge how it ends."""
    with _scratch() as scratch:
        folder, log = scratch / "at", scratch / "watch.log"
        folder.mkdir()
        environment = {**os.environ, "PYTHONPATH": path_that_watches(scratch / "watching", log)}
        demo.write(SAMPLE, folder / "job")
        case.make(folder)
        end = _end_of(case.command, folder, environment)
        if end is None:
            return Ran((("slow", f"no end in {GIVEN_UP_AFTER} s"),))
        found = [*_faults(end, case.codes), *seen_by_watch(log)]
        found += [("code", "code of the input ran")] if _is_touched(folder) else []
        if case.command == _ONE:
            listed = _end_of("DOCTOR inspect job --format json", folder, environment)
            found += [
                ("unmentioned", f"{name}: nothing is said of it") for name in _unmentioned(folder / "job", listed)
            ]
        return Ran(tuple(found), len(end.said), end.seconds, end.memory)


@dataclass(frozen=True, slots=True)
class _End:
    """How a command ended; ``errors`` is what it wrote to standard error, ``said`` that and standard output."""

    code: int
    said: str
    errors: str
    seconds: float
    memory: int


def _end_of(command: str, folder: Path, environment: dict[str, str]) -> _End | None:
    """Run a command by the shell in a folder; None where it had to be ended."""
    words = ["/bin/bash", "-c", command.replace("DOCTOR", NCCLDOCTOR)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=out, stderr=errors, start_new_session=True
        )
        largest, given_up = 0, time.monotonic() + GIVEN_UP_AFTER
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            largest = max(largest, _memory_of_tree(process.pid))
            if time.monotonic() > given_up:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == -signal.SIGKILL:
            return None
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        memory = max(largest, used.ru_maxrss * 1024)
        return _End(process.returncode, "".join(texts), texts[1], used.ru_utime + used.ru_stime, memory)


def _memory_of_tree(pid: int) -> int:
    """The bytes that a process and all below it hold now; 0 where it has gone, or the system does not say."""
    try:
        here = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0
    return here + sum(_memory_of_tree(int(child)) for child in below)


def _faults(end: _End, codes: frozenset[int]) -> Iterator[tuple[str, str]]:
    """What is wrong with an end, each with the promise that it breaks."""
    if end.code not in codes:
        yield "crash", f"exit code {end.code}: {end.said[-300:]}"
    if "Traceback (most recent call last)" in end.errors:
        yield "crash", "a traceback"
    if end.seconds > MOST_SECONDS:
        yield "slow", f"{end.seconds:.0f} s of the processor"
    if end.memory > MOST_MEMORY:
        yield "large", "more than 2 GB"
    if shown := shown_in(end.said):
        yield "secret", f"shows {shown}"


def _unmentioned(folder: Path, listed: _End | None) -> list[str]:
    """The files below a folder that the list of inputs does not name; *and 3 more* speaks for three."""
    if listed is None:
        return ["any file"]
    found = subprocess.run(["find", ".", "-not", "-type", "d", "-print0"], cwd=folder, capture_output=True, check=True)
    names = [printable(os.fsdecode(name)[2:]) for name in found.stdout.split(b"\0") if name]
    said = json.loads(listed.said[: listed.said.rindex("}") + 1])
    text = "\n".join([*(one["path"] for one in said["sources"]), *(gap["what"] for gap in said["gaps"])])
    silent = [name for name in names if name not in text]
    return silent[sum(int(count) for count in re.findall(r" and (\d+) more", text)) :]


def main() -> int:
    """Run all cases; 1 where one gave way."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="names of cases, with commas")
    asked = options.parse_args()
    names = asked.only.split(",") if asked.only else list(CASES)
    failed = 0
    for name in names:
        found = problems(CASES[name])
        failed += bool(found)
        print(f"{name}: {'; '.join(found) or 'ok'}", flush=True)
    print(f"{len(names)} surroundings, {failed} gave way")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
