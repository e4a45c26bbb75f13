"""How templates are written, and where they are found: compiled when the package was built, else as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nccldoctor.words import sanitize

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def bare_environment(compiled: Path | None = None) -> Environment:
    """The environment without filters, which is all that compiling needs.

    Templates come from the folder ``compiled`` where they are there.

    Everything is escaped, unseen characters are spelled out, a misspelled name is an error.
    """
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, ModuleLoader, StrictUndefined

    sources = FileSystemLoader(TEMPLATES)
    return Environment(
        loader=sources if compiled is None else ChoiceLoader([ModuleLoader(compiled), sources]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=sanitize.spelled_out,
        optimized=False,  # a run renders each template once: folding its constants would cost more than it saves
    )


def compiled_templates(reports: Path) -> Path:
    """The folder of compiled templates below that of the reports: code for one version of jinja2 serves no other."""
    import jinja2

    return reports / "compiled" / getattr(jinja2, "__version__", "unknown")
