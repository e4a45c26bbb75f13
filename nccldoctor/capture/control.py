"""The functions that a training script calls. None of them raises: what goes wrong costs one line on stderr, and the evidence."""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nccldoctor.capture.evidence import Evidence, Scratch
from nccldoctor.capture.identity import Identity, identity_of

if TYPE_CHECKING:
    from nccldoctor.capture.session import Session

_RUNNING: list[Session] = []
"""The session of this process, at most one."""


def start(folder: str | os.PathLike[str], *, rank: int | None = None, stall_after: float | None = None) -> None:
    """Capture this rank into ``folder``, which all ranks should share; call it before the first process group is made.

    ``rank`` is taken from the launcher's variables where it is not given. ``stall_after`` are the seconds without progress at which
    all ranks write stacks and dumps; without it a third of the shortest timeout of the groups. A second call does nothing.
    """
    if _RUNNING and _RUNNING[0].identity.pid == os.getpid():
        return
    is_timer_free = "faulthandler" not in sys.modules
    from nccldoctor.capture.preparation import prepared

    identity = identity_of(os.environ, rank)
    try:
        evidence, scratch, problems = prepared(Path(folder).absolute(), identity, stall_after, sys.argv[0])
        watch(evidence, identity, scratch, stall_after, is_timer_free)
    except Exception as error:
        problems = [f"nothing is captured: {error}"]
    warn(identity, problems)


FOLDER, STALL_AFTER = "NCCLDOCTOR_CAPTURE_DIR", "NCCLDOCTOR_STALL_AFTER"
"""The variables that name the folder and the seconds of a stall, where no option does."""

HANDED_ON = "NCCLDOCTOR_CAPTURE_BEGUN"
"""The variable by which the hook learns what to do in a process: go on with what it prepared, or prepare where torchrun started it."""

_HOOK = Path(__file__).absolute().with_name("hook")


def for_hook(pid: int, folder: str, scratch: str | None = None, stall_after: float | None = None) -> dict[str, str]:
    """The variables that let the hook begin in process ``pid``, or, without ``scratch``, prepare in its children."""
    path = os.environ.get("PYTHONPATH")
    return {HANDED_ON: json.dumps([pid, folder, scratch, stall_after, path]), "PYTHONPATH": _with_hook(path)}


def _with_hook(path: str | None) -> str:
    return os.pathsep.join([str(_HOOK), path] if path else [str(_HOOK)])


def hand_on(folder: str, stall_after: float | None, command: str) -> list[str]:
    """Prepare the capture, and the environment so that the hook goes on with it; what is wrong."""
    from nccldoctor.capture.preparation import prepared

    try:
        asked = float(os.environ[STALL_AFTER]) if stall_after is None and STALL_AFTER in os.environ else stall_after
        evidence, scratch, problems = prepared(Path(folder).absolute(), identity_of(os.environ), asked, command)
    except Exception as error:
        return [f"nothing is captured: {error}"]
    os.environ.update(for_hook(os.getpid(), str(evidence.top), str(scratch.top), asked))
    return problems


def go_on() -> None:
    """Begin the session that this process prepared before it became the script, and restore PYTHONPATH.

    A rank that torchrun started prepares first and becomes what it is once more, so that the script finds Python as it always does.
    """
    pid, top, scratch, stall_after, path = json.loads(os.environ.pop(HANDED_ON))
    restored = os.environ.pop("PYTHONPATH").replace(_with_hook(path), path or "", 1)  # a wrapper may have added to it
    os.environ.update({"PYTHONPATH": restored} if restored or path is not None else {})
    identity = identity_of(os.environ)
    if scratch is None:
        is_rank = pid == os.getppid()
        problems = hand_on(top, stall_after, sys.orig_argv[-len(sys.argv)]) if is_rank else [_WRAPPED]
        warn(identity, problems)
        if HANDED_ON in os.environ:
            with suppress(OSError):
                os.execv(sys.executable, sys.orig_argv)
            go_on()
    elif pid == identity.pid:
        watch(Evidence(Path(top), identity.stem), identity, Scratch(Path(scratch)), stall_after, True)


_WRAPPED = "nothing is captured: torchrun did not start this Python itself; call nccldoctor.capture.start in the script"


def watch(
    evidence: Evidence, identity: Identity, scratch: Scratch, stall_after: float | None, is_timer_free: bool
) -> None:
    """Begin the session of this process; the job cannot have set the timer of ``faulthandler`` where it is free."""
    try:
        from nccldoctor.capture.session import Session

        errors = os.fstat(2)

        def fail(why: str) -> None:
            if os.path.samestat(os.fstat(2), errors):  # the job may have closed it, and given its number to a file
                warn(identity, [f"no more is captured: {why}"])

        session = Session(evidence, identity, scratch, stall_after, is_timer_free, fail)
        session.begin()
    except Exception:
        scratch.remove()
        raise
    _RUNNING[:] = [session]
    atexit.register(finish)


def warn(identity: Identity, problems: Sequence[str]) -> None:
    """Print one line on stderr where there is a problem, past what the job has made of ``sys.stderr``."""
    line = f"nccldoctor.capture {identity.label} {'; '.join(problems)}\n"
    with suppress(OSError):
        os.write(2, line.encode(errors="backslashreplace") if problems else b"")


def step(number: int) -> None:
    """Say which step the rank is at; without it the steps of the first optimizer count."""
    for session in _RUNNING:
        session.step = number


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Say what the rank does outside the step, such as ``checkpoint`` or ``evaluation``.

    ```python
    with capture.phase("checkpoint"):
        save()
    ```
    """
    session = _RUNNING[0] if _RUNNING else None
    before = session.phase if session is not None else ""
    if session is not None:
        session.phase = name
    try:
        yield
    finally:
        if session is not None:
            session.phase = before


def remark(text: str) -> None:
    """Put one line into the log of this rank, behind a heartbeat with what it does now."""
    for session in _RUNNING:
        with suppress(OSError):
            session.beat()
            session.log.say(text)


def finish() -> None:
    """End the capture of this process."""
    while _RUNNING:
        session = _RUNNING.pop()
        try:
            session.leave()
        except Exception as error:
            warn(session.identity, [f"the last words are lost: {error}"])
