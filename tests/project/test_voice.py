"""Sentences for users are plain English: see docs/voice.md. ``python tests/project/test_voice.py [PATH…]`` lists what is not.

It reads string literals of three words and more, the texts of templates and the texts of TOML files. Docstrings, parsers (their
literals are patterns and samples) and commands are left out.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

REFUSED = {
    r"\bcan(?:no|')t be (?:told|known|said|seen)\b": "say what is unknown, or which file is missing",
    r"\b(?:is|are|was|were) not known\b|\bnot known (?:to|whether|which|who|why)\b": "unknown",
    r"\b(?:is|are|was|were|be) (?:not )?(?:seen|shown|known) to\b": "say what happened, in the active voice",
    r"\b(?:what|nothing|none|all) (?:that )?(?:was|were) read\b|\bnothing read\b": "the logs, these files, the input",
    r"\b(?:would|does not|do not|did not|doesn't|don't|didn't) tell\b": "show, say, name",
    r"\b[Nn]othing (?:tells|shows) (?:who|which|what|why|whether)\b": "unknown, or the file that is missing",
    r"\bno (?:line|file) (?:says|tells|shows) (?:who|which|what|why|whether)\b": "unknown, or the file that is missing",
    r"\b(?:left|leave|leaves|leaving) through\b": "crashed with, exited on",
    r"\b(?:come|comes|came|coming) (?:up|to (?:a|an|the)? ?(?:call|collective|end|barrier))\b": "start, join, reach",
    r"\b(?:did not|does not|do not|never|didn't) (?:come|came)\b|\bwho (?:came|comes)\b": "never joined, never reached",
    r"\b(?:give|gives|gave|given|giving) up\b": "timed out, aborted",
    r"\b(?:go|goes|went|gone|going) on\b": "continue, keep, run",
    r"\b(?:stand|stands|stood|standing) (?:in|at|still|where|there)\b": "is in, is stuck in, did not move",
    r"\b[Aa]nother \w+(?: \w+)? than\b": "a different … from",
    r"\b[Tt]he others\b": "its peers, the other ranks",
    r"\balike\b": "the same",
    r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever)\b": "no rank, a rank, the rank that",
    r"\bown line\b|\bof (?:its|their|your|his) own\b": "line of your code, its own …",
    r"\blate rank\b": "straggler, lagging rank",
    r"\bset-up\b": "init",
    r"\b(?:closing|dump) signal\b": "SIGTERM, dump request",
    r"\btook (?:itself|themselves) down\b|\btold to close\b": "aborted, the launcher sent SIGTERM",
    r"\bas far as\b": "drop the hedge, or name what is missing",
    r"\bheard of\b|\bheard from\b": "no logs from",
    r"(?<![Ff]light )(?<![Ff]light-)\b[Rr]ecorders?\b(?!\.)": "flight recorder",
    r":\s[^.:;!?\n`]{1,200}:\s": "one colon in a sentence",
}
"""Patterns that no sentence holds, each with what to write instead."""

CODE = re.compile(r"`[^`\n]*`|\{\{.*?\}\}|\{[^{}]*\}|https?://\S+|\d\d:\d\d")
"""Parts of a text that are no prose: code, fields to fill in, addresses, times."""

LITERALS = ("nccldoctor", "reports")
NO_PROSE = ("nccldoctor/parsers", "nccldoctor/reports", "nccldoctor/samples")
TEMPLATES = "reports/templates"
TOML = ("nccldoctor/diagnose", "nccldoctor/prescribe", "nccldoctor/align")
NO_PROSE_KEYS = frozenset({"command", "url", "sources", "pattern", "paths", "where", "id", "stack-has", "log-has"})

FEWEST_WORDS = 3


@dataclass(frozen=True)
class Text:
    """A text that a user may read, and its place."""

    path: str
    line: int
    words: str


def texts() -> Iterator[Text]:
    """Every text of the package that a user may read."""
    for folder in LITERALS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(NO_PROSE):
                yield from _literals(path)
    for path in sorted(p for p in (ROOT / TEMPLATES).rglob("*") if p.suffix in (".html", ".md")):
        plain = re.sub(r"(?s)<style.*?</style>|<script.*?</script>|\{%.*?%\}|\{#.*?#\}|<[^>]*>", "|", path.read_text())
        for number, line in enumerate(plain.split("\n"), 1):
            yield from (Text(_name(path), number, part) for part in line.split("|") if part.strip())
    for folder in TOML:
        for path in sorted((ROOT / folder).rglob("*.toml")):
            written = _values(tomllib.loads(path.read_text()))
            told = (words for text in written for words in (_told(text) if path.parent.name == "phrases" else (text,)))
            yield from (Text(_name(path), 0, words) for words in told)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _told(text: str) -> Iterator[str]:
    """A row of a diagnosis as it may be said: with each part of its brackets, and for one rank and for several."""
    for way in range(3):
        told = re.sub(r"\{([^{}:]*/[^{}:]*):\w+\}", lambda m, way=way: m[1].split("/")[way % 2], text)
        while (plain := re.sub(r"\[([^][]*)\]", lambda m, way=way: [*m[1].split("|"), "", ""][way], told)) != told:
            told = plain
        yield told


def _literals(path: Path) -> Iterator[Text]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))  # a docstring
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "lazy", "re.search", "re.sub"):
            left_out |= {id(part) for part in ast.walk(node)}
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(part) for part in node.values}
            if id(node) not in left_out:
                parts = (part.value if isinstance(part, ast.Constant) else "{…}" for part in node.values)
                yield Text(_name(path), node.lineno, "".join(map(str, parts)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield Text(_name(path), node.lineno, node.value)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _values(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in NO_PROSE_KEYS:
                yield from _values(item)


@cache
def faults() -> tuple[tuple[Text, str], ...]:
    """Each text that holds a refused pattern, with what to write instead."""
    patterns = [(re.compile(pattern), instead) for pattern, instead in REFUSED.items()]
    found = []
    for text in texts():
        prose = CODE.sub("…", text.words)
        if len(re.findall(r"[A-Za-z']{2,}", prose)) < FEWEST_WORDS or "\\" in prose:
            continue
        found += [(text, f"«{m[0]}» → {instead}") for p, instead in patterns if (m := p.search(prose))]
    return tuple(found)


def _listed(paths: tuple[str, ...]) -> list[str]:
    return [
        f"{t.path}:{t.line}: {why}: {' '.join(t.words.split())[:160]}"
        for t, why in faults()
        if t.path.startswith(paths)
    ]


def test_no_sentence_holds_a_refused_pattern():
    assert _listed(("",)) == []


def test_a_refused_sentence_is_found():
    """The patterns match what they are there for."""
    bad = (
        "Whether a restart helps cannot be told",
        "what was read does not tell for whom",
        "Rank 6 left through FileNotFoundError",
        "rank 3 issued another dtype than ranks 0-2",
        "ranks 0-5, or one that was not heard of",
        "run it twice: expect this: or that",
        "rank 1 obeyed the closing signal",
    )
    for sentence in bad:
        assert any(re.search(pattern, sentence) for pattern in REFUSED), sentence


def test_a_row_is_read_as_it_is_said() -> None:
    text = "{ranks} {is/are:ranks} late[ in {call}[, {step}]|, as ever]."
    assert [*_told(text)] == ["{ranks} is late in {call}, {step}.", "{ranks} are late, as ever.", "{ranks} is late."]


if __name__ == "__main__":
    print("\n".join(_listed(tuple(sys.argv[1:]) or ("",))))
