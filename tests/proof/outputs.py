"""Every output of the command about a folder, made in this process; the folder is analysed once for all reports.

The command itself runs, with its own options, streams and exit codes: only the second and later analyses of the same paths are spared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from builders.documents.packed_page import contents, held_by_part, members
from click.testing import CliRunner

from nccldoctor import pipeline
from nccldoctor.cli.app import cli
from nccldoctor.cli.terminal import BROKEN
from nccldoctor.identify.case import Case
from nccldoctor.incident import FRAMES, Incident
from nccldoctor.reports.forms import FORMS

TICKETS = ("md", "github", "jira", "slack")
ALL_STAND_INS = "hosts,users,paths,addresses"


@dataclass(frozen=True, slots=True)
class Output:
    """What one command showed and wrote: its name, and all that text, unpacked.

    ``file`` is the text of a report as it was written; ``crash`` says why this counts as a crash ("" where it does not).
    """

    name: str
    text: str
    file: str = ""
    crash: str = ""


def formats() -> tuple[str, ...]:
    """The words that ``analyze --format`` takes."""
    option = next(one for one in cli.commands["analyze"].params if one.name == "form")
    assert isinstance(option.type, click.Choice)
    return tuple(str(word) for word in option.type.choices)


@contextmanager
def analysed_once() -> Iterator[dict[tuple[str, ...], Incident]]:
    """Spares a second look at the same paths; the dictionary holds the incidents by their paths.

    ``inspect`` shows the case that was analysed; where there is none, it reads by itself.
    """
    analyze, read, kept = pipeline.analyze, pipeline.read, dict[tuple[str, ...], Incident]()

    def analyze_once(paths: Any, **options: Any) -> Incident:
        key = tuple(map(str, paths))
        if key not in kept:
            kept[key] = analyze(paths, **options)
        return kept[key]

    def read_once(paths: Any, **options: Any) -> Case:
        known = kept.get(tuple(map(str, paths)))
        return read(paths, **options) if known is None else known.case

    with patch.object(pipeline, "analyze", analyze_once), patch.object(pipeline, "read", read_once):
        yield kept


def outputs(folder: Path, scratch: Path) -> Iterator[Output]:
    """What every person sees of ``folder``: each format, the page, and ``inspect``. Call inside :func:`analysed_once`."""
    for form in formats():
        yield _run(form, "analyze", folder, "--format", form)
    yield _run("text, all of it", "analyze", folder, "--verbose", "--color", "always")
    yield _run("one line", "analyze", folder, "--quiet")
    yield _run("report.html", "analyze", folder, "--quiet", "-o", scratch / "report.html", writes=_page)
    yield _run("report.md", "analyze", folder, "--quiet", "-o", scratch / "report.md", writes=_text)
    for form in ("text", "json"):
        yield _run(f"inspect {form}", "inspect", folder, "--format", form)


def slower_outputs(folder: Path, scratch: Path) -> Iterator[Output]:
    """The others: redacted reports, issue forms, a zip, a part and what is merged from it."""
    for form in ("json", "text"):
        yield _run(f"redacted {form}", "analyze", folder, "--format", form, "--redact", ALL_STAND_INS)
    for form in FORMS:
        filled = _run(f"{form}.md", "report", folder, "--for", form)
        yield replace(filled, file=filled.text)
    yield _run("report.zip", "analyze", folder, "--quiet", "-o", scratch / "report.zip", writes=_texts_in_zip)
    part = scratch / "node.nd"
    yield _run("part", "reduce", folder, "-o", part, writes=_part)
    if part.exists():
        yield _run("merged part", "merge", part, "--format", "json")


def frames(incident: Incident) -> Output:
    """The frames, and what a notebook shows of the incident."""
    shown = [getattr(incident, name).to_csv(errors="backslashreplace") for name in FRAMES]
    return Output("frames", "\n".join([*shown, repr(incident), incident._repr_html_(), incident._repr_markdown_()]))


def _text(path: Path) -> tuple[str, str]:
    text = path.read_text("utf-8")
    return text, text


def _page(path: Path) -> tuple[str, str]:
    page = path.read_text("utf-8")
    return contents(page), page


def _texts_in_zip(path: Path) -> tuple[str, str]:
    held = members(path.read_bytes())
    return "\n".join(contents(text) if name.endswith(".html") else text for name, text in held.items()), ""


def _part(path: Path) -> tuple[str, str]:
    return held_by_part(path), ""


def _run(name: str, *words: str | Path, writes: Callable[[Path], tuple[str, str]] | None = None) -> Output:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    said = done.stdout + done.stderr
    target = Path(words[words.index("-o") + 1]) if "-o" in words else None
    written, file = writes(target) if writes is not None and target is not None and target.exists() else ("", "")
    is_crash = done.exit_code == BROKEN or "Traceback (most recent call last)" in done.stderr
    is_crash |= done.exception is not None and not isinstance(done.exception, SystemExit)
    return Output(name, said + written, file, f"exit code {done.exit_code}: {done.stderr[-600:]}" if is_crash else "")
