"""Builds a Markdown page for each remedy and an index: ``nccldoctor catalogue pages DIR``.

The pages are made from the TOML files whenever they are wanted; none is kept in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path

from nccldoctor.model.errors import OutputError
from nccldoctor.prescribe.catalogue.load import Catalogue
from nccldoctor.prescribe.catalogue.remedy import TOPICS
from nccldoctor.prescribe.catalogue.words import explain

INDEX = "README.md"
TITLE = "# All remedies"

_SPAN = re.compile(r"`+[^`]*`+|<([a-z]+(?: [a-z]+)?)>")


def page(text: str) -> str:
    """The words of a remedy where nothing fills them in: ``<host>`` is text there, not a tag of HTML."""
    return _SPAN.sub(lambda m: f"\\<{m[1]}\\>" if m[1] else m[0], text)


def pages(catalogue: Catalogue) -> dict[str, str]:
    """The text of each page by its path below the folder, with the index."""
    index = [TITLE, "", "Built by `nccldoctor catalogue pages DIR`.", ""]
    for topic in TOPICS:
        entries = [entry for entry in catalogue.entries if entry.topic == topic]
        index += [f"## {topic}", "", *(f"- [{e.remedy.title}]({topic}/{e.remedy.id}.md)" for e in entries), ""]
    texts = {f"{entry.topic}/{entry.remedy.id}.md": page(explain(entry)) for entry in catalogue.entries}
    return {INDEX: "\n".join(index), **texts}


def write(folder: Path, catalogue: Catalogue) -> int:
    """Write all pages; the number of them.

    Raises :class:`OutputError` where the folder cannot be written, or holds an index of something else.
    """
    texts = pages(catalogue)
    try:
        if (folder / INDEX).exists() and not (folder / INDEX).read_text("utf-8", "replace").startswith(TITLE):
            raise OutputError(
                f"{folder / INDEX} is there already, and is no index of remedies", "choose another folder"
            )
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}", "choose another folder") from error
    return len(texts)
