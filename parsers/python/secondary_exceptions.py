"""Tells exceptions that only report the failure of a peer, a collective, the store or a child process.

An *echo* says nothing about the rank that prints it. Wordings: pytorch ``torch/csrc/distributed/c10d`` 1.8 to 2.13
(ProcessGroupNCCL, ProcessGroupGloo, ProcessGroupWrapper, NCCLUtils, TCPStore, socket), gloo ``gloo/transport``,
torch ``distributed/elastic``, ``distributed/checkpoint/api.py`` (raised on every rank for those that failed) and
``multiprocessing/spawn``, ray ``exceptions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from nccldoctor.model.recorded_calls import Frame
from nccldoctor.parsers.nccl.topics import topic_of
from nccldoctor.parsers.roles import role_of
from nccldoctor.parsers.rows import Table
from nccldoctor.patterns import lazy

_TABLE = Table(__file__).data
_PATTERNS = Table(__file__).patterns()
_ECHO_TYPES = frozenset(_TABLE["types"])
_BY_WORDS = frozenset(_TABLE["by_words"])
_BROKEN_PIPES = frozenset(_TABLE["broken_pipes"])
_UNANSWERED = frozenset(_TABLE["unanswered"])
_ECHO_TEXT = lazy(_TABLE["texts"], re.VERBOSE)
_LOST_TEXT = lazy(_TABLE["lost"], re.VERBOSE)


def is_echo(name: str, message: str, frames: tuple[Frame, ...] = ()) -> bool:
    """True when an exception only repeats what another process, or the transport, did.

    ``name`` is the type with or without its module; ``frames`` are innermost first.
    """
    plain = name.partition("(")[0].rpartition(".")[2]
    if plain in _ECHO_TYPES or plain.startswith("Rendezvous") or _is_echo_text(message):
        return True
    if plain in _BY_WORDS or _PATTERNS["gloo"].search(message):
        role = role_of(message)
        return role is None or role.weight != "cause"
    if plain == "SystemExit":
        return message.strip() in ("0", "130", "143", "-15", "")
    if plain == "RuntimeError" and _PATTERNS["whole"].match(message):
        return True
    files = [file.replace("\\", "/") for _, file, _ in frames[:12]]
    if any(map(_is_of_torch_distributed, files[:1])) and topic_of(message):
        return True  # the library could not connect its GPUs: the call failed, not the rank's own work
    if plain == "TimeoutError" and any(map(_PATTERNS["answers"].search, files)):
        return True  # an engine of vLLM waited for an answer of its workers
    if plain in _BROKEN_PIPES or (plain in ("RuntimeError", "OSError") and _PATTERNS["whole"].search(message)):
        return any(_is_of_torch_distributed(f) or "/multiprocessing/" in f for f in files)
    return plain == "CalledProcessError" and any(map(_PATTERNS["launchers"].search, files))


@lru_cache(maxsize=256)
def _is_echo_text(message: str) -> bool:
    """True of a text that tells of a failure elsewhere; all ranks of a job raise the same ones."""
    return _ECHO_TEXT.search(message) is not None


def is_about_other_end(name: str, message: str) -> bool:
    """True when an exception only says that the other end is gone or did not answer in time.

    That end may be a rank or a service: whether a rank ended first shows in what else the job left.
    """
    plain = name.rpartition(".")[2]
    if plain == "EOFError":
        return not message.strip()  # with words it is a file that ended early
    return plain in _BROKEN_PIPES | _UNANSWERED or _LOST_TEXT.search(message) is not None


def _is_of_torch_distributed(file: str) -> bool:
    return "torch/distributed/" in file


@lru_cache(maxsize=1 << 8)
def is_of_launcher(frames: tuple[Frame, ...]) -> bool:
    """True of a traceback that begins in a launcher: the exception is the launcher's own, and no rank's.

    The launcher starts its ranks as processes of their own, whose tracebacks begin in the training script.
    """
    files = (file.replace("\\", "/") for _, file, _ in reversed(frames))
    first = next((file for file in files if not _PATTERNS["starter"].search(file)), "")
    return _PATTERNS["launcher"].search(first) is not None


def origin(name: str, message: str, frames: tuple[Frame, ...] = (), causes: Iterable[tuple[str, str]] = ()) -> str:
    """``own`` or ``echo``, empty where the text is cut before the exception.

    What a launcher raises is an echo, and so is an error that was raised while an echo was handled.
    """
    if is_of_launcher(frames):
        return "echo"
    if not name:
        return ""
    is_second = is_echo(name, message, frames) or any(is_echo(*cause) for cause in causes)
    return "echo" if is_second else "own"
