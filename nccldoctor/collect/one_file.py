"""Joins the modules of the collector into the one file that is sent to nodes.

A node needs Python 3.8 and its standard library alone. The parts are :mod:`nccldoctor.collect.on_node.main` and all modules of
nccldoctor that it needs. Each stands behind those that it imports; imports of each other are dropped, and those of the standard library
stand once, at the top. Equal modules give equal text.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby

from msgspec import Struct

from nccldoctor.version import __version__

ENTRY = "nccldoctor.collect.on_node.main"
"""The part that runs; it stands last."""

_OURS = "nccldoctor"
_WIDTH = 120


class Part(Struct, frozen=True):
    """One module: its dotted name, its text, and its syntax."""

    name: str
    source: str
    tree: ast.Module

    @property
    def last_name(self) -> str:
        """The last word of its name."""
        return self.name.rpartition(".")[2]

    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """Its imports, which stand at its top. Raises :class:`ValueError` for an import of our own modules that cannot be dropped."""
        top = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom) and _is_ours(node):
                plain = isinstance(node, ast.ImportFrom) and not node.level and not any(n.asname for n in node.names)
                if not plain or node not in top:
                    raise ValueError(f"{self.name}:{node.lineno}: write from nccldoctor.module import name, at the top")
        return top

    def defined(self) -> set[str]:
        """The names that it gives to something of its own."""
        symbols = symtable.symtable(self.source, self.name, "exec").get_symbols()
        return {s.get_name() for s in symbols if (s.is_assigned() or s.is_namespace()) and not s.is_imported()}

    def without_imports(self) -> str:
        """Its code without imports; what its docstring says becomes a comment."""
        lines = self.source.splitlines()
        said = ast.get_docstring(self.tree)
        for node in (*(self.tree.body[:1] if said else ()), *self.imports()):
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
        comment = "\n".join(f"# {line}".rstrip() for line in (said or "").splitlines())
        return f"{f'# ---- {self.last_name} ':-<{_WIDTH}}\n{comment}\n\n\n" + "\n".join(lines).strip()


def collector_source() -> str:
    """The collector as one file: what a node's Python reads from its standard input."""
    return joined_source(ENTRY)


def joined_source(entry: str) -> str:
    """A module and all of ours that it imports, as one file.

    Raises :class:`ValueError` where two of them give one name two meanings, or an import cannot be dropped.
    """
    parts = list(_parts_of(entry, {}).values())
    imports = _standard_imports(parts)
    package = entry.rpartition(".")[0]
    said = ast.get_docstring(ast.parse(files(package).joinpath("__init__.py").read_text("utf-8")), clean=False) or ""
    made = f"Made by nccldoctor {__version__} from its modules: {', '.join(part.last_name for part in parts)}."
    head = f'"""{said.rstrip()}\n\n{made}\n"""\n\nfrom __future__ import annotations\n\n' + "\n".join(imports)
    return "\n\n\n".join([head, *(part.without_imports() for part in parts)]) + "\n"


def _parts_of(name: str, known: dict[str, Part]) -> dict[str, Part]:
    """A module behind those that it imports, in the order of their names."""
    package, _, module = name.rpartition(".")
    source = files(package).joinpath(f"{module}.py").read_text("utf-8")
    part = Part(name, source, ast.parse(source))
    for needed in sorted(
        str(node.module) for node in part.imports() if _is_ours(node) and isinstance(node, ast.ImportFrom)
    ):
        if needed not in known:
            _parts_of(needed, known)
    known[name] = part
    return known


def _is_ours(node: ast.Import | ast.ImportFrom) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
    return bool(isinstance(node, ast.ImportFrom) and node.level) or any(n.split(".")[0] == _OURS for n in names)


def _standard_imports(parts: list[Part]) -> list[str]:
    """The imports of all parts, each once. Raises :class:`ValueError` where one name has two meanings."""
    meanings: dict[str, tuple[str, str]] = {}
    for part in parts:
        given = {**dict(_bound_names(part)), **{name: ("", f"{part.name}.{name}") for name in part.defined()}}
        for name, meaning in given.items():
            if meanings.setdefault(name, meaning) != meaning:
                raise ValueError(f"{name} has two meanings: {'.'.join(meanings[name])} and {'.'.join(meaning)}")
    return [*_plain_imports(meanings), *_from_imports(meanings)]


def _bound_names(part: Part) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each name that a part imports from elsewhere, with its module and its name there, "" of a whole module."""
    for node in part.imports():
        if _is_ours(node) or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            continue
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                yield alias.asname or alias.name, (str(node.module), alias.name)
            else:
                yield alias.asname or alias.name, (alias.name, "")


def _plain_imports(meanings: dict[str, tuple[str, str]]) -> Iterator[str]:
    for name, (module, inside) in sorted(meanings.items()):
        if module and not inside:
            yield f"import {module}" + (f" as {name}" if name != module else "")


def _from_imports(meanings: dict[str, tuple[str, str]]) -> Iterator[str]:
    rows = sorted((module, inside, name) for name, (module, inside) in meanings.items() if module and inside)
    for module, group in groupby(rows, key=lambda row: row[0]):
        names = (inside if inside == name else f"{inside} as {name}" for _, inside, name in group)
        yield f"from {module} import {', '.join(names)}"
