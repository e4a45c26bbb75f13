"""The commands that browse and check the catalogue of remedies."""

from __future__ import annotations

from pathlib import Path

import click

from nccldoctor.cli import terminal
from nccldoctor.cli.completion import completing, remedy_names


@click.group()
def catalogue() -> None:
    """Browse the remedies, and check those of your site."""


def _list(text: str) -> None:
    from nccldoctor.prescribe.catalogue.overlays import in_use
    from nccldoctor.reports.terminal.columns import Column, table_lines

    entries = in_use().catalogue.search(text)
    if not entries:
        click.echo(f"no remedy mentions {text}; nccldoctor catalogue list shows them all", err=True)
    rows = [(e.topic, e.remedy.id, e.remedy.title) for e in entries]
    columns = (Column("topic"), Column("id"), Column("title", least=20, yields=1))
    terminal.out("".join(f"{row}\n" for row in table_lines(columns, rows, terminal.width())[1:]))


@catalogue.command("list")
def list_() -> None:
    """List all remedies.

    \b
    Example:
      nccldoctor catalogue list
    """
    _list("")


@catalogue.command("search")
@click.argument("words", nargs=-1, required=True, metavar="TEXT...")
def search(words: tuple[str, ...]) -> None:
    """List the remedies that hold every word.

    Words are looked for in id, topic, title, summary and steps.

    \b
    Examples:
      nccldoctor catalogue search loader
      nccldoctor catalogue search rank 0 barrier
    """
    _list(" ".join(words))


@catalogue.command("show")
@click.argument("name", metavar="ID", shell_complete=completing(remedy_names))
def show(name: str) -> None:
    """Show one remedy in full.

    When it is offered, how to confirm it, what to do, and what not to do.

    \b
    Example:
      nccldoctor catalogue show dataloader-stall
    """
    from nccldoctor.cli.explain import remedy

    terminal.show_page(remedy(name))


@catalogue.command("lint")
@click.argument(
    "folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="[DIR]"
)
def lint(folder: Path | None) -> None:
    """Check the remedies in DIR (default: all).

    Prints every mistake with file and line. Ends with 2 if there is one.

    \b
    Examples:
      nccldoctor catalogue lint
      nccldoctor catalogue lint our-remedies/
    """
    from nccldoctor.prescribe.catalogue.load import BUILT_IN, BUILT_IN_NAME, Folder, collect
    from nccldoctor.prescribe.catalogue.overlays import in_use
    from nccldoctor.words.numbers import plural

    collected = in_use([folder] if folder is not None else [], configured=folder is None)
    mistakes = collected.mistakes
    if folder is None:  # an ordinary run trusts the built-in files; laid over themselves they are validated in full
        again = collect(Folder(BUILT_IN_NAME, BUILT_IN))
        mistakes = tuple(dict.fromkeys((*again.mistakes, *mistakes)))
    for mistake in mistakes:
        click.echo(mistake, err=True)
    if mistakes:
        told = plural(len(mistakes), "mistake")
        click.echo(f"error: {told}; nccldoctor catalogue schema shows the fields", err=True)
        click.get_current_context().exit(2)
    terminal.out(f"{len(collected.catalogue.entries)} remedies, no mistakes\n")


@catalogue.command("pages")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
def pages(folder: Path) -> None:
    """Write a Markdown page per remedy to DIR.

    DIR also gets an index.

    \b
    Example:
      nccldoctor catalogue pages site/remedies/
    """
    from nccldoctor.prescribe.catalogue.overlays import in_use
    from nccldoctor.prescribe.catalogue.pages import write_pages

    terminal.out(f"{write_pages(folder, in_use().catalogue)} pages are in {folder}\n")


@catalogue.command("schema")
def schema() -> None:
    """Print the JSON Schema of a remedy file.

    \b
    Example:
      nccldoctor catalogue schema > remedy.schema.json
    """
    from nccldoctor.prescribe.catalogue.schema import json_schema

    terminal.out(json_schema(), encoding="utf-8")
