"""The ticket text: one model of what a ticket holds, written in the dialect of a tracker or chat."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from msgspec import Struct

from nccldoctor.model import Diagnosis
from nccldoctor.model.steps import Step
from nccldoctor.reports.dialects import Dialect
from nccldoctor.reports.parts import advice, incident_facts, prose
from nccldoctor.reports.parts.incident_facts import FactLine
from nccldoctor.reports.parts.quoted_proof import TEXT, QuotedProof, all_quoted, decisive_lines
from nccldoctor.version import __version__
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import capitalized, sentence

LIMIT = 2_000
"""Characters of the ticket; Slack cuts text blocks off at 3,000."""

ROOTS = 3
"""Files and folders that the command of the last line names; for more it stands for the folder around them."""

EVIDENCE, DONTS = 3, 2


class Ticket(Struct, frozen=True):
    """The values of a ticket: headline, fields, steps with commands, proof, what not to do, and the remedy."""

    headline: str
    fields: tuple[FactLine, ...]
    steps: tuple[Step, ...]
    evidence: tuple[QuotedProof, ...]
    donts: tuple[str, ...]
    remedy: str
    again: str


class Block(Struct, frozen=True):
    """A part of the ticket. ``goes`` says how early it is dropped (0 never), ``left`` what then stands in its place."""

    title: str
    text: str
    goes: int
    left: Block | None = None


def ticket_of(diagnosis: Diagnosis) -> Ticket:
    """The values of the ticket of a diagnosis."""
    donts = (*advice.idle_settings(diagnosis), *advice.donts(diagnosis))[:DONTS]
    finding = diagnosis.verdict
    cause = (FactLine("class", finding.cause.value),)
    notices = tuple(FactLine("note", notice) for notice in diagnosis.notices)
    return Ticket(
        headline=sentence(line(finding.headline, 360)),
        fields=(*cause, *(fact for fact in incident_facts.facts(diagnosis) if fact.label != "class"), *notices),
        steps=diagnosis.action.steps,
        evidence=all_quoted(diagnosis)[:EVIDENCE],
        donts=tuple(advice.warning_of(item) for item in donts),
        remedy=diagnosis.remedies[0].id if diagnosis.remedies else "",
        again=_command(diagnosis),
    )


def _command(diagnosis: Diagnosis) -> str:
    """The command that makes the report again, from the folder that holds the input."""
    roots = list(dict.fromkeys(source.path.partition("/")[0] for source in diagnosis.sources))
    named = shlex.join(line(root, 80) for root in roots) if 0 < len(roots) <= ROOTS else "."
    return f"nccldoctor analyze {named} -o report.html"


def in_dialect(diagnosis: Diagnosis, dialect: Dialect) -> str:
    """The ticket of a diagnosis in a dialect, at most :data:`LIMIT` characters: what matters least goes first."""
    made = ticket_of(diagnosis)
    before, after = dialect.heading
    head = f"{before}{dialect.words(made.headline, 360)}{after}\n"
    foot = f"\nnccldoctor {__version__} · report.html attached · reproduce: {dialect.code(made.again, 300)}\n"
    blocks = [*_fields(made, dialect), *_steps(made, dialect), *_proof(made, dialect), *_last(made, dialect)]
    room = LIMIT - len(foot)
    while len(text := head + _assembled(blocks, dialect)) > room and (goes := max(block.goes for block in blocks)):
        kept = (block if block.goes < goes else block.left for block in blocks)
        blocks = [block for block in kept if block is not None]
    return text[:room] + foot


def _assembled(blocks: list[Block], dialect: Dialect) -> str:
    out, title = "", None
    for block in blocks:
        if block.title != title:
            out += "\n" + (dialect.strong(block.title) + "\n" if block.title else "")
            title = block.title
        out += block.text + "\n"
    return out


FIELD = 200
"""Characters of a field at most."""

_GOES = {"job": 7, "looks": 7, "or else": 9, "doubts": 2, "note": 1}
"""The fields that may go; the others stay."""


def _fields(made: Ticket, dialect: Dialect) -> Iterator[Block]:
    for fact in made.fields:
        end = (
            fact.text.rfind(". ", 0, FIELD) + 1 if len(fact.text) > FIELD else 0
        )  # as many sentences as there is room for
        told = fact.text[:end] or fact.text
        text = dialect.code(fact.text, 40) if fact.label == "class" else dialect.words(told, FIELD)
        label = dialect.strong(f"{capitalized(fact.label)}:")
        yield Block("", f"{dialect.bullet}{label} {text}", _GOES.get(fact.label, 0))


def _steps(made: Ticket, dialect: Dialect) -> Iterator[Block]:
    for number, step in enumerate(made.steps, 1):
        rows = [dialect.prose(prose.inline_pieces(advice.sentence_of(step)), 240)]
        rows += [dialect.block(step.command, 400)] if step.command else []
        yield Block("Do now", dialect.step.format(number) + "\n".join(rows), 1 if number <= 2 else 6)


_QUOTE_GOES = (3, 8, 10)
"""How early the lines of an exhibit go: last those that show what became of the culprit."""


def _proof(made: Ticket, dialect: Dialect) -> Iterator[Block]:
    of_culprit = [proof for proof in made.evidence if proof.is_of_culprit]
    of_peers = [proof for proof in made.evidence if not proof.is_of_culprit]
    kept = [*of_culprit, *of_peers]
    for proof in made.evidence:
        claim = dialect.bullet + dialect.words(proof.claim, 120)
        lines = dialect.block("\n".join(decisive_lines(proof)), 3 * TEXT)
        claim_goes = 2 if proof is kept[0] else 4 if proof in of_peers[:1] else 9
        left = Block("Evidence", claim, claim_goes)  # of the peers the sentence that says where they waited stays
        goes = _QUOTE_GOES[kept.index(proof)]
        yield Block("Evidence", f"{claim} {dialect.code(proof.place, 100)}\n{lines}", goes, left)


def _last(made: Ticket, dialect: Dialect) -> Iterator[Block]:
    for number, dont in enumerate(made.donts):
        yield Block("Don't", dialect.bullet + dialect.prose(prose.inline_pieces(dont), 200), (5, 11)[number])
    if made.remedy:
        yield Block("", f"{dialect.strong('More:')} {dialect.code(f'nccldoctor explain {made.remedy}', 120)}", 12)
