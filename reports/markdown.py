"""The whole report as Markdown, for places that do not take HTML; it begins with the ticket text."""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.model import Diagnosis, EventRole, IncidentEvent
from nccldoctor.reports import ticket
from nccldoctor.reports.dialects import MD
from nccldoctor.reports.parts import advice, prose, standing_titles, wording
from nccldoctor.reports.parts.quoted_proof import TEXT, all_quoted, decisive_lines
from nccldoctor.words import names, times
from nccldoctor.words.sanitize import line

EVENTS = 12
"""Rows of the story."""

ROLES = {
    EventRole.INITIATING: "started it",
    EventRole.CASCADE: "consequence",
    EventRole.TEAR_DOWN: "shutdown",
    EventRole.UNRELATED: "unrelated",
}
"""The word for each role, in the order in which rows are kept."""

ROWS = 24


def full(diagnosis: Diagnosis) -> str:
    """The whole report as Markdown."""
    rows = [line(setting, 300).replace("```", "'''") for setting in diagnosis.capture[:ROWS]]
    story, roles = diagnosis.story, list(ROLES)
    kept = sorted(range(len(story)), key=lambda n: (not story[n].cause, roles.index(story[n].role), n))[:EVENTS]
    blocks = [
        ticket.in_dialect(diagnosis, MD).rstrip("\n"),
        _other_findings(diagnosis),
        _chain(diagnosis),
        _ranks(diagnosis),
        _proof(diagnosis),
        _remedies(diagnosis),
        _section("What happened, in order", [_event_line(story[n]) for n in sorted(kept)], len(story) - len(kept)),
        _table(
            "Ruled out, or not checked",
            ("Hypothesis", "Result", "Why"),
            [(c.text, "ruled out" if c.met is False else "not checked", c.says) for c in diagnosis.ruled_out[:ROWS]],
        ),
        _table(
            "Input",
            ("Kind", "Found", "Expected", "Problems"),
            [
                (c.input, names.few(c.found), names.few(c.expected), "; ".join(c.problems[:3]))
                for c in diagnosis.coverage[:ROWS]
            ],
        ),
        _section("Capture this next time", ["```sh", *rows, "```"] if rows else ()),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _other_findings(diagnosis: Diagnosis) -> str:
    others = wording.others(diagnosis)
    rows = [
        f"- **{f.id}** `{f.cause.value}`, {f.confidence.value} confidence: {MD.words(f.headline, 300)}"
        for f in others[:12]
    ]
    return _section("Also found", rows)


def _chain(diagnosis: Diagnosis) -> str:
    verdict = diagnosis.verdict
    rows = [f"1. {MD.words(standing_titles.wait_in_words(link, verdict.suspects), 300)}" for link in verdict.chain[:12]]
    return _section("Who waits for whom", rows)


def _ranks(diagnosis: Diagnosis) -> str:
    rows = [
        (
            names.few(row.ranks),
            row.involvement.value,
            standing_titles.waited_title(row.call),
            names.few(row.waits_for, 4) if row.waits_for else "",
            f"{row.frame} ({row.frame_at})" if row.frame_at else row.frame,
            ", ".join(row.hosts[:3]),
            row.end,
        )
        for row in diagnosis.standings[:ROWS]
    ]
    return _table("Ranks", ("Ranks", "State", "In", "Waits for", "At", "Hosts", "End"), rows)


def _proof(diagnosis: Diagnosis) -> str:
    rows = []
    for proof in all_quoted(diagnosis):
        note = " (formatted)" if proof.is_formatted else ""
        rows.append(f"- {proof.id}: {MD.words(proof.claim, 240)} {MD.code(proof.place, 200)}{note}")
        rows.append(MD.block("\n".join(decisive_lines(proof)), 3 * TEXT))
    return _section("Proof", rows)


def _remedies(diagnosis: Diagnosis) -> str:
    rows: list[str] = []
    for item in diagnosis.remedies[: advice.OPEN]:
        fit = f"`{line(item.id, 80)}`, {line(item.fit, 20)} fit, {wording.conditions_met(item)}"
        rows.append(f"### {MD.words(item.title, 160)}\n\n{fit}\n")
        for label, texts in (("Confirm", item.confirm), ("Fix", item.fix), ("Prevent", item.prevent)):
            shown = (MD.prose(prose.inline_pieces(text), 600) for text in texts[: advice.OPEN])
            rows += [f"- **{label}:** {text}" for text in shown]
        rows.append("")
    return _section("What to do", rows).rstrip()


def _event_line(event: IncidentEvent) -> str:
    time = times.instant(event.time) if event.time is not None else ""
    who = [names.ranks_phrase(event.ranks, 4)] if event.ranks else []
    who += [line(event.host, 60)] if event.host else []
    says = line(event.says, 160) + (f" ({event.count:,} times)" if event.count > 1 else "")
    told = f"{MD.words(' on '.join(who) or 'the job', 160)}: {MD.words(says, 200)}"
    role = "**root cause**" if event.cause else f"({ROLES[event.role]})"
    return " ".join(filter(None, ("-", time, told, role, MD.code(line(str(event.where), 160), 160))))


def _section(title: str, rows: Sequence[str], more: int = 0) -> str:
    """Rows under a heading; "" where there are none."""
    counted = [f"- and {more} more in the JSON"] if more else []
    return "\n".join([f"## {title}", "", *rows, *counted]) if rows else ""


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    body = ["| " + " | ".join(MD.words(cell, 200) for cell in row) + " |" for row in rows]
    return _section(title, [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *body])
