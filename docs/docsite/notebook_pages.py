"""The stored notebooks as Markdown: their texts, their code, and what they printed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FENCE = "`" * 5
"""Longer than any fence in a notebook."""
_TABLE = ('<table border="1" class="dataframe">', '<table class="docutils" style="white-space: nowrap">')
"""A frame as pandas draws it, and in the style of the site."""


def write(notebook: Path, page: Path) -> None:
    """Write a notebook with its outputs to ``page``, and its figures beside it."""
    page.parent.mkdir(parents=True, exist_ok=True)
    parts: list[str] = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(_fenced("python", text))
        for number, output in enumerate(cell["outputs"]):
            parts += _shown(output, page.with_name(f"{page.stem}-{cell['id']}-{number}.png"))
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _shown(output: dict[str, Any], figure: Path) -> Iterator[str]:
    """What one output shows in a browser: a figure, a table, or plain text."""
    data = output.get("data", {})
    if "image/png" in data:
        figure.write_bytes(base64.b64decode("".join(data["image/png"])))
        yield f"![What the cell draws]({figure.name})"
    elif "text/html" in data:
        html = "".join(data["text/html"]).replace(*_TABLE)
        yield _fenced("{raw} html", f'<div style="overflow-x: auto; margin-bottom: 1em">{html}</div>')
    else:
        yield _fenced("text", "".join(output.get("text") or data["text/plain"]).rstrip("\n"))


def _fenced(language: str, text: str) -> str:
    return f"{_FENCE}{language}\n{text}\n{_FENCE}"
