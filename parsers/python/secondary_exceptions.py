"""Tells exceptions that only report the failure of a peer, a collective, the store or a child process.

An *echo* says nothing about the rank that prints it. Wordings: pytorch ``torch/csrc/distributed/c10d`` 1.8 to 2.13
(ProcessGroupNCCL, ProcessGroupGloo, ProcessGroupWrapper, NCCLUtils, TCPStore, socket), gloo ``gloo/transport``,
torch ``distributed/elastic``, ``distributed/checkpoint/api.py`` (raised on every rank for those that failed) and
``multiprocessing/spawn``, ray ``exceptions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nccldoctor.model.recorded_calls import Frame
from nccldoctor.patterns import lazy

_ECHO_TYPES = frozenset(
    {
        "ActorDiedError",
        "AsyncEngineDeadError",
        "CheckpointException",
        "ChildFailedError",
        "DistBackendError",
        "DistNetworkError",
        "DistQueueEmptyError",
        "DistStoreError",
        "EngineDeadError",
        "KeyboardInterrupt",
        "ProcessExitedException",
        "ProcessRaisedException",
        "RayActorError",
        "RayTaskError",
        "SignalException",
        "WorkerCrashedError",
        "WorkerGroupFailureException",
    }
)

_BROKEN_PIPES = frozenset(
    {"BrokenPipeError", "ConnectionAbortedError", "ConnectionRefusedError", "ConnectionResetError", "EOFError"}
)

_ECHO_TEXT = lazy(
    r"""
    \b(?:NCCL|RCCL|HCCL|XCCL|MCCL|UCC|oneCCL)\s(?:error|timeout|function\serror|communicator\s(?:was\saborted|encountered))
    | \bnccl(?:UnhandledCuda|System|Internal|Remote)Error\b | \bncclInvalid(?:Usage|Argument)\b
    | \bcollective\soperation\stimeout | \bWork\s?\w{0,40}\(.{0,400}\)\stimed\sout
    | timed\sout\sin\s(?:call\sto\swait|blocking\swait)
    | gloo/(?:transport|rendezvous|\w{1,40}\.(?:cc|h)\b) | Gloo\sconnectFullMesh | Connection\sclosed\sby\speer\s\[
    | Timed\sout\swaiting\s\d{1,12}\s?ms\sfor\s(?:recv|send)\soperation
    | Application\stimeout\scaused\spair\sclosure | op\.preamble\.length\s<=\sop\.nbytes
    | \bmonitoredBarrier\b | Detected\smismatch\sbetween\scollectives | Monitored\sBarrier\sencountered\serror
    | is\ssetting\sup\sNCCL\scommunicator | in\sstore\sbased\sbarrier | store->get\(
    | wait\stimeout\safter\s\d{1,12}\s?ms,\skeys: | Timeout\swaiting\sfor\skey:
    | waiting\sfor\sclients\.\s\d{1,9}/\d | The\s(?:client|server)\ssocket\shas\s
    | \b(?:recvValue|recvVector|recvValueWithTimeout|recvString|sendBytes)\sfailed
    | [Ff]ailed\sto\srecv,\sgot\s0\sbytes | \bStop_waiting\sresponse
    | [Pp]rocess\s[Gg]roup\s(?:has\sbeen\s|was\s)?(?:aborted|destroyed|shutdown)
    | DataLoader\sworker\s\(pid\s[\d,\s]{1,60}\)\sis\skilled\sby\ssignal:\s(?:Terminated|Hangup|Interrupt)
    """,
    re.VERBOSE,
)
_ECHO_WHOLE = lazy(
    r"(?:Socket Timeout|Broken pipe|Connection reset by peer|Connection refused|Interrupted system call)\.?\s*$"
)
"""What is an echo where it is all that a RuntimeError says (TCPStore up to 2.4)."""


def is_echo(name: str, message: str, frames: tuple[Frame, ...] = ()) -> bool:
    """True when an exception only repeats what another process, or the transport, did.

    ``name`` is the type with or without its module; ``frames`` are innermost first.
    """
    plain = name.partition("(")[0].rpartition(".")[2]
    if plain in _ECHO_TYPES or plain.startswith("Rendezvous") or _ECHO_TEXT.search(message):
        return True
    if plain == "SystemExit":
        return message.strip() in ("0", "130", "143", "-15", "")
    if plain == "RuntimeError" and _ECHO_WHOLE.match(message):
        return True
    files = [file.replace("\\", "/") for _, file, _ in frames[:12]]
    if plain in _BROKEN_PIPES or (plain in ("RuntimeError", "OSError") and _ECHO_WHOLE.search(message)):
        return any("torch/distributed/" in f or "/multiprocessing/" in f for f in files)
    return plain == "CalledProcessError" and any(_is_launcher(file) for file in files)


def _is_launcher(file: str) -> bool:
    return "accelerate/commands/" in file or "torch/distributed/" in file or "deepspeed/launcher/" in file


def origin(name: str, message: str, frames: tuple[Frame, ...] = (), causes: Iterable[tuple[str, str]] = ()) -> str:
    """``own`` or ``echo``; an error that was raised while an echo was handled is an echo too."""
    if is_echo(name, message, frames) or any(is_echo(*cause) for cause in causes):
        return "echo"
    return "own"
