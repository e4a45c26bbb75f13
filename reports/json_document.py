"""The published JSON of ``analyze`` (``schema/analyze.json``): the same bytes for the same input."""

from __future__ import annotations

import json
import re
from typing import Any

from nccldoctor.model import Diagnosis
from nccldoctor.reports import json_names
from nccldoctor.version import __version__
from nccldoctor.words.sanitize import text

SCHEMA_VERSION = "1.0"


def to_json(diagnosis: Diagnosis) -> str:
    """The document that ``analyze --format json`` prints: two-space indent, one newline at the end."""
    return written(document(diagnosis))


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """The document as plain dictionaries and lists."""
    tool = {"name": "nccldoctor", "version": __version__, "catalogue": text(diagnosis.catalogue) or None}
    return {"schema_version": SCHEMA_VERSION, "tool": tool, **json_names.json_value(diagnosis)}


def written(value: dict[str, Any]) -> str:
    """JSON text as all our documents have it: readable UTF-8 without characters that move others about."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return _moving.sub(lambda char: f"\\u{ord(char.group()):04x}", text) + "\n"


_moving = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]")
"""Bidirectional controls, C1 controls and zero-width characters: legal in JSON, harmful in a terminal."""
