"""What the code and other pages say, as Markdown: commands, classes, events, settings, remedies, public names, words, costs."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import click

import nccldoctor
from nccldoctor import dataframes, parsers
from nccldoctor.cli.app import cli
from nccldoctor.cli.explain import explanation
from nccldoctor.events import KINDS
from nccldoctor.history.comparison import ComparedRow
from nccldoctor.history.saved_report import Accused
from nccldoctor.incident import FRAMES
from nccldoctor.model import CauseClass, Place
from nccldoctor.model.findings import Link, Stalled
from nccldoctor.prescribe.catalogue.load import load_catalogue
from nccldoctor.prescribe.catalogue.pages import INDEX, pages
from nccldoctor.prescribe.setting_table import known

ARCHITECTURE = Path(__file__).resolve().parents[1] / "architecture.md"
PERFORMANCE = ARCHITECTURE.with_name("performance.md")


def commands() -> str:
    """The help of every command."""
    context = click.Context(cli, info_name="nccldoctor", terminal_width=79, **cli.context_settings)
    shown = (f"## {path}\n\n```text\n{text}\n```\n" for path, text in _helps(cli, context))
    return "\n".join(shown)


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _helps(child, click.Context(child, info_name=name, parent=context))


def _explained(names: Iterator[str]) -> str:
    """What ``nccldoctor explain`` prints for each name, one section each."""
    return "\n".join(re.sub(r"^#", "##", explanation(name), flags=re.MULTILINE) for name in names)


def classes() -> str:
    """Each class of cause: what it means, what speaks for it, and what else it could be."""
    return _explained(str(cause) for cause in CauseClass)


def events() -> str:
    """Each kind of event."""
    return _explained(name for name in sorted(KINDS) if name not in set(CauseClass))


def settings() -> str:
    """Each variable that the checks know."""
    return _explained(iter(sorted(known())))


def remedies() -> str:
    """The index of the remedies, topic by topic."""
    body = pages(load_catalogue())[INDEX].split("\n## ", 1)[1]
    return re.sub(r"\]\((?=[a-z])", "](remedies/", f"## {body}")


ORPHAN = "---\norphan: true\n---\n\n"
"""Before a page that no menu lists."""


def remedy_pages() -> dict[str, str]:
    """A page for each remedy, by its path below the index; no menu lists them."""
    own = pages(load_catalogue())
    return {name: ORPHAN + text for name, text in own.items() if name != INDEX}


def api() -> str:
    """The public names, functions first, documented by their docstrings."""
    lines = []
    public = {name: getattr(nccldoctor, name) for name in nccldoctor.__all__}
    for name in (name for name, value in public.items() if inspect.isfunction(value)):
        lines += [f".. autofunction:: nccldoctor.{name}", ""]
    for name in (name for name, value in public.items() if inspect.isclass(value)):
        lines += [f".. autoclass:: nccldoctor.{name}", "   :members:", ""]
    return "```{eval-rst}\n" + "\n".join(lines) + "```"


def frames() -> str:
    """The columns of each frame of an incident, by the docstring of the function that makes it."""
    shown = (f"### incident.{name}\n\n{inspect.getdoc(getattr(dataframes, name))}\n" for name in FRAMES)
    return "\n".join(shown).replace("``", "`")


VALUES = (Stalled, Link, Place, Accused, ComparedRow)
"""What the public values hold, and a reader of a verdict asks for next."""


def values() -> str:
    """The values that a finding, a report and a comparison hold, documented by their docstrings."""
    lines = [f".. autoclass:: {value.__module__}.{value.__name__}\n   :members:\n" for value in VALUES]
    return "```{eval-rst}\n" + "\n".join(lines) + "```"


def dump_costs() -> str:
    """What docs/performance.md holds of the benchmark that compares us with torchfrtrace."""
    section = PERFORMANCE.read_text(encoding="utf-8").split("\n### What do dumps with full rings cost?\n", 1)[1]
    return section.split("\n### ", 1)[0].split("\n## ", 1)[0].strip()


def words() -> str:
    """The table of words of docs/architecture.md."""
    section = ARCHITECTURE.read_text(encoding="utf-8").split("\n## Words\n", 1)[1].split("\n## ", 1)[0]
    return section.strip()


def meanings() -> str:
    """The messages of libraries that have a meaning of their own, with whose they are and what they weigh."""
    table = tomllib.loads((Path(parsers.__file__).parent / "roles.toml").read_text(encoding="utf-8"))
    told = sorted((row["what"], row["whose"], row["weight"]) for row in table["words"] if "what" in row)
    rows = (f"| `{what}` | {whose} | {weight} |" for what, whose, weight in told)
    return "\n".join(("| what | whose | weight |", "| --- | --- | --- |", *rows))


BUILT: dict[str, Callable[[], str]] = {
    "meanings": meanings,
    "api": api,
    "classes": classes,
    "commands": commands,
    "dumps": dump_costs,
    "events": events,
    "frames": frames,
    "remedies": remedies,
    "settings": settings,
    "values": values,
    "words": words,
}
"""What stands in a page of the site in place of ``<!-- built here: NAME -->`` and what is kept behind it."""

_PART = re.compile(
    r"^<!-- built here: ([a-z]+) -->$(?:(?:(?!^<!-- built here: ).)*?^<!-- up to here -->$)?", re.MULTILINE | re.DOTALL
)


def filled(page: str, parts: Callable[[str], str]) -> str:
    """A page in which each built part, what is kept of it included, is what ``parts`` gives for its name."""
    return _PART.sub(lambda found: parts(found[1]), page)
