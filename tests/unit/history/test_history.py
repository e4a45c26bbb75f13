"""The database, what it says returned, its page, and the commands."""

import json
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from examples.made_up_fleet import OFFENDER, write_fleet

from nccldoctor.cli.app import cli
from nccldoctor.history import returning
from nccldoctor.history.page import history_page
from nccldoctor.history.saved_report import SavedReport, from_document, load
from nccldoctor.history.store import History
from nccldoctor.model.errors import InputError, OutputError

NOW = datetime(2026, 11, 23, tzinfo=UTC)
HOSTS = [f"n{number}" for number in range(16)]


def incident(
    number: int,
    host: str = "n3",
    *,
    rank: int = 1,
    device: str | None = None,
    confidence: str = "high",
    site: str = "step (train.py)",
    headline: str = "Rank 1 is late.",
    group: str = "dp_0",
) -> dict[str, object]:
    function, _, file = site.partition(" ")
    return {
        "schema_version": "1.0",
        "verdict": {
            "class": "not-arrived",
            "family": "absent",
            "confidence": confidence,
            "headline": headline,
            "ranks": str(rank),
            "stalled": {"group": group, "since": (NOW - timedelta(days=number)).isoformat()},
        },
        "job": {"world_size": 128, "hosts": HOSTS},
        "input": {"files": number, "bytes": number},
        "ranks": [{"ranks": str(rank), "hosts": [host], "device": device}],
        "stacks": [{"rank": rank, "frames": [{"function": function, "file": file.strip("()"), "own": True}]}],
    }


def reports(*made: dict[str, object]) -> list[SavedReport]:
    return [from_document(json.loads(json.dumps(one)), f"r{number}.json") for number, one in enumerate(made)]


def kept(tmp_path: Path, *made: dict[str, object]) -> History:
    history = History(tmp_path / "deep" / "h.db")
    history.remember(reports(*made), NOW)
    return history


def test_incidents_come_back_as_they_were_the_oldest_first(tmp_path: Path) -> None:
    history = kept(tmp_path, incident(1), incident(5, "n4", device="0000:18:00"))

    oldest, newest = history.incidents()

    assert [one.accused[0].host for one in (oldest, newest)] == ["n4", "n3"]
    assert oldest.accused[0].device == "0000:18:00"
    assert oldest.time == NOW - timedelta(days=5)
    assert oldest.hosts == frozenset(HOSTS)
    assert str(newest.fingerprint) == "not-arrived · step (train.py) · dp"
    assert history.incidents(NOW - timedelta(days=2)) == [newest]


def test_the_same_incident_is_kept_once_and_the_last_report_counts(tmp_path: Path) -> None:
    history = kept(tmp_path, incident(1))

    assert history.remember(reports(incident(1, headline="Better."), incident(2)), NOW) == 1
    assert sorted(one.headline for one in history.incidents()) == ["Better.", "Rank 1 is late."]


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be read as one" * 20, None])
def test_what_is_no_history_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "h.db"
    if content is None:
        with sqlite3.connect(path) as database:
            database.execute("pragma user_version = 99")
        database.close()
    else:
        path.write_bytes(content)

    with pytest.raises(OutputError, match="no history that can be used"):
        History(path).incidents()


def test_a_host_that_returns_with_different_ranks_stands_out(tmp_path: Path) -> None:
    made = [incident(n, "n3", rank=n) for n in range(6)] + [incident(10 + n, f"n{n}", rank=n) for n in range(6, 12)]

    found = returning.returning_hosts(kept(tmp_path, *made).incidents())

    assert [one.name for one in found if one.is_beyond_chance] == ["n3"]


def test_a_host_that_always_holds_the_same_rank_is_not_named(tmp_path: Path) -> None:
    """Rank 0 samples on the host that always holds it: program or host, these incidents cannot tell."""
    (first, *_) = returning.returning_hosts(kept(tmp_path, *(incident(n, "n3", rank=0) for n in range(6))).incidents())

    assert (first.name, first.always, first.is_beyond_chance) == ("n3", "rank 0", False)
    assert first.chance < 0.05


def test_a_verdict_of_low_confidence_accuses_nobody(tmp_path: Path) -> None:
    made = [incident(n, "n3", rank=n, confidence="low") for n in range(6)]

    assert returning.returning_hosts(kept(tmp_path, *made).incidents()) == ()


def test_one_device_of_a_host_stands_out_from_its_neighbours(tmp_path: Path) -> None:
    bad = [incident(n, "n3", rank=n, device="0000:18:00") for n in range(6)]
    mixed = [incident(20 + n, "n5", rank=n, device=f"0000:{n}8:00") for n in range(6)]

    found = returning.returning_devices(kept(tmp_path, *bad, *mixed).incidents())

    assert [one.name for one in found if one.is_beyond_chance] == ["n3 0000:18:00"]
    assert {one.expected for one in found} == {6 / 8}, "128 ranks on 16 hosts: 8 devices each"


def test_defects_are_counted_by_their_fingerprint(tmp_path: Path) -> None:
    made = [incident(n) for n in range(3)] + [incident(9, site="load (data.py)")]

    first, second = returning.returning_defects(kept(tmp_path, *made).incidents())

    assert (first.count, first.fingerprint.site) == (3, "step (train.py)")
    assert (first.first, first.last) == (NOW - timedelta(days=2), NOW)
    assert second.count == 1


def test_incidents_of_one_site_are_one_defect_where_only_some_name_the_group(tmp_path: Path) -> None:
    made = [
        incident(1, group=""),
        incident(2, group="tp_1"),
        incident(3, group="tp_2"),
        incident(4, site="load (data.py)"),
    ]

    found = returning.returning_defects(kept(tmp_path, *made).incidents())

    assert sorted((one.fingerprint.group_role, one.count) for one in found) == [("dp", 1), ("tp", 3)]


def test_an_outcome_decides_what_counts(tmp_path: Path) -> None:
    history = kept(tmp_path, *(incident(n, "n3", rank=n, confidence="low" if n == 1 else "high") for n in range(3)))
    by_report = {one.report: one.id for one in history.incidents()}

    history.note_outcome(by_report["r0.json"][:8], "wrong")
    history.note_outcome(by_report["r1.json"], "confirmed")
    history.note_outcome(by_report["r2.json"], "forgotten")
    left = history.incidents()

    assert {one.report: one.outcome for one in left} == {"r0.json": "wrong", "r1.json": "confirmed"}
    assert [one.report for one in returning.accusations(left)] == ["r1.json"], "at low confidence, but confirmed"
    assert [mark.count for mark in returning.returning_defects(left)] == [1]
    history.remember(reports(incident(0, "n3", rank=0, headline="Again.")), NOW)
    assert {one.headline: one.outcome for one in history.incidents()}["Again."] == "wrong", "a later report keeps it"
    for start in ("", "no-such-id"):
        with pytest.raises(InputError, match="an id that begins with"):
            history.note_outcome(start, "wrong")


def test_outcomes_are_given_and_shown_by_the_commands(tmp_path: Path) -> None:
    db, path = ("--db", tmp_path / "h.db"), tmp_path / "r.json"
    path.write_text(json.dumps(incident(1)))
    run("add", path, *db)
    (listed,) = json.loads(run("list", "--format", "json", *db).stdout)

    assert "confirmed" in run("confirm", listed["id"][:8], *db).stderr
    assert "confirmed" in run("list", *db).stdout
    assert [one["name"] for one in json.loads(run("hosts", "--format", "json", *db).stdout)] == ["n3"]
    assert run("forget", listed["id"], *db).exit_code == 0
    assert "holds no incident" in run("list", *db).stderr


def test_marks_of_one_time_are_drawn_once_with_their_number(tmp_path: Path) -> None:
    made = [incident(n, "n3", rank=n) for n in (0, 0, 0, 40)]
    for number, one in enumerate(made):
        one["input"] = {"files": number, "bytes": number}

    text = history_page(kept(tmp_path, *made).incidents())

    assert text.count("<circle") == 2
    assert text.count(">\u00d73</text>") == 1
    assert "url(#" not in text.partition("<svg")[2], "the page has no patterns"


def test_the_page_escapes_what_reports_say_and_loads_nothing(tmp_path: Path) -> None:
    made = [incident(n, "<b>n3", rank=n, headline="<script>alert(1)</script>") for n in range(6)]

    text = history_page(kept(tmp_path, *made).incidents())

    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "&lt;b&gt;n3 fails more often than by chance" in text
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)=\"(?!#)", text)
    assert text.count("<circle") == 6


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["history", *map(str, words)], env={"COLUMNS": "120"})


def test_the_commands_add_list_and_name(tmp_path: Path) -> None:
    files = []
    for number in range(6):
        files.append(tmp_path / f"r{number}.json")
        files[-1].write_text(json.dumps(incident(number, rank=number)))
    (tmp_path / "x.json").write_text("{}")
    db = ("--db", tmp_path / "h.db")

    added = run("add", *files, tmp_path / "x.json", *db)
    hosts = run("hosts", *db)
    listed = run("list", "--since", "2000-01-01", *db)
    paged = run("page", "-o", tmp_path / "h.html", *db)

    assert added.exit_code == 0
    assert "6 new incidents, 0 known before, 1 files skipped" in added.stderr
    assert "x.json" in added.stderr
    assert hosts.exit_code == 1, "a host stands out"
    assert re.search(r"^\* +n3 +6 +6 +0\.38", hosts.stdout, re.MULTILINE)
    assert "\n* more often at fault than by chance: drain it" in hosts.stdout
    assert "128 ranks on 16 hosts" in listed.stdout
    assert "seen  defect\n   6  not-arrived · step (train.py) · dp" in listed.stdout
    assert paged.exit_code == 0
    assert (tmp_path / "h.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hosts",), "there is no history"),
        (("list", "--since", "soon"), "neither a span"),
        (("page", "-o", "h.txt"), "cannot tell the format"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    failed = run(*words, "--db", tmp_path / "none.db")

    assert failed.exit_code == 2
    assert said in failed.stderr
    assert not (tmp_path / "none.db").exists()


def test_diff_says_the_same_another_or_not_enough_to_tell(tmp_path: Path) -> None:
    made_by_name = {
        "a": incident(1),
        "b": incident(2, "n9"),
        "c": incident(3, site="load (data.py)"),
        "d": incident(4) | {"stacks": []},
    }
    for name, made in made_by_name.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(made))

    def diff(left: str, right: str) -> Result:
        return CliRunner().invoke(cli, ["diff", str(tmp_path / left), str(tmp_path / right)])

    assert (diff("a.json", "b.json").exit_code, diff("a.json", "c.json").exit_code) == (0, 1)
    assert "- hosts at fault       n3\n+ hosts at fault       n9\n" in diff("a.json", "b.json").stdout
    assert diff("a.json", "b.json").stdout.startswith("Same defect: not-arrived in step (train.py).\n")
    assert diff("a.json", "c.json").stdout.startswith(
        "Different defects: another line of the program. At fault in both: n3."
    )
    assert diff("a.json", "d.json").exit_code == diff("d.json", "d.json").exit_code == 3
    assert diff("d.json", "d.json").stdout.startswith(
        "Not enough to tell if it is the same defect: no call site in both"
    )


def test_the_made_up_fleet_has_one_host_that_returns_and_no_old_name(tmp_path: Path) -> None:
    past = tmp_path / "past"
    write_fleet(past)
    documents = sorted(past.glob("*.json"))
    read = [load(path) for path in documents]
    added = CliRunner().invoke(cli, ["history", "add", *map(str, documents), "--db", str(tmp_path / "h.db")])
    shown = CliRunner().invoke(cli, ["history", "hosts", "--db", str(tmp_path / "h.db")])
    marked = [line for line in shown.stdout.splitlines() if line.startswith("*  ")]

    assert added.exit_code == 0 and shown.exit_code == 1
    assert [line.split()[1] for line in marked] == [OFFENDER]
    assert marked[0].rstrip() in (Path(__file__).parents[3] / "docs" / "history.md").read_text(encoding="utf-8")
    assert all(host.startswith("gpu-") for report in read for host in report.hosts)
    with pytest.raises(SystemExit, match="not empty"):
        write_fleet(past)


def test_the_file_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tracks.db"
    with sqlite3.connect(path) as other:
        other.execute("create table tracks (name text)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(OutputError, match="another program"):
        History(path).incidents()
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [10**30, -4, 0, True, "8", None])
def test_an_impossible_number_of_ranks_is_unknown(tmp_path: Path, size: object) -> None:
    made = incident(1)
    made["job"] = {"world_size": size, "hosts": HOSTS}
    assert [one.world_size for one in kept(tmp_path, made).incidents()] == [None]
