"""Says in words why a command brought nothing: what it printed last, and what to do about the usual causes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from nccldoctor.collect.reach.way import Command
from nccldoctor.words.sanitize import line

_CAUSES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["causes"]


def failure_words(command: Command, code: int, errors: str) -> str:
    """Why ``command`` failed, in one line: the cause where it is known, and the last line that it printed."""
    last = next((text for text in reversed(errors.splitlines()) if text.strip()), "")
    said = line(last, 200) or f"{command[0]} ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
    cause = next((cause["means"] for cause in _CAUSES if re.search(cause["printed"], errors)), "")
    return f"{cause} ({said})" if cause else said
