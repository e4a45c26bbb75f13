"""The bundled incidents, each analysed once for all tests of a process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.incident import Incident

SAMPLES = tuple(sample.name for sample in demo.samples())

FOLDER = Path(tempfile.mkdtemp(prefix="nccldoctor-bundled-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


@cache
def incident(name: str) -> Incident:
    """The answer on one bundled incident; its files stand in ``FOLDER / name``."""
    demo.write(name, FOLDER / name)
    return nccldoctor.analyze(FOLDER / name)
