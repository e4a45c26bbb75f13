"""A page for each built-in remedy, for the documentation.

``python -m nccldoctor.prescribe.catalogue.pages docs/catalogue`` writes them, and an index; a test compares them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from nccldoctor.prescribe.catalogue.load import Catalogue, load
from nccldoctor.prescribe.catalogue.remedy import TOPICS
from nccldoctor.prescribe.catalogue.words import explain

INDEX = "README.md"


_SPAN = re.compile(r"`+[^`]*`+|<([a-z]+(?: [a-z]+)?)>")


def page(text: str) -> str:
    """The words of a remedy where nothing fills them in: ``<host>`` is text there, not a tag of HTML."""
    return _SPAN.sub(lambda m: f"\\<{m[1]}\\>" if m[1] else m[0], text)


def pages(catalogue: Catalogue) -> dict[str, str]:
    """The text of each page by its path below the folder, with the index."""
    out = {f"{entry.topic}/{entry.remedy.id}.md": page(explain(entry)) for entry in catalogue.entries}
    lines = ["# All remedies", "", "Made by `python -m nccldoctor.prescribe.catalogue.pages docs/catalogue`.", ""]
    for topic in TOPICS:
        lines += [f"## {topic}", ""]
        held = [entry for entry in catalogue.entries if entry.topic == topic]
        lines += [f"- [{entry.remedy.title}]({topic}/{entry.remedy.id}.md)" for entry in held]
        lines.append("")
    return {INDEX: "\n".join(lines), **dict(sorted(out.items()))}


def write(folder: Path, catalogue: Catalogue) -> None:
    """Write all pages, and remove those of remedies that are gone."""
    wanted = pages(catalogue)
    for topic in TOPICS:
        for old in sorted((folder / topic).glob("*.md")):
            if f"{topic}/{old.name}" not in wanted:
                old.unlink()
    for name, text in wanted.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), load())
