"""``torchrun … -m nccldoctor.capture [--to DIR] [--stall-after S] (SCRIPT | -m MODULE) ARGS…``: captures a script as it is."""

from __future__ import annotations

import argparse
import io
import math
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

from nccldoctor.capture.control import finish, start

FOLDER = "NCCLDOCTOR_CAPTURE_DIR"
"""The variable that names the folder where ``--to`` does not."""

WELL = "exiting normally"
"""The last line of a rank whose script came to its end."""


def main(arguments: list[str]) -> None:
    """Start the capture and run the target as Python would; its exit status is left alone."""
    parser = argparse.ArgumentParser(prog="python -m nccldoctor.capture", description="Captures a script as it is.")
    parser.add_argument("--to", metavar="DIR", help=f"folder that all ranks share (default: ${FOLDER}, else capture)")
    parser.add_argument("--stall-after", type=_seconds, metavar="S", help="seconds without progress that make a stall")
    parser.add_argument("-m", dest="module", action="store_true", help="the target is a module")
    parser.add_argument("target", help="script, or module with -m")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the target")
    options = parser.parse_args(arguments)
    sys.argv = [options.target, *options.args]
    start(options.to or os.environ.get(FOLDER) or "capture", stall_after=options.stall_after)
    try:
        if options.module:
            runpy.run_module(options.target, run_name="__main__", alter_sys=True)
        else:
            _run_script(options.target)
    except SystemExit as end:
        if not end.code:
            finish(WELL)
        raise
    finish(WELL)


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time")
    return seconds


def _run_script(path: str) -> None:
    """Run a file in a new ``__main__`` that stays: what it leaves for the exit finds its names."""
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(path).absolute().parent)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __cached__=None, __builtins__=__builtins__)
    with io.open_code(str(Path(path).absolute())) as file:
        code = compile(file.read(), path, "exec")
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1:])
