"""What pages of ``docs/`` keep of what the code says, for readers who build no site: Markdown that any host of code shows."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import nccldoctor
from docsite import code_pages
from nccldoctor.cli import demo

DOCS = Path(__file__).resolve().parents[1]
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


def pages() -> Iterator[Path]:
    """The pages that keep something."""
    return (path for path in sorted(DOCS.rglob("*.md")) if "<!-- built here: " in path.read_text(encoding="utf-8"))


def kept(page: str) -> str:
    """The text of a page with what it keeps brought up to date."""
    return code_pages.filled(
        page, lambda name: f"<!-- built here: {name} -->\n\n{KEPT[name]().strip()}\n\n<!-- up to here -->"
    )


def api() -> str:
    """The public names, functions first."""
    public = [getattr(nccldoctor, name) for name in nccldoctor.__all__]
    chosen = [value for kind in (inspect.isfunction, inspect.isclass) for value in public if kind(value)]
    return "\n".join(map(_described, chosen))


def values() -> str:
    """The values that a finding, a report and a comparison hold."""
    return "\n".join(map(_described, code_pages.VALUES))


def incidents() -> str:
    """A row for each bundled incident, with its files and the answer that a test holds."""
    rows = ["| incident | what happened | how it was made | class | ranks |", "| --- | --- | --- | --- | --- |"]
    for one in demo.samples():
        verdict = tomllib.loads(demo.expected(one.name))["verdict"]
        causes, about = " or ".join(f"`{cause}`" for cause in verdict["class"]), one.about.replace("|", "\\|")
        link = f"[{one.name}](../../sample_logs/{one.name})"
        rows.append(f"| {link} | {about} | {one.kind} | {causes} | {verdict.get('ranks', '')} |")
    return "\n".join(rows)


def remedies() -> str:
    """The index of the remedies, with links to their files."""
    files = "../../nccldoctor/prescribe/catalogue/"
    return re.sub(r"\]\(remedies/([^)]+)\.md\)", rf"]({files}\1.toml)", code_pages.remedies())


def _described(value: Callable[..., object]) -> str:
    """A function or a class as sections: its signature or fields, its docstring, and its public methods."""
    source = inspect.getsourcefile(sys.modules[value.__module__])
    assert source is not None
    body = ast.parse(Path(source).read_text(encoding="utf-8")).body
    (node,) = (one for one in body if getattr(one, "name", "") == value.__name__)
    if isinstance(node, ast.FunctionDef):
        return f"### nccldoctor.{node.name}\n\n`{_signature(node)}`\n\n{_told(node)}\n"
    assert isinstance(node, ast.ClassDef)
    fields = (one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name))
    shown = (f"- `{ast.unparse(one.target)}`: `{ast.unparse(one.annotation)}`" for one in fields)
    lines = [f"### {node.name}", "", _told(node), "", *(line for line in shown if not line.startswith("- `_"))]
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name[0] != "_":
            lines += ["", f"`{node.name}.{_signature(item)}`", "", _told(item)]
    return "\n".join(lines) + "\n"


def _signature(node: ast.FunctionDef) -> str:
    """``load(path: str | Path) -> SavedReport``; of a property its name alone."""
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if any("property" in ast.unparse(one) for one in node.decorator_list):
        return f"{node.name}{returned}"
    return f"{node.name}({re.sub('^(self|cls)(, )?', '', ast.unparse(node.args))}){returned}"


def _told(node: ast.FunctionDef | ast.ClassDef) -> str:
    """A docstring as Markdown; its examples stand as text."""
    text = _ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", ast.get_docstring(node) or "").replace("``", "`")
    return _EXAMPLE.sub(lambda example: f"```text\n{example[0]}\n```", text)


KEPT = {
    **code_pages.BUILT,
    "api": api,
    "incidents": incidents,
    "remedies": remedies,
    "values": values,
}
"""What is kept of each built part."""
