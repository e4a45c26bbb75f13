"""The functions that a training script calls. None of them raises: what goes wrong costs one line on stderr, and the evidence."""

from __future__ import annotations

import atexit
import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from nccldoctor.capture.beside import Beside
from nccldoctor.capture.evidence import Evidence, Scratch, prepare
from nccldoctor.capture.identity import Identity, identity_of
from nccldoctor.capture.session import Session
from nccldoctor.capture.settings import defeating, recorder_variables, torch_release
from nccldoctor.capture.stall import stall_limit

_RUNNING: list[Session] = []
"""The session of this process, at most one."""


def start(
    folder: str | os.PathLike[str], *, rank: int | None = None, stall_after: float | None = None, sidecar: bool = True
) -> None:
    """Capture this rank into ``folder``, which all ranks should share; call it before the first process group is made.

    ``rank`` is taken from the launcher's variables where it is not given. ``stall_after`` are the seconds without progress at which
    all ranks write stacks and dumps; without it a third of the shortest timeout of the groups. A second call does nothing.
    """
    if _RUNNING and _RUNNING[0].identity.pid == os.getpid():
        return
    _RUNNING.clear()
    identity = identity_of(os.environ, rank)
    try:
        _RUNNING.append(_begin(Path(folder).absolute(), identity, stall_after, sidecar))
    except Exception as error:
        _warn(identity, f"nothing is captured: {error}")
        return
    for problem in _problems():
        _warn(identity, problem)


def _begin(folder: Path, identity: Identity, stall_after: float | None, sidecar: bool) -> Session:
    listing_s = stall_limit(None, stall_after).listing_s(identity.world)
    evidence = prepare(folder, identity)
    scratch = Scratch.make()
    os.environ.update(recorder_variables(os.environ, evidence.recorder, scratch.pipe_stem, torch_release()))
    beside = _company(evidence, identity, scratch, listing_s) if sidecar else None
    session = Session(
        evidence, identity, scratch, beside, stall_after, lambda why: _warn(identity, f"no more is captured: {why}")
    )
    session.begin()
    atexit.register(_say_goodbye)
    _hear_exceptions(session)
    return session


def _company(evidence: Evidence, identity: Identity, scratch: Scratch, listing_s: float) -> Beside | None:
    try:
        return Beside(evidence, identity, scratch, listing_s)
    except OSError as error:
        _warn(identity, f"no sidecar: {error}; a stopped or killed rank leaves less")
        return None


def _problems() -> Iterator[str]:
    if importlib.util.find_spec("torch") is None:
        yield "torch is not installed here: stacks and the state of the process are all that is captured"
    yield from defeating(os.environ)


def _warn(identity: Identity, text: str) -> None:
    with suppress(Exception):
        print(f"nccldoctor.capture {identity.label} {text}", file=sys.stderr, flush=True)


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
    """Put one line into the log of this rank."""
    for session in _RUNNING:
        with suppress(OSError):
            session.log.say(text)


def finish(*words: str) -> None:
    """End the capture of this process with ``words`` as the last line of its log."""
    for session in _RUNNING[:]:
        _RUNNING.remove(session)
        try:
            session.leave(*words)
        except Exception as error:
            _warn(session.identity, f"the last words are lost: {error}")


def _say_goodbye() -> None:
    finish("the interpreter exits")


def _hear_exceptions(session: Session) -> None:
    """Put the traceback of an exception that nothing catches into the rank's log, too.

    Its lines begin as with torch's own hook (``distributed_c10d.py``, 2.4 to 2.13).
    """
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if session in _RUNNING and session.identity.pid == os.getpid():
            with suppress(Exception):
                session.beat()  # the last step comes before what ended the rank
                session.log.say("an exception that nothing caught ends this process")
                front = f"[rank{session.identity.rank}]: " if session.identity.rank is not None else ""
                session.log.quote(front, "".join(traceback.format_exception(kind, error, _of_the_job(trace))))
        before(kind, error, trace)

    sys.excepthook = hook


def _of_the_job(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that started the script."""
    own = (str(Path(__file__).parent), "<frozen runpy>", runpy.__file__)
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(own):
        trace = trace.tb_next
    return trace
