"""Prepares the watch of a rank: its folder, torch's settings, the sidecar, and the first lines of its log."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from nccldoctor.capture.evidence import Evidence, RankLog, Scratch, prepare
from nccldoctor.capture.identity import Identity
from nccldoctor.capture.settings import defeating, recorder_variables, shown, torch_release
from nccldoctor.capture.sidecar import stat_fields
from nccldoctor.capture.stall import stall_limit
from nccldoctor.capture.torch_state import versions

_SCRIPT = Path(__file__).with_name("sidecar.py")


def accompany(evidence: Evidence, identity: Identity, scratch: Scratch, listing_s: float, command: str) -> int:
    """Start the sidecar of this process, which runs ``command``; its pid.

    A job may wait for any child, and count them: the sidecar leaves its parent before this returns. Raises OSError where it cannot.
    """
    if signal.getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, signal.SIG_IGN):
        raise OSError("the script handles SIGCHLD")
    paths = {"log": evidence.log, "state": evidence.state, "looks": evidence.looks}
    paths |= {"late": scratch.late, "scratch": scratch.top}
    config = {"pid": identity.pid, "began": stat_fields(identity.pid)[19:20], "label": identity.label}
    config |= {"stem": identity.stem, "command": command, "listing_s": listing_s}
    config |= {name: str(path) for name, path in paths.items()}
    told = subprocess.run(
        [sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,  # Ctrl-C and a kill of the rank's process group are not for the sidecar
    )
    if not told.stdout:
        raise OSError("it did not start")
    pid = int(told.stdout)
    if stat_fields(pid)[1:2] == [str(identity.pid)]:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise OSError("this process adopts orphans, as the first one of a container does without docker run --init")
    return pid


WATCHES = "nccldoctor.capture watches this rank"
"""What the log of a captured rank says at its begin."""


def prepared(
    folder: Path, identity: Identity, stall_after: float | None, command: str
) -> tuple[Evidence, Scratch, list[str]]:
    """Where this rank writes, and what is wrong; torch's settings stand in the environment then.

    Raises OSError or ValueError where nothing can be captured.
    """
    listing_s = stall_limit(None, stall_after).listing_s(identity.world)
    evidence = prepare(folder, identity)
    world = f" world_size={identity.world}" if identity.world is not None else ""
    problems = list(defeating(os.environ))
    if importlib.util.find_spec("torch") is None:
        problems.append("torch is not installed here: stacks and the state of the process are all that is captured")
    scratch = Scratch(Path(tempfile.mkdtemp(prefix="nccldoctor-")))
    os.environ.update(recorder_variables(os.environ, evidence.recorder, scratch.pipe_stem, torch_release()))
    who = f"rank={identity.rank} pid={identity.pid} host={identity.host}{world}"
    RankLog(evidence.log, identity.label).say(who, WATCHES, *versions(), *shown())
    try:
        accompany(evidence, identity, scratch, listing_s, command)
    except OSError as error:
        problems.append(f"no sidecar: {error}; a stopped or killed rank leaves less")
    return evidence, scratch, problems
