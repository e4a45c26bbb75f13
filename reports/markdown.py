"""Markdown: the ticket text (1,500 characters at most, so that Slack and Jira take it) and the whole report."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nccldoctor.model import Diagnosis
from nccldoctor.patterns import lazy
from nccldoctor.reports.charts.wait_graph import in_words
from nccldoctor.reports.parts import advice, event_sequence, incident_facts, prose, rank_rows, wording
from nccldoctor.reports.parts.quotes import Quote, quotes, reasons
from nccldoctor.words import names
from nccldoctor.words.sanitize import line

TICKET = 1_500
"""Characters of the ticket text; Slack cuts text blocks off at 3,000."""

QUOTES = 3

EVENTS = 12
"""Rows of the story; the page shows more."""


def ticket(diagnosis: Diagnosis) -> str:
    """The verdict and what to do, to paste into a ticket: at most 1,500 characters, lines dropped from the end."""
    finding = diagnosis.verdict
    out = [
        f"### {_title(diagnosis)}",
        f"{words(finding.headline, 420)}",
        f"**Class** `{finding.cause.value}`, **confidence** {wording.confidence_words(finding)}",
    ]
    if finding.stalled is not None:
        out.append(f"- **Stalled:** {words(incident_facts.stalled_call(diagnosis), 200)}")
    if doubts := wording.doubts_words(finding, 2):
        out.append(f"- **Not surer:** {words(doubts, 200)}")
    if other := wording.runner_up_words(finding):
        out.append(f"- **Or else:** {words(other, 200)}")
    out += [f"- **Note:** {words(notice, 200)}" for notice in diagnosis.notices]
    out += [f"- **{step.label}:** {_span(step.text, 220)}" for step in advice.first_steps(diagnosis)]
    out += [f"- **Avoid:** {_span(d.what, 120)}: {_span(d.why, 120)}" for d in advice.donts(diagnosis)[:2]]
    for quote in _most_different(diagnosis)[:QUOTES]:
        parts = (f"- {quote.stance}: {words(quote.says, 120)}", _quoted(quote, 120), code(quote.where, 100))
        out.append(_joined(*parts))
    return _fitting(out, TICKET)


def _most_different(diagnosis: Diagnosis) -> list[Quote]:
    """The verdict's quotes: the first of each reason before a second that says the same of another rank."""
    shown = {quote.id: quote for quote in quotes(diagnosis).shown if quote.finding == diagnosis.verdict.id}
    different = [shown[reason.ids[0]] for reason in reasons(tuple(shown.values()))]
    return [*different, *(quote for quote in shown.values() if quote not in different)]


def full(diagnosis: Diagnosis) -> str:
    """The whole report as Markdown, for places that do not take HTML."""
    blocks = [
        ticket(diagnosis).rstrip("\n"),
        _findings(diagnosis),
        _chain(diagnosis),
        _ranks(diagnosis),
        _remedies(diagnosis),
        _story(diagnosis),
        _evidence(diagnosis),
        _table(
            "Considered and ruled out",
            ("Hypothesis", "Result", "Why"),
            [(c.text, "ruled out" if c.met is False else "not checked", c.says) for c in diagnosis.ruled_out[:24]],
        ),
        _table(
            "What was read, and what was missing",
            ("Input", "Found", "Expected", "Problems"),
            [
                (c.input, names.few(c.found), names.few(c.expected), "; ".join(c.problems[:3]))
                for c in diagnosis.coverage[:24]
            ],
        ),
        _capture(diagnosis),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def words(value: str, limit: int) -> str:
    """Plain words as Markdown that shows them.

    What renderers and trackers would turn into something else becomes code: ``ALLREDUCE #7`` (a link to an issue),
    ``user@host`` (a mention), ``__next__`` (bold).
    """
    out: list[str] = []
    at = 0
    shown = line(value, limit)
    for match in _DELICATE.finditer(shown):
        out += [_escaped(shown[at : match.start()]), code(match.group(), limit)]
        at = match.end()
    return "".join([*out, _escaped(shown[at:])])


_DELICATE = lazy(
    r"(?:\b[A-Z][A-Z0-9_]{2,40} )?(?<!\w)#\d{1,20}|[\w.-]{0,60}@[\w.-]{0,60}"
    r"|(?<![\w/.])[\w./-]{0,80}_[\w./()-]{0,80}"
)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*\[\]|<])", r"\\\1", text)


def code(value: str, limit: int) -> str:
    """A code span that its content cannot end."""
    shown = line(value, limit)
    if not shown:
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if "`" in shown else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _title(diagnosis: Diagnosis) -> str:
    finding = diagnosis.verdict
    named = f": {names.ranks_phrase(finding.ranks, 3)}" if finding.ranks else ""
    return f"{wording.TITLES[finding.cause]}{named}"


def _span(markdown: str, limit: int) -> str:
    """A text of the catalogue on one line, bounded; its code spans stay code, everything else is escaped anew."""
    shown = prose.as_command(markdown)
    shown = f"`{'; '.join(shown.splitlines())}`" if shown else line(markdown.replace("```", "`"), limit)
    out: list[str] = []
    for number, part in enumerate(shown.split("`")):
        out.append(code(part, limit) if number % 2 else words(part.replace("**", ""), limit) if part.strip() else part)
        if number % 2 == 0 and part.strip():
            out[-1] = part[: len(part) - len(part.lstrip())] + out[-1] + part[len(part.rstrip()) :]
    return "".join(out)


def _fitting(parts: list[str], limit: int) -> str:
    out = ""
    for part in parts:
        if len(out) + len(part) + 1 > limit:
            break
        out += part + "\n"
    return out or parts[0][:limit]


def _findings(diagnosis: Diagnosis) -> str:
    others = wording.others(diagnosis)
    rows = [f"- **{f.id}** `{f.cause.value}`, {f.confidence.value}: {words(f.headline, 300)}" for f in others[:12]]
    return _block("Also found", rows)


def _chain(diagnosis: Diagnosis) -> str:
    verdict = diagnosis.verdict
    rows = [f"1. {words(in_words(link, verdict.suspects), 300)}" for link in verdict.chain[:12]]
    return _block("Who waits for whom", rows)


def _ranks(diagnosis: Diagnosis) -> str:
    rows = [
        (
            names.few(row.ranks),
            wording.role_word(row.role, diagnosis.verdict.cause),
            ", ".join(row.hosts[:3]),
            row.group or "",
            "" if row.completed is None else str(row.completed),
            "" if row.enqueued is None else str(row.enqueued),
            row.last_sign,
        )
        for row in rank_rows.folded(diagnosis.ranks)[:24]
    ]
    return _table("Progress by rank", ("Ranks", "Role", "Host", "Group", "Done", "Enqueued", "Last sign"), rows)


def _remedies(diagnosis: Diagnosis) -> str:
    rows: list[str] = []
    for item in diagnosis.remedies[: advice.OPEN]:
        fit = f"`{line(item.id, 80)}`, {line(item.fit, 20)}, {wording.conditions_met(item)}"
        rows.append(f"### {words(item.title, 160)}\n\n{fit}\n")
        for label, texts in (("Confirm", item.confirm), ("Fix", item.fix), ("Prevent", item.prevent)):
            rows += [f"- **{label}:** {_span(text, 600)}" for text in texts[: advice.OPEN]]
        rows.append("")
    return _block("What to do", rows).rstrip()


def _story(diagnosis: Diagnosis) -> str:
    story = event_sequence.rows(diagnosis, EVENTS)
    rows = [
        _joined("-", row.time, f"{words(row.who, 160)}: {words(row.says, 200)}", _role(row), code(row.place, 160))
        for row in story.shown
    ]
    return _block("What happened, in order", rows, story.more)


def _role(row: event_sequence.Row) -> str:
    return f"**{row.role}**" if row.cause else f"({row.role})"


def _evidence(diagnosis: Diagnosis) -> str:
    shown = quotes(diagnosis)
    rows = [
        _joined(f"- **{q.id}** {q.stance}: {words(q.says, 240)}", _quoted(q, 300), code(q.where, 200))
        for q in shown.shown
    ]
    return _block("Evidence", rows, shown.more)


def _quoted(quote: Quote, limit: int) -> str:
    return code("".join(piece.text for piece in quote.quote), limit)


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _block(title: str, rows: Sequence[str], more: int = 0) -> str:
    """Rows under a heading; "" where there are none."""
    counted = [f"- and {more} more in the JSON"] if more else []
    return "\n".join([f"## {title}", "", *rows, *counted]) if rows else ""


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    body = ["| " + " | ".join(words(cell, 200) for cell in row) + " |" for row in rows]
    return _block(title, [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *body])


def _capture(diagnosis: Diagnosis) -> str:
    rows = [line(c, 300).replace("```", "'''") for c in diagnosis.capture[:24]]
    return _block("Capture this next time", ["```sh", *rows, "```"] if rows else ())
