"""Reads our own tables, which are TOML files beside modules.

A built package holds each as JSON too (``setup.py``): a run reads a dozen, and JSON takes a tenth of the time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_table(path: Path) -> dict[str, Any]:
    """The content of a TOML file of ours; of its JSON where that was built."""
    try:
        found = json.loads(path.with_name(f"{path.name}.json").read_bytes())
    except FileNotFoundError:
        import tomllib

        found = tomllib.loads(path.read_text(encoding="utf-8"))
    return dict(found)
