"""An analysis asks for nothing that Windows lacks: it runs with the POSIX modules, calls and signals taken away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[2] / "sample_logs" / "died"

WITHOUT = """
import sys, logging, os, random, select, selectors, shutil, signal, socket, subprocess, tempfile, threading, time

for name in "fcntl grp pty pwd readline resource syslog termios tty".split():
    sys.modules[name] = None  # an import of it raises ModuleNotFoundError
calls = '''chown chroot confstr copy_file_range ctermid eventfd fchmod fchown fdatasync fork forkpty fpathconf fstatvfs getegid geteuid
    getgid getgroups getloadavg getpgid getpgrp getpriority getresuid getsid getuid getxattr initgroups killpg lchown listxattr lockf
    major makedev memfd_create minor mkfifo mknod nice openpty pathconf posix_fadvise posix_fallocate posix_spawn posix_spawnp pread
    preadv pwrite pwritev readv register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile setpgid setpriority setsid
    setuid splice statvfs sync sysconf tcgetpgrp ttyname uname unshare wait wait3 wait4 waitid writev WNOHANG WIFEXITED WIFSIGNALED
    WEXITSTATUS WTERMSIG O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC O_TMPFILE SEEK_DATA SEEK_HOLE'''
for name in calls.split():
    os.__dict__.pop(name, None)
kept = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}
for name in [name for name in dir(signal) if name.startswith("SIG") and name.isupper() and name not in kept]:
    delattr(signal, name)
for module, names in (
    (select, ("epoll", "poll")),
    (signal, ("alarm", "getitimer", "pause", "pthread_kill", "pthread_sigmask", "setitimer", "sigtimedwait", "sigwait")),
    (socket, ("AF_NETLINK", "AF_UNIX", "SO_REUSEPORT")),
    (time, ("clock_gettime", "pthread_getcpuclockid", "tzset")),
):
    for name in names:
        module.__dict__.pop(name, None)
sys.platform = "wasi"  # no Linux; "win32" would let click and rich look for its console
"""
"""What stands before a program to take away what Windows lacks, after the modules of Python that need it here are loaded."""

PROGRAM = """
from nccldoctor.discover import pipes
from nccldoctor.parsers.flight_recorder import process
pipes.SHORT = 1 << 16  # bytes of a pipe from which on a file takes the rest
process.BOOTSTRAP = WITHOUT + process.BOOTSTRAP  # the process that loads dumps has nothing of it either
from nccldoctor.cli.app import main
main()
"""


def run(without: str, *words: str | Path, stdin: bytes = b"") -> bytes:
    """What the command prints with these taken away; ``without`` is "" for this machine as it is."""
    code = f"{without}\nWITHOUT = {without!r}\n{PROGRAM}"
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.stdout


def test_what_windows_lacks_is_gone() -> None:
    gone = "import os, signal, sys\nprint(hasattr(os, 'fork'), hasattr(signal, 'SIGKILL'))\nimport resource"
    done = subprocess.run([sys.executable, "-c", WITHOUT + gone], capture_output=True, text=True, check=False)

    assert done.stdout == "False False\n"
    assert done.stderr.endswith("import of resource halted; None in sys.modules\n")


def test_an_incident_gets_the_same_document_and_the_same_page(tmp_path: Path) -> None:
    made = []
    for name, without in (("posix", ""), ("windows", WITHOUT)):
        page = tmp_path / name / "report.html"
        page.parent.mkdir()
        printed = run(without, "analyze", SAMPLE, "-o", page, "--format", "json")
        made.append((printed, page.read_bytes()))

    assert json.loads(made[0][0])["verdict"]["class"] == "died"
    assert made[0] == made[1]


def test_dumps_are_loaded_in_a_process_of_their_own() -> None:
    words = ("inspect", SAMPLE / "dumps", "--format", "json")
    usual = run("", *words)

    assert "recorder" in str(json.loads(usual))
    assert run(WITHOUT, *words) == usual


def test_a_long_pipe_is_kept_in_memory() -> None:
    log = b"step 1 of 1000: loss 2.31\n" * 40_000 + (SAMPLE / "node0" / "torchrun.log").read_bytes()
    words = ("inspect", "-", "--format", "json")
    usual = run("", *words, stdin=log)

    assert json.loads(usual)["events"]
    assert run(WITHOUT, *words, stdin=log) == usual
