"""Builds the Markdown page of a remedy, and for ``nccldoctor catalogue pages DIR`` those of all with an index.

The pages are made from the TOML files whenever they are wanted; none is kept in the repository.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from nccldoctor.align.facts import align
from nccldoctor.identify.identify import identify
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Evidence, Finding
from nccldoctor.model.errors import OutputError
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.prescribe.catalogue.load import BUILT_IN_NAME, Catalogue, Entry
from nccldoctor.prescribe.catalogue.remedy import BLOCKS, TOPICS, Clause, Step
from nccldoctor.prescribe.catalogue.words import as_text, step_line
from nccldoctor.prescribe.conditions.base import Context, ask
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.words.sentences import capitalized, sentence, uncapitalized

INDEX = "README.md"
TITLE = "# All remedies"

_SPAN = re.compile(r"`+[^`]*`+|<([a-z]+(?: [a-z]+)?)>")
"""A span of code, or ``<host>``, which stands for a value that is not known: in a page it is text, and no tag of HTML."""


def remedy_page(entry: Entry) -> str:
    """A remedy as CommonMark: what to do, what to avoid, its conditions, and its sources."""
    remedy = entry.remedy
    lines = [*advice_lines(entry), "## Offered when", ""]
    for block, label in BLOCKS.items():
        if clauses := remedy.clauses(block):
            lines += [f"{capitalized(label)}:", ""]
            lines += [*(f"- {_shown_plain(condition_sentence(clause))}" for clause in clauses), ""]
    lines += ["## Sources", "", *(f"- <{s.url}> (seen {s.seen.isoformat()})" for s in remedy.sources), ""]
    return "\n".join(lines)


def advice_lines(entry: Entry) -> list[str]:
    """What a remedy is about, what to do and what to avoid, as lines of CommonMark."""
    remedy = entry.remedy
    whose = "" if entry.origin == BUILT_IN_NAME else f" · {as_text(entry.origin)}"
    lines = [f"# {remedy.title}", "", f"`{remedy.id}` · {entry.topic} · {remedy.status}{whose}", "", remedy.summary, ""]
    for heading, steps in (("Confirm", remedy.confirm), ("Fix", remedy.fix), ("Prevent", remedy.prevent)):
        if steps:
            lines += [f"## {heading}", "", *(f"{n}. {_line_of(step)}" for n, step in enumerate(steps, 1)), ""]
    if remedy.avoid:
        lines += ["## Avoid", "", *(f"- {w.what}. {w.why}" for w in remedy.avoid), ""]
    return lines


def _shown_plain(text: str) -> str:
    return re.sub(r"([\\`*_<\[])", r"\\\1", text)


def _line_of(step: Step) -> str:
    """A step with the condition that it is for."""
    asked = _shown_plain(condition_sentence(step.when).rstrip(".")) if step.when else ""
    where = f" (only if {uncapitalized(asked)})" if asked else ""
    running = {"running": " (while the job runs)", "ended": " (after the job has ended)"}.get(step.while_ or "", "")
    return step_line(step, {}) + where + running


def pages(catalogue: Catalogue) -> dict[str, str]:
    """The text of each page by its path below the folder, with the index."""
    index = [TITLE, "", "Built by `nccldoctor catalogue pages DIR`.", ""]
    for topic in TOPICS:
        entries = [entry for entry in catalogue.entries if entry.topic == topic]
        index += [f"## {topic}", "", *(f"- [{e.remedy.title}]({topic}/{e.remedy.id}.md)" for e in entries), ""]
    whole = {f"{entry.topic}/{entry.remedy.id}.md": remedy_page(entry) for entry in catalogue.entries}
    texts = {path: _SPAN.sub(lambda m: f"\\<{m[1]}\\>" if m[1] else m[0], text) for path, text in whole.items()}
    return {INDEX: "\n".join(index), **texts}


def write_pages(folder: Path, catalogue: Catalogue) -> int:
    """Write all pages; the number of them.

    Raises :class:`OutputError` where the folder cannot be written, or holds an index of something else.
    """
    texts = pages(catalogue)
    try:
        if (folder / INDEX).exists() and not (folder / INDEX).read_text("utf-8", "replace").startswith(TITLE):
            raise OutputError(f"{folder / INDEX} exists and isn't an index of remedies", "choose another folder")
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}", "choose another folder") from error
    return len(texts)


def condition_sentence(clause: Clause) -> str:
    """``A stack of the rank at fault shows _next_data or get_data.``"""
    return sentence(ask(_nothing_known(), clause.name, clause.arguments).asked)


NOTHING_FOUND = Finding(
    id="F0",
    cause=CauseClass.UNDETERMINED,
    confidence_in=ConfidenceIn.same(Confidence.CANNOT_TELL),
    headline="the input is empty",
    evidence=(Evidence(None, "", "the input is empty"),),
)
"""A finding about no job: predicates then speak of *the rank at fault*."""


@cache
def _nothing_known() -> Context:
    return Context(NOTHING_FOUND, Survey(align(identify(Ingested((), Batch.empty(), ())))))
