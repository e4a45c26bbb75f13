"""Adds to a built package what each run would else make: compiled templates, remedies as one module, tables as JSON.

The README of a package has links that lead to the repository.

A checkout has none of these, and reads their sources; so does a package that was built where jinja2 is missing.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
CATALOGUE = ROOT / "nccldoctor" / "prescribe" / "catalogue"


class BuildWithForms(build_py):
    """Builds the modules, then what is made of templates, remedies and tables."""

    def run(self) -> None:
        """Build; an editable installation reads the sources."""
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "nccldoctor"
        write_remedies(package / "prescribe" / "catalogue" / "built_in.py")
        write_tables(package)
        sys.path.insert(0, str(package.parent))  # an unpacked sdist has no link to the reports
        sys.dont_write_bytecode = True
        try:
            write_templates(package / "reports")
        except ImportError as error:
            self.announce(f"the templates are not compiled: {error}", level=3)


def write_templates(reports: Path) -> None:
    """Compile the templates of the page into the folder of the reports. Same sources, same bytes."""
    from nccldoctor.reports.template_syntax import bare_environment, compiled_templates

    environment = bare_environment()
    environment.filters = _AnyFilter(environment.filters)
    environment.compile_templates(compiled_templates(reports), extensions=["html"], zip=None, ignore_errors=False)


def write_remedies(target: Path) -> None:
    """Write the built-in remedy files as one module. Same sources, same bytes."""
    paths = sorted(CATALOGUE.glob("*/*.toml"))
    files = {path.relative_to(CATALOGUE).as_posix(): tomllib.loads(path.read_text("utf-8")) for path in paths}
    head = '"""The built-in remedy files, as they were when the package was built."""\n\nimport datetime\n\n'
    target.write_text(f"{head}FILES = {files!r}\n", encoding="utf-8")


def write_tables(package: Path) -> None:
    """Write each table of the package as JSON beside its TOML. Same sources, same bytes."""
    for path in package.rglob("*.toml"):
        if not {"catalogue", "samples"} & {*path.relative_to(package).parts}:
            table = json.dumps(tomllib.loads(path.read_text("utf-8")), ensure_ascii=False, separators=(",", ":"))
            path.with_name(f"{path.name}.json").write_text(table, encoding="utf-8")


class _AnyFilter(dict[str, Any]):
    """Knows every filter: what one does is asked when a template is rendered."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, str)


def description(readme: str, home: str) -> str:
    """The README for a page outside the checkout: links and pictures lead to the repository at ``home``."""
    pictures = re.sub(r"!\[([^\]]*)\]\((?!https?:)", rf"![\1]({home}/raw/main/", readme)
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)", rf"[\1]({home}/blob/main/", pictures)


if __name__ == "__main__":
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    setup(
        cmdclass={"build_py": BuildWithForms},
        long_description=description((ROOT / "README.md").read_text(encoding="utf-8"), urls["Homepage"]),
        long_description_content_type="text/markdown",
    )
