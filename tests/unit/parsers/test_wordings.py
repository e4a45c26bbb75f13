"""Every known wording of PyTorch, NCCL, the driver, the kernel and the schedulers gives its events and no others.

``parsers/wordings/FAMILY/MODULE.toml`` holds the texts of ``parsers/FAMILY/MODULE.py`` or ``MODULE_rows.toml``: a text, its events, and the
source that the wording comes from. Texts follow the sources' templates with values of their own; their events were
written down from the sources, not from the parsers' answers. A text without events is one that no parser may claim.
"""

from __future__ import annotations

import io
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.events import KINDS, Event, GroupRef, Note
from nccldoctor.model import Source, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.engine.scan import scan, without_breaks

FOLDER = Path(registry.parsers.__path__[0]) / "wordings"


@dataclass(frozen=True, slots=True)
class Wording:
    """One text and its events; ``path`` where the name of the file matters, as for whole documents."""

    module: str
    number: int
    text: str
    events: tuple[Mapping[str, Any], ...]
    origin: str
    path: str | None = None

    @property
    def name(self) -> str:
        return f"{self.module}-{self.number}"

    @property
    def content(self) -> bytes:
        return (self.text if self.text.endswith("\n") else f"{self.text}\n").encode()


def wordings() -> list[Wording]:
    out = []
    for file in sorted(FOLDER.rglob("*.toml")):
        rows = tomllib.loads(file.read_text(encoding="utf-8"))["wording"]
        for number, row in enumerate(rows):
            out.append(
                Wording(
                    ".".join(file.relative_to(FOLDER).with_suffix("").parts),
                    number,
                    events=tuple(row.pop("events")),
                    **row,
                )
            )
    return out


WORDINGS = wordings()
EACH_FILE = pytest.mark.parametrize("module", sorted({w.module for w in WORDINGS}))
"""One test a file: its messages name the wording."""


def of_file(module: str) -> list[Wording]:
    return [wording for wording in WORDINGS if wording.module == module]


def module_of(parser: object) -> str:
    return type(parser).__module__.partition(".parsers.")[2]


def read(content: bytes, path: str | None, parsers: Sequence[LineParser] | None = None) -> tuple[Event, ...]:
    """What these parsers (default: all) find in a file of this name, but for a line that none of them understands."""
    source = Source(0, path or "job.log", SourceKind.LOG, len(content))
    owner = next((p for p in registry.file_parsers() if path and p.claims(content, path)), None)
    parsed = scan(source, io.BytesIO(content), parsers) if owner is None else owner.parse(source, content)
    return tuple(e for e in parsed.events if not (isinstance(e, Note) and e.what == "marked"))


def plain(value: Any) -> Any:
    """A field as TOML has it."""
    if isinstance(value, Ranks):
        return str(value)
    if isinstance(value, GroupRef):
        return {k: v for k in ("pg_id", "uid", "desc") if (v := getattr(value, k)) is not None}
    if isinstance(value, datetime):
        return value.isoformat()
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def fits(event: Event, wanted: Mapping[str, Any]) -> bool:
    fields = {name: value for name, value in wanted.items() if name not in ("kind", "without")}
    return (
        event.kind == wanted["kind"]
        and all(plain(getattr(event, name)) == value for name, value in fields.items())
        and all(getattr(event, name) is None for name in wanted.get("without", ()))
    )


def shown(event: Event) -> str:
    """The kind of an event; those that stand for many things are told apart by what they are about."""
    about = {"note": "what", "tear-down": "what", "version": "of", "setting": "name"}.get(event.kind)
    return f"{event.kind}:{getattr(event, about)}" if about else event.kind


@EACH_FILE
def test_it_says_this_and_nothing_else(module: str) -> None:
    for wording in of_file(module):
        left = list(read(wording.content, wording.path))
        for wanted in sorted(wording.events, key=len, reverse=True):
            hit = next((event for event in left if fits(event, wanted)), None)
            assert hit is not None, f"{wording.name}: {dict(wanted)} is not in {left}"
            left.remove(hit)
        assert not left, f"{wording.name} says more"


@EACH_FILE
def test_its_own_parser_reads_it_and_no_other_claims_the_same(module: str) -> None:
    """Nobody else may tell the same kind of event of the same line: it would be counted as a second witness."""
    for wording in of_file(module):
        assert_one_parser_claims(wording)


def assert_one_parser_claims(wording: Wording) -> None:
    by_module: dict[str, set[tuple[str, int | None]]] = {}
    mended = without_breaks(Source(0, "job.log", SourceKind.LOG, len(wording.content)), wording.content, 600)
    content = mended.content if mended else wording.content
    for parser in registry.line_parsers():
        if not any(literal in wording.text for literal in parser.literals):
            continue
        claims = {(shown(e), e.place.line) for e in read(content, None, [parser])}
        twice = {other: both for other, said in by_module.items() if (both := said & claims)}
        assert not twice, f"{wording.name}: {module_of(parser)} too"
        by_module.setdefault(module_of(parser), set()).update(claims)
    owner = next((p for p in registry.file_parsers() if wording.path and p.claims(wording.content, wording.path)), None)
    if owner is not None:
        assert module_of(owner) == wording.module, wording.name
    elif wording.events:
        own = {kind.partition(":")[0] for kind, _ in by_module[wording.module]}
        assert own & {e["kind"] for e in wording.events}, wording.name


PREFIXED = re.compile(
    r"\s*(?:\[rank|\[default|\[[EWIFD]\d|\[[EWIFD] |[EWIDF]\d{4}|\[20|WARNING:|\{|.{0,40}\x1b|\(|#|JobID)"
)
"""Texts that begin with a writer's own prefix, or are no line of a log."""


@EACH_FILE
def test_a_launchers_prefix_changes_nothing(module: str) -> None:
    """The label in front of every line hides no wording, and makes no second event of it."""
    for wording in of_file(module):
        if wording.path or PREFIXED.match(wording.text) or module in ("environment", "kernel_log"):
            continue
        labelled = "".join(f"[default3]:{line}\n" for line in wording.text.removesuffix("\n").split("\n")).encode()
        here, there = (
            Counter((e.kind, getattr(e, "what", "")) for e in read(content, None))
            for content in (wording.content, labelled)
        )
        assert there == here, wording.name


def test_each_file_of_wordings_belongs_to_a_parser() -> None:
    modules = {module_of(parser) for parser in (*registry.line_parsers(), *registry.file_parsers())}
    assert {w.module for w in WORDINGS} <= modules


def test_every_parser_reads_a_wording_of_its_module() -> None:
    for parser in registry.line_parsers():
        texts = [w.content for w in WORDINGS if w.module == module_of(parser) and not w.path]
        assert any(read(text, None, [parser]) for text in texts), type(parser).__name__
        assert all(len(literal) >= 2 for literal in parser.literals), type(parser).__name__
    for file_parser in registry.file_parsers():
        documents = [w for w in WORDINGS if w.module == module_of(file_parser) and w.path]
        assert any(file_parser.claims(w.content, w.path) for w in documents if w.path), type(file_parser).__name__


def test_one_parser_claims_a_document() -> None:
    for wording in WORDINGS:
        if wording.path:
            claims = [p for p in registry.file_parsers() if p.claims(wording.content, wording.path)]
            assert len(claims) <= 1, f"{wording.name}: {claims}"


def test_wordings_are_complete_and_told_once() -> None:
    texts = Counter(w.text for w in WORDINGS)
    assert not [text for text, times in texts.items() if times > 1]
    for wording in WORDINGS:
        assert wording.origin, wording.name
        assert all(wanted["kind"] in KINDS for wanted in wording.events), wording.name
