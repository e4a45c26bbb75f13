"""Counts how many of the messages that libraries can print have a role, from checkouts of their sources.

``python tests/scoring/sources/extract.py nccl=PATH@2.30.7 gloo=PATH@70dc3602 …`` extracts every text of a call that logs or
throws, gives its placeholders plain values, and prints a Markdown table: how many have a row of words, how many the default
of their file, and how many none. ``--page`` prints the page ``docs/reference/sources.md`` instead; ``--texts`` lists every
text with its role.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the folder tests/, also when run as a script

from nccldoctor.parsers.roles import role_of

_CALLS = {
    "nccl": r"WARN",
    "rccl": r"WARN",
    "aws-ofi-nccl": r"NCCL_OFI_WARN",
    "gloo": r"GLOO_ENFORCE\w*|GLOO_THROW\w*|GLOO_ERROR(?:_MSG)?|GLOO_WARN",
    "c10d": r"TORCH_CHECK\w*|C10D_(?:THROW_)?ERROR\w*|C10D_WARNING|TORCH_WARN\w*",
}
"""The macros that log at WARN and above, or throw, by source."""

_ROOTS = {
    "nccl": "src",
    "rccl": "src",
    "aws-ofi-nccl": "src",
    "gloo": "gloo",
    "c10d": "torch/csrc/distributed/c10d",
    "torch": "torch/distributed",
}
_LEFT_OUT = re.compile(r"/(?:test|tests|benchmark|examples|doca-gpunetio|tuner/example)s?/")
LONGEST = 400
"""Characters of a text; more of them are code between two calls that the extractor took for one."""

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_FORMAT = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t)?([diouxXeEfgGcspn])")
_VALUES = {"s": "abc", "p": "0x7f10", "x": "1f", "X": "1F", "c": "c", "f": "1.5", "g": "1.5", "e": "1.5"}
_LOGGED = frozenset({"warning", "error", "exception", "critical", "warn"})


@dataclass(frozen=True, slots=True)
class Text:
    """One message as a program can print it, with plain values for its placeholders."""

    source: str
    file: str
    line: int
    words: str


def texts_of(source: str, checkout: Path) -> list[Text]:
    """The distinct texts of a source, in order of files and lines."""
    root = checkout / _ROOTS.get(source, "")
    root = root if root.is_dir() else checkout
    seen: dict[tuple[str, str], Text] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(checkout).as_posix()
        if path.suffix not in (".cc", ".cpp", ".h", ".hpp", ".cu", ".py") or _LEFT_OUT.search(f"/{name}"):
            continue
        code = path.read_text(encoding="utf-8", errors="replace")
        found = _of_python(code) if path.suffix == ".py" else _of_cpp(code, _CALLS.get(source, "WARN"))
        for line, words in found:
            if sum(map(str.isalpha, words)) > 3 and len(words) <= LONGEST:
                seen.setdefault((name, words), Text(source, name, line, words))
    return list(seen.values())


def _of_cpp(code: str, calls: str) -> Iterator[tuple[int, str]]:
    """The texts of C and C++: all strings of a call, with values between them where something is streamed or formatted."""
    code = re.sub(
        r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*", lambda hit: "\n" * hit[0].count("\n"), code, flags=re.M
    )
    code = re.sub(r"(?m)^[ \t]*//.*$", "", code)
    for call in re.finditer(rf"\b(?:{calls})\s*\(", code):
        inside = _call(code, call.end())
        words = " ".join(_message(inside).split())
        if words:
            yield code.count("\n", 0, call.start()) + 1, words


def _call(code: str, start: int) -> str:
    """What stands between a bracket and the one that closes it; brackets in strings count for nothing."""
    depth, at = 1, start
    while at < len(code) and depth:
        if code[at] == '"' and (hit := _STRING.match(code, at)):
            at = hit.end()
            continue
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        at += 1
    return code[start : at - 1]


def _message(inside: str) -> str:
    parts: list[str] = []
    end: int | None = None
    for hit in _STRING.finditer(inside):
        between = "" if end is None else inside[end : hit.start()]
        if end is not None and between.strip(" \n\t\\"):
            # a string behind the arguments of a format is an argument itself
            if "%" in "".join(parts) and "<<" not in between and "PRI" not in between:
                break
            parts.append("17" if between.strip(" \n\t,<") else "")
        parts.append(hit[1])
        end = hit.end()
    text = "".join(parts).replace("\\n", " ").replace('\\"', '"').replace("\\t", " ")
    return _FORMAT.sub(lambda hit: _VALUES.get(hit[1], "17"), text).replace("%%", "%").replace("{}", "17")


def _of_python(code: str) -> Iterator[tuple[int, str]]:
    """The texts of ``raise`` and of the calls of a logger at *warning* and above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(code)
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if isinstance(node, ast.Raise) or name in _LOGGED:
            words = " ".join(_python_text(call.args[0]).split())
            if words:
                yield call.lineno, words


def _python_text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else ""
        return _FORMAT.sub(lambda hit: _VALUES.get(hit[1], "17"), text).replace("{}", "17")
    if isinstance(node, ast.JoinedStr):
        return "".join(_python_text(v) if isinstance(v, ast.Constant) else "17" for v in node.values)
    if isinstance(node, ast.BinOp):
        return _python_text(node.left) + (_python_text(node.right) if isinstance(node.op, ast.Add) else "")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _python_text(node.func.value)
    return ""


def rows(found: Iterable[tuple[str, str, list[Text]]]) -> Iterator[str]:
    """The table: for each source and release its texts, and by what they have a role."""
    yield "| source | release | texts | covered | by words | by file | none |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for source, release, texts in found:
        words = sum(role_of(text.words) is not None for text in texts)
        none = sum(role_of(text.words, text.file) is None for text in texts)
        share = f"{100 * (len(texts) - none) / max(1, len(texts)):.0f} %"
        yield f"| {source} | {release} | {len(texts):,} | {share} | {words:,} | {len(texts) - words - none:,} | {none:,} |"


_MEANINGS = "<!-- built here: meanings -->\n<!-- up to here -->"
"""``python docs/reference.py`` fills it."""

_PAGE = """# Messages by source

Whose each message of a library is, and what it weighs, stands in the table `parsers/roles.toml`: by its words first, then by the source
file that printed it. This page counts how many of the texts that a library can print have such a role.
`python tests/scoring/sources/extract.py` writes it from checkouts of the sources. Texts are those of the calls that log at *warning* and
above, or throw, with plain values for what they format.

{table}

A text with a role is told where it is the last word of the rank that others wait for. A *consequence* never accuses the rank that prints
it, and a *notice* never changes a verdict. A Python exception without a row counts as the rank's own. Without a row and a known file, a
warning of NCCL counts as the library's own, and as a cause.
{note}
## Messages with a meaning of their own

Conditions of remedies can ask for these by name.

{meanings}
"""


def main() -> None:
    """Prints the table, the page, or the texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", help="NAME=PATH@RELEASE")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--note", default="", help="a last paragraph of the page: what could not be read")
    parser.add_argument("--texts", action="store_true")
    args = parser.parse_args()
    found = []
    for one in args.sources:
        name, _, rest = one.partition("=")
        path, _, release = rest.rpartition("@")
        found.append((name, release, texts_of(name, Path(path))))
    if args.texts:
        for _, _, texts in found:
            for text in texts:
                print(text.source, f"{text.file}:{text.line}", text.words, role_of(text.words, text.file), sep="\t")
        return
    table, note = "\n".join(rows(found)), f"\n{args.note}\n" if args.note else ""
    sys.stdout.write(_PAGE.format(table=table, note=note, meanings=_MEANINGS) if args.page else f"{table}\n")


if __name__ == "__main__":
    main()
