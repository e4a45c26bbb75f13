"""Writes reports of nine bundled incidents, moved to one made-up fleet: ``python docs/examples/made_up_fleet.py past/``.

Each report is a real one. Only the names of its hosts are exchanged, so that one host is at fault again and again.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import nccldoctor
from nccldoctor.history.saved_report import from_document

OFFENDER = "gpu-a07"

PLACES: Mapping[str, Sequence[str]] = {
    "died": (OFFENDER, "gpu-b01"),
    "hardware": ("gpu-b02", OFFENDER),
    "late-rank-three-groups": (OFFENDER, "gpu-b03"),
    "missed-call": ("gpu-b04", OFFENDER),
    "network": ("gpu-b01", "gpu-b05", OFFENDER, "gpu-b06"),
    "not-arrived": ("gpu-b02", OFFENDER),
    "raised": ("gpu-b03", OFFENDER),
    "size-mismatch": (OFFENDER, "gpu-b06"),
    "straggler": ("gpu-b05", "gpu-b04"),
}
"""Where each bundled incident is moved: the new names of its hosts in the order of their old names."""


def moved(document: str, hosts: Sequence[str]) -> str:
    """The JSON document of a report with other hosts, named in the order of the old names."""
    old = sorted(from_document(json.loads(document)).hosts)
    new = dict(zip(old, hosts, strict=True))
    names = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, old))})(?![\w-])")
    return names.sub(lambda found: new[found[0]], document)


def write_fleet(folder: Path) -> None:
    """Write the reports to a folder that is new or empty."""
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    for name, hosts in PLACES.items():
        with tempfile.TemporaryDirectory() as scratch:
            document = nccldoctor.analyze(nccldoctor.demo(name, to=scratch)).to_json()
        (folder / f"{name}.json").write_text(moved(document, hosts), encoding="utf-8")


if __name__ == "__main__":
    write_fleet(Path(sys.argv[1]))
