"""``torchrun … -m nccldoctor.capture [--to DIR] [--stall-after S] (SCRIPT | -m MODULE) ARGS…``: captures a script as it is.

The process prepares the capture and becomes ``python SCRIPT ARGS…``, with the same flags: Python itself runs the script, and ``hook``
begins the watch before.
"""

from __future__ import annotations

import sys

_FIRST = sys.path[:1]
if __name__ == "__main__":
    del sys.path[:1]  # the folder of the job, where a file may have a name of the library

import argparse  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import runpy  # noqa: E402
from itertools import pairwise  # noqa: E402

from nccldoctor.capture.control import FOLDER, hand_on, warn  # noqa: E402
from nccldoctor.capture.identity import identity_of  # noqa: E402


def main(arguments: list[str]) -> None:
    """Prepare the capture and become the target; what it does and how it ends is left alone."""
    parser = argparse.ArgumentParser(prog="python -m nccldoctor.capture", description="Captures a script as it is.")
    parser.add_argument("--to", metavar="DIR", help=f"folder that all ranks share (default: ${FOLDER}, else capture)")
    parser.add_argument("--stall-after", type=_seconds, metavar="S", help="seconds without progress that make a stall")
    parser.add_argument("-m", dest="module", action="store_true", help="the target is a module")
    parser.add_argument("target", help="script, or module with -m")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the target")
    options = parser.parse_args(arguments)
    flags = _flags_of_python(len(arguments))
    if flags is None or sys.flags.ignore_environment or sys.flags.no_site:
        why = "another program runs this module" if flags is None else "Python reads no PYTHONPATH"
        problems = [f"nothing is captured: {why}; call nccldoctor.capture.start in the script"]
    else:
        problems = hand_on(options.to or os.environ.get(FOLDER) or "capture", options.stall_after, options.target)
    warn(identity_of(os.environ), problems)
    if flags is not None:
        target = ["-m"] * options.module + [options.target, *options.args]
        os.execv(sys.executable, [sys.orig_argv[0], *flags, *target])
    sys.argv, sys.path[:0] = [options.target, *options.args], _FIRST
    (runpy.run_module if options.module else runpy.run_path)(options.target, run_name="__main__")


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time")
    return seconds


def _flags_of_python(arguments: int) -> list[str] | None:
    """What stands between ``python`` and ``-m nccldoctor.capture`` and its ``arguments``; None where anything else stands there."""
    *flags, how, what = sys.orig_argv[1 : len(sys.orig_argv) - arguments] or ["", ""]
    flags += [how[:-1]] if how != "-m" else []
    are_flags = all(flag[0] == "-" or before in ("-X", "-W") for before, flag in pairwise(["", *flags]))
    is_python = what == "nccldoctor.capture" and how[:1] == "-" and how[-1] == "m" and "-m" not in flags
    return flags if is_python and are_flags else None


if __name__ == "__main__":
    main(sys.argv[1:])
