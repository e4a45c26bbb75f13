"""Asks all targets at once, each within its own limits: a target that hangs or floods costs itself alone.

What a target sends goes to a file as it arrives, so that a cut answer is kept. Every command runs in a session of its own; what is
left of it is ended with its whole process group when its time is up, and on Ctrl-C.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time
import tomllib
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from nccldoctor.collect.bundle import Answer
from nccldoctor.collect.reach.way import Command, Target
from nccldoctor.model.errors import InputError
from nccldoctor.words.numbers import size
from nccldoctor.words.sanitize import line

LOOK_UP_S = 30.0
"""Seconds that a command may take to list the nodes."""

GRACE_S = 2.0
"""Seconds between SIGTERM, which ``srun`` passes on to its step, and SIGKILL."""

_MAGIC, _MAGIC_AT = b"ustar", 257
"""What the first header of a tar archive holds, and where."""

_CHUNK = 1 << 16
_ERRORS = 8_000
"""Bytes kept of the end of what a command writes to its standard error."""

_CAUSES = tomllib.loads(Path(__file__).with_name("failures.toml").read_text(encoding="utf-8"))["causes"]


class Limits(Struct, frozen=True):
    """What one target may cost: seconds from start to end, and bytes; and how many are asked ``at_once``.

    ``silence``: seconds until the first byte. The collector sends what ``/proc`` says at once, so that a node which sends nothing is
    down, or cannot start a process.
    """

    seconds: float
    size: int
    silence: float = 25.0
    at_once: int = 64


def look_up(command: Command) -> str:
    """The output of a command that lists nodes. Raises :class:`InputError` where it is not installed, fails, or takes longer than 30 s."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LOOK_UP_S, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(f"{command[0]} didn't answer in {LOOK_UP_S:.0f} s", "is its server up?") from None
    except OSError as error:
        raise InputError(*_cannot_start(command, error)) from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputError(f"{command[0]} failed: {words[-1][:300] if words else f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "replace")


def _cannot_start(command: Command, error: OSError) -> tuple[str, str]:
    if isinstance(error, FileNotFoundError):
        return f"{command[0]} isn't installed here", "run nccldoctor where you start your jobs"
    return f"{command[0]} can't be started: {error.strerror}", ""


def ask_all(
    targets: Sequence[Target],
    collector: Path,
    folder: Path,
    limits: Limits,
    on_answer: Callable[[Answer], None] = lambda answer: None,
) -> tuple[Answer, ...]:
    """The answers of all targets, in their order; their streams are files in ``folder``.

    ``collector`` is sent to the standard input of each command. ``on_answer`` is called for each answer when it is complete. Nothing
    runs any more when this returns or raises, KeyboardInterrupt on Ctrl-C.
    """

    async def ask_together() -> list[Answer]:
        _cancel_on_ctrl_c()
        gate = asyncio.Semaphore(limits.at_once)
        asked = (_ask(t, collector, folder / f"{n:05}.tar", limits, gate, on_answer) for n, t in enumerate(targets))
        return await asyncio.gather(*asked)

    try:
        return tuple(asyncio.run(ask_together()))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _cancel_on_ctrl_c() -> None:
    """Let the first Ctrl-C cancel the current task, through the loop.

    An exception raised wherever the interpreter happens to be could be lost; what ends the commands is not interrupted by a second one.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def cancel_once() -> None:
        if task is not None and not task.cancelling():
            task.cancel()

    if threading.current_thread() is threading.main_thread():
        loop.add_signal_handler(signal.SIGINT, cancel_once)


async def _ask(
    target: Target,
    collector: Path,
    file: Path,
    limits: Limits,
    gate: asyncio.Semaphore,
    on_answer: Callable[[Answer], None],
) -> Answer:
    async with gate:
        began = time.monotonic()
        error = target.problem or await _run_collector(target.command, collector, file, limits)
        stream = _without_banner(file) if file.exists() else None
        answer = Answer(target.name, stream, error or None, time.monotonic() - began)
    on_answer(answer)
    return answer


async def _run_collector(command: Command, collector: Path, file: Path, limits: Limits) -> str:
    """Run a command, its output into ``file``; why that is not all of it, or ""."""
    try:
        with collector.open("rb") as source:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=source, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
    except OSError as error:
        return _cannot_start(command, error)[0]
    errors, has_ended = asyncio.create_task(_last_words(process)), False
    try:
        async with asyncio.timeout(limits.seconds):
            if not await _has_stored_all(process, file, limits):
                return f"more than {size(limits.size)}: the rest was not taken"
            code = await process.wait()
            has_ended = True
            return _failure_words(command, code, await _within_grace(errors)) if code else ""
    except TimeoutError:
        came = file.stat().st_size if file.exists() else 0
        words = f"cut off after {limits.seconds:.0f} s, when {size(came)} had arrived"
        return words if came else f"no answer in {min(limits.seconds, limits.silence):.0f} s"
    except OSError as error:
        return f"its answer can't be stored: {error.strerror}"
    finally:
        errors.cancel()
        if not has_ended:
            await _end_group(process)


def _failure_words(command: Command, code: int, errors: str) -> str:
    """Why ``command`` failed, in one line: the cause where it is known, and the last line that it printed."""
    last = next((text for text in reversed(errors.splitlines()) if text.strip()), "")
    said = line(last, 200) or f"{command[0]} ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
    cause = next((cause["means"] for cause in _CAUSES if re.search(cause["printed"], errors)), "")
    return f"{cause} ({said})" if cause else said


async def _has_stored_all(process: Process, file: Path, limits: Limits) -> bool:
    """Write the output of a process to ``file``; False where it is too long."""
    assert process.stdout is not None
    stored = 0
    with file.open("wb", buffering=0) as target:
        async with asyncio.timeout(limits.silence):
            chunk = await process.stdout.read(_CHUNK)
        while chunk:
            target.write(chunk[: limits.size - stored])
            stored += len(chunk)
            if stored > limits.size:
                return False
            chunk = await process.stdout.read(_CHUNK)
    return True


def _without_banner(file: Path) -> Path:
    """The stream without what a login shell or a prolog printed before it: ``Welcome to gpu-a07!``."""
    with file.open("rb") as stream:
        begin = _first_header(stream.read(1 << 16))  # a node may print a banner before its answer
        if not begin:
            return file
        stream.seek(begin)
        clean = file.with_suffix(".clean")
        with clean.open("wb") as target:
            shutil.copyfileobj(stream, target)
    return clean.replace(file)


def _first_header(head: bytes) -> int:
    """Where the first valid header of a tar archive stands; 0 where there is none."""
    at = head.find(_MAGIC, _MAGIC_AT)
    while at >= 0:
        begin = at - _MAGIC_AT
        with suppress(tarfile.HeaderError):
            tarfile.TarInfo.frombuf(head[begin : begin + tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
            return begin
        at = head.find(_MAGIC, at + 1)
    return 0


async def _last_words(process: Process) -> str:
    """The end of what the process writes to its standard error."""
    assert process.stderr is not None
    kept = b""
    while chunk := await process.stderr.read(_CHUNK):
        kept = (kept + chunk)[-_ERRORS:]
    return kept.decode("utf-8", "replace")


async def _within_grace(errors: asyncio.Task[str]) -> str:
    """The error text, unless something that outlives the command keeps its standard error open."""
    try:
        return await asyncio.wait_for(errors, GRACE_S)
    except TimeoutError:
        return ""


async def _end_group(process: Process) -> None:
    """End what is left of a process and its children: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        if process.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE_S)
