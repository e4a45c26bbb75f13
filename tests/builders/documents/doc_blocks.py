"""The code blocks of the documents, and what the shell would make of them.

The first word behind the fence is the language. Words behind it say how a test treats the block: ``needs-cluster`` and its like keep it
from being run, ``output`` marks what the command before it prints.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NEEDS = frozenset({"needs-checkout", "needs-cluster", "needs-files", "needs-gpu", "needs-network", "needs-torch"})
"""What a block needs that a test does not have."""
ROLES = frozenset({"output"})

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(r"\{\w+(?:-\w+)*\}")
_SUBSTITUTED = re.compile(r"\$\(([^()]*)\)")
_VARIABLE = re.compile(r"\$\{?\w+\}?")
_OPERATOR = re.compile(r"[|&;<>()]+")

_OTHER_PROGRAMS = ("pip", "uv", "docker", "conda", "torchrun")
"""Programs that take the name of the package, of the image or of the plug-in, which is no call of the command."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line of its fence, its language, its other words and its text."""

    page: Path
    line: int
    language: str
    words: frozenset[str]
    text: str

    @property
    def is_run(self) -> bool:
        """True where nothing keeps a test from running it."""
        return not self.words

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def documents() -> tuple[Path, ...]:
    """Every document of the checkout that a user reads."""
    own = (path for path in sorted((ROOT / "docs").rglob("*.md")) if "examples" not in path.parts)
    return (*sorted(ROOT.glob("*.md")), *own, *sorted((ROOT / "benchmarks").rglob("README.md")))


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in their order; directives of the site are none."""
    text = page.read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        language, *words = fence["info"].split() or [""]
        if not _DIRECTIVE.fullmatch(language):
            yield Block(page, text.count("\n", 0, fence.start()) + 1, language, frozenset(words), fence["text"])


def nccldoctor_commands(script: str) -> Iterator[list[str]]:
    """The arguments of each ``nccldoctor`` in a script, also inside quotes and ``$(…)``; variables become ``1``."""
    for inner in _SUBSTITUTED.findall(script):
        yield from nccldoctor_commands(inner)
    plain = _VARIABLE.sub("1", _SUBSTITUTED.sub("1", script.replace("\\\n", " ")))
    for line in plain.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.commenters, lexer.whitespace_split = "#", True
        for command in _simple_commands(list(lexer)):
            arguments = command[command.index("nccldoctor") + 1 :] if "nccldoctor" in command else []
            if arguments and not command[0].startswith(_OTHER_PROGRAMS):
                yield arguments
            for word in command:
                if "nccldoctor " in word:
                    yield from nccldoctor_commands(word)


def _simple_commands(words: list[str]) -> Iterator[list[str]]:
    """The words between operators of the shell, without the number of a stream before a redirection."""
    command: list[str] = []
    for word in words:
        if not _OPERATOR.fullmatch(word):
            command.append(word)
            continue
        if word.startswith(">") and command[-1:] in (["1"], ["2"]):
            command.pop()
        yield command
        command = []
    yield command
