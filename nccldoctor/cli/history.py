"""The commands that remember incidents and compare them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nccldoctor.cli import terminal
from nccldoctor.cli.options import format_option
from nccldoctor.words.sanitize import line

if TYPE_CHECKING:
    from nccldoctor.history.store import History, PastIncident

_ID = 8
"""Letters of an id that are shown; so many tell incidents apart."""
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def _default_file() -> Path:
    """``history.db`` in the folder that the system keeps for a user's data."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path("~/.local/share").expanduser())
    return Path(base, "nccldoctor", "history.db")


def _since(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    """``30d``, ``12h``, ``4w`` or a day, as a time."""
    if value is None:
        return None
    count, unit = value[:-1], value[-1:]
    if count.isdecimal() and len(count) < 6 and unit in _UNITS:
        return datetime.now(UTC) - int(count) * _UNITS[unit]
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a span such as 30d nor a day such as 2026-11-01") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_db = click.option("--db", type=click.Path(dir_okay=False, path_type=Path), help="The database (default: your own).")
_from = click.option("--since", callback=_since, metavar="30d|DAY", help="Leave older incidents out.")


@click.group()
def history() -> None:
    """Remember incidents, and say what returns more often than by chance.

    \b
    Examples:
      nccldoctor history add report.html
      nccldoctor history hosts --since 30d
      nccldoctor history confirm 3fa9c1
    """


@history.command("add")
@click.argument("reports", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="REPORT...")
@_db
def add_reports(reports: tuple[Path, ...], db: Path | None) -> None:
    """Add reports: .json, .html or .zip that analyze wrote.

    A later report about the same files replaces the earlier one. A file that is no
    report is named and costs only itself.

    \b
    Examples:
      nccldoctor history add report.json
      nccldoctor history add tickets/*.html
    """
    from nccldoctor.history.saved_report import load
    from nccldoctor.history.store import History
    from nccldoctor.model.errors import InputError

    read, failed = [], 0
    for path in reports:
        try:
            read.append(load(path))
        except InputError as error:
            failed += 1
            click.echo(f"warning: {error.message}", err=True)
    if not read:
        raise InputError("no report could be read", "give report.json, report.html or report.zip of nccldoctor analyze")
    new = History(db or _default_file()).remember(read, datetime.now(UTC))
    skipped = f", {failed} files skipped" if failed else ""
    click.echo(f"{new} new incidents, {len(read) - new} known before{skipped}", err=True)


def _store(db: Path | None) -> History:
    from nccldoctor.history.store import History
    from nccldoctor.model.errors import InputError

    path = db or _default_file()
    if not path.exists():
        raise InputError(f"there is no history at {path}", "add reports first: nccldoctor history add report.json")
    return History(path)


def _incidents(db: Path | None, since: datetime | None) -> list[PastIncident]:
    from nccldoctor.model.errors import InputError

    found = _store(db).incidents(since)
    if not found:
        raise InputError("the history holds no incident of that time", "leave --since out, or add reports")
    return found


def _outcome_command(word: str, outcome: str, about: str) -> None:
    """Add ``history WORD ID...``, which notes an outcome of incidents."""

    @history.command(word, help=f"{about}\n\n\b\nExample:\n  nccldoctor history {word} a259b433")
    @click.argument("ids", nargs=-1, required=True, metavar="ID...")
    @_db
    def note(ids: tuple[str, ...], db: Path | None) -> None:
        store = _store(db)
        for found in (store.note_outcome(start, outcome) for start in ids):
            click.echo(f"{outcome}: {found.id[:_ID]}  {line(found.headline, 200)}", err=True)


_outcome_command("confirm", "confirmed", "Say that a verdict was right: it counts at any confidence.")
_outcome_command("wrong", "wrong", "Say that a verdict was wrong: it accuses no host, and counts for no defect.")
_outcome_command("forget", "forgotten", "Delete incidents from the history.")


@history.command("hosts")
@_db
@_from
@format_option("text", "json")
def show_hosts(db: Path | None, since: datetime | None, form: str) -> None:
    """Show which hosts and devices are at fault beyond chance.

    BY CHANCE is how often a host would be at fault if each of a job's hosts were alike.
    PROBABILITY is that of chance alone giving any host so many; at most 0.05 is marked.
    Exit code 1 where a host or device is marked, else 0.

    \b
    Examples:
      nccldoctor history hosts
      nccldoctor history hosts --since 30d
    """
    from msgspec.structs import asdict

    from nccldoctor.history import returning
    from nccldoctor.history.page import HEADS, cells, notable
    from nccldoctor.reports.terminal.columns import Column, table_lines

    incidents = _incidents(db, since)
    found = [*notable(returning.returning_hosts(incidents)), *notable(returning.returning_devices(incidents))]
    marked = [one.name for one in found if one.is_beyond_chance]
    if form == "json":
        _print_json([{**asdict(one), "is_beyond_chance": one.is_beyond_chance} for one in found])
    else:
        rows = [("*" if one.is_beyond_chance else "", *cells(one)) for one in found]
        numbers = (Column(head.lower(), is_number=True) for head in HEADS[:-1])
        columns = (Column(""), Column("host or device"), *numbers, Column(HEADS[-1].lower(), least=12, yields=1))
        sure = len(returning.accusations(incidents))
        about = f"{len(incidents)} incidents, {sure} name a host with at least medium confidence\n"
        told = "none is at fault more often than by chance"
        if marked:
            told = "* more often at fault than by chance: drain it, and test it before it comes back (dcgmi diag -r 3)"
        table = "".join(f"{row}\n" for row in table_lines(columns, rows, terminal.width()))
        terminal.out(f"{about}{table}{told}\n")
    click.get_current_context().exit(int(bool(marked)))


def _print_json(value: object) -> None:
    import msgspec

    terminal.out(msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2).decode() + "\n")


@history.command("list")
@_db
@_from
@format_option("text", "json")
def list_(db: Path | None, since: datetime | None, form: str) -> None:
    """List the incidents, the newest first, and the defects seen more than once.

    \b
    Example:
      nccldoctor history list --since 2026-11-01
    """
    from nccldoctor.history import returning
    from nccldoctor.history.page import day
    from nccldoctor.reports.terminal.columns import Column, table_lines

    incidents = _incidents(db, since)[::-1]
    if form == "json":
        _print_json(incidents)
        return
    rows = [
        (one.id[:_ID], day(one.time), one.told_size, one.confidence, one.outcome, line(one.headline, 200), one.report)
        for one in incidents
    ]
    plain = (Column("id"), Column("day"), Column("job"), Column("confidence"), Column("outcome"))
    lines = table_lines(
        (*plain, Column("verdict", least=20, yields=2), Column("report", least=12, yields=1)), rows, terminal.width()
    )
    again = [
        (str(mark.count), line(str(mark.fingerprint), 200))
        for mark in returning.returning_defects(incidents[::-1])
        if mark.count > 1
    ]
    seen = table_lines((Column("seen", is_number=True), Column("defect", least=30, yields=1)), again, terminal.width())
    terminal.out("".join(f"{text}\n" for text in [*lines, *([""] if seen else []), *seen]))


@history.command("page")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The page: FILE.html.")
@click.option("--force", is_flag=True, help="Replace the file named by -o.")
@_db
@_from
def write_page(output: Path, force: bool, db: Path | None, since: datetime | None) -> None:
    """Write the history as one HTML page.

    \b
    Example:
      nccldoctor history page -o history.html --since 90d
    """
    from nccldoctor.cli import report_file
    from nccldoctor.history import page as pages

    report_file.check_target(output, force, (".html",))
    text = pages.history_page(_incidents(db, since))
    with report_file.replacing(output, force=force) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    click.echo(f"wrote {output} ({max(1, output.stat().st_size // 1000):,} kB)", err=True)


@click.command()
@click.argument("left", type=click.Path(path_type=Path), metavar="A")
@click.argument("right", type=click.Path(path_type=Path), metavar="B")
def diff(left: Path, right: Path) -> None:
    """Compare two reports: is it the same defect, on the same hosts?

    A and B are .json, .html or .zip files that analyze wrote. Exit code 0 where it is
    the same defect, 1 where it is another, 3 where the reports do not tell enough.

    \b
    Example:
      nccldoctor diff monday.html today.html
    """
    from nccldoctor.history.comparison import compare
    from nccldoctor.history.saved_report import load

    found = compare(load(left), load(right))
    terminal.out(f"{found}\n")
    click.get_current_context().exit({True: 0, False: 1, None: 3}[found.is_same_defect])
