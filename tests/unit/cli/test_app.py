"""The command: exit codes, what goes where, and files it writes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import nccldoctor
from nccldoctor import pipeline
from nccldoctor.cli import demo, exit_codes
from nccldoctor.cli.app import cli
from nccldoctor.events import KINDS
from nccldoctor.model import CauseClass, Diagnosis, Source, SourceKind


def run(*args: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args], input=stdin, prog_name="nccldoctor")


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hung") / "logs"
    demo.write("late-rank-three-groups", folder)
    return folder


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy") / "logs"
    demo.write("healthy", folder)
    return folder


def test_diagnosed_is_one_and_json_is_the_library_s(hung: Path) -> None:
    result = run("analyze", hung, "--format", "json")
    assert result.exit_code == 1
    assert result.stdout_bytes == nccldoctor.analyze(hung).to_json().encode()
    assert json.loads(result.stdout)["verdict"]["ranks"] == "1"


def test_healthy_is_zero(healthy: Path) -> None:
    assert run("analyze", healthy).exit_code == 0


def test_exit_zero(hung: Path) -> None:
    assert run("analyze", hung, "--exit-zero").exit_code == 0


def test_two_runs_write_the_same_bytes(hung: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccldoctor.ingest.ingest.WORTH_A_THREAD", 1)
    one, two = (run("analyze", hung, "-o", tmp_path / f"{n}.zip", "--workers", n) for n in (1, 2))
    assert one.stdout_bytes == two.stdout_bytes
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


@pytest.mark.parametrize("form", ["text", "json", "md", "jira"])
def test_nothing_readable_is_two_with_a_clear_word(form: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "missing", tmp_path / "empty"):
        result = run("analyze", path, "--format", form)
        assert result.exit_code == 2
        assert path.name in result.stderr
        assert "Traceback" not in result.stderr
        if form == "json":
            document = json.loads(result.stdout)
            assert document["verdict"]["class"] == "undetermined"
            assert document["verdict"]["evidence"]


def test_unreadable_file_alone_is_two(tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(bytes(range(256)) * 64)
    result = run("analyze", tmp_path, "--format", "json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["verdict"]["class"] == "undetermined"


def test_what_cannot_be_read_costs_itself_alone(hung: Path, tmp_path: Path) -> None:
    shutil.copytree(hung, tmp_path / "logs")
    (tmp_path / "logs" / "core.1234").write_bytes(bytes(range(256)) * 64)
    (tmp_path / "logs" / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "logs" / "fr_trace_9").write_bytes((hung / "dumps" / "fr_trace_1").read_bytes()[:700])
    (tmp_path / "logs" / "evil").write_bytes(b"cos\nsystem\n(S'echo hacked > %s'\ntR." % bytes(tmp_path / "hacked"))
    result = run("analyze", tmp_path / "logs", "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["verdict"]["class"] == "not-arrived"
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    "words", [[], ["analyze"], ["analyze", ".", "--format", "xml"], ["nothing"], ["analyze", ".", "--workers", "0"]]
)
def test_usage_error_is_two_without_a_document(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    if words:
        assert result.stdout == ""


@pytest.mark.parametrize("suffix", [".html", ".json", ".md", ".zip"])
def test_report_by_suffix(hung: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"report{suffix}"
    result = run("analyze", hung, "-o", target)
    assert result.exit_code == 1
    assert str(target) in result.stderr
    content = target.read_bytes()
    if suffix == ".json":
        assert content == run("analyze", hung, "--format", "json").stdout_bytes
    elif suffix == ".zip":
        with zipfile.ZipFile(target) as archive:
            assert archive.namelist() == ["report.html", "report.json", "report.md"]
            assert archive.read("report.json") == run("analyze", hung, "--format", "json").stdout_bytes
            assert archive.read("report.html").startswith(b"<!DOCTYPE html>")
            assert b"not-arrived" in archive.read("report.html") and b"not-arrived" in archive.read("report.md")
    else:
        assert b"not-arrived" in content
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_existing_report_is_kept_without_force(hung: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("mine")
    refused = run("analyze", hung, "-o", target)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert target.read_text() == "mine"
    assert run("analyze", hung, "-o", target, "--force").exit_code == 1
    assert target.read_text() != "mine"


@pytest.mark.parametrize("name", ["report.xyz", "report", "missing/report.html", "a_file/report.html", "a_folder.html"])
def test_bad_places_are_refused_before_the_work(hung: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "a_file").write_text("")
    (tmp_path / "a_folder.html").mkdir()
    result = run("analyze", hung, "-o", tmp_path / name, "--force")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stdout == ""


def test_a_report_that_cannot_be_written_costs_the_report_alone(
    hung: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    result = run("analyze", hung, "-o", tmp_path / "report.html")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert "rank 1" in result.stdout.lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["github", "jira", "slack", "md"])
def test_a_ticket_goes_to_stdout_in_the_markup_asked_for(hung: Path, form: str) -> None:
    printed = run("analyze", hung, "--format", form).stdout
    assert printed == nccldoctor.analyze(hung).to_ticket(form)
    assert {"jira": "h3. ", "slack": "*"}.get(form, "### ") == printed[: printed.index("Rank 1")]


def test_quiet_is_one_line_and_verbose_has_places(hung: Path) -> None:
    quiet = run("analyze", hung, "--quiet").stdout
    assert quiet.count("\n") == 1
    assert "not-arrived" in quiet
    assert ".log:" in run("analyze", hung, "--verbose").stdout


def test_colours_on_wish_alone(hung: Path) -> None:
    assert "\x1b[" not in run("analyze", hung).stdout
    assert "\x1b[" in run("analyze", hung, "--color", "always").stdout


def test_reads_stdin(hung: Path) -> None:
    log = (hung / "node0" / "rank_0.log").read_bytes()
    result = run("analyze", "-", "--format", "json", stdin=log)
    assert result.exit_code in (1, 3)
    assert json.loads(result.stdout)["verdict"]["evidence"]


def test_reader_that_goes_away_is_no_error(hung: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        command = [sys.executable, "-m", "nccldoctor", "analyze", str(hung), "--format", "json"]
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1
    assert "error" not in done.stderr.lower()  # a slow machine may show its progress there
    assert "Traceback" not in done.stderr


def test_own_mistakes_are_told_apart(hung: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(pipeline, "analyze", broken)
    result = run("analyze", hung, "--format", "json")
    assert result.exit_code == 70
    assert json.loads(result.stdout)["verdict"]["class"] == "undetermined"
    assert "a bug" in result.stderr


def test_interrupt(hung: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "analyze", interrupted)
    result = run("analyze", hung)
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr


def test_inspect_prints_what_each_rank_did(hung: Path) -> None:
    text = run("inspect", hung, "--tracks").stdout
    rows = json.loads(run("inspect", hung, "--tracks", "--format", "json").stdout)["tracks"]
    waits = [row for row in rows if row["doing"] == "in call"]
    assert waits, rows
    assert all(row["what"] in text and row["where"] for row in waits), text
    of_rank = [row["latest"] for row in rows if row["rank"] == waits[0]["rank"] and row["latest"]]
    assert of_rank == sorted(of_rank), "a track is in the order of its times"


def test_inspect(hung: Path) -> None:
    document = json.loads(run("inspect", hung, "--format", "json").stdout)
    assert document["schema_version"] == "1.0"
    assert {source["path"] for source in document["sources"]} == set(demo.contents("late-rank-three-groups"))
    assert {"exception", "process-exit", "recorder-dump"} <= {event["kind"] for event in document["events"]}
    assert "rank_1.log" in run("inspect", hung).stdout


def test_rank_from(hung: Path, tmp_path: Path) -> None:
    (tmp_path / "worker-5-a.txt").write_text("2026-01-01 10:00:00,000 INFO train: step=4 loss=1.0\n")
    document = json.loads(run("inspect", tmp_path, "--format", "json", "--rank-from", r"worker-(?P<rank>\d+)").stdout)
    assert document["sources"][0]["rank"] == 5
    for bad in ("worker-(", "no group"):
        result = run("inspect", tmp_path, "--rank-from", bad)
        assert result.exit_code == 2
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", [*CauseClass, *KINDS, "NCCL_TIMEOUT", "dataloader-stall"])
def test_explain(name: str) -> None:
    result = run("explain", name)
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) >= 3
    assert name in result.stdout


def test_explain_takes_several_words_and_negative_numbers() -> None:
    assert run("explain", "xid", "79").stdout.startswith("Xid 79\n")
    assert run("explain", "-11").stdout.startswith("SIGSEGV\n")
    assert run("explain").exit_code == 2


@pytest.mark.parametrize("name", ["frozen", "dataloader-stall", "NCCL_TIMEOUT"])
def test_explain_is_plain_in_a_pipe_and_rendered_in_colour(name: str) -> None:
    plain = run("explain", name).stdout
    assert not re.search(r"^#|`|\*\*|<https|\\<", plain, re.MULTILINE)
    coloured = (
        CliRunner(env={"FORCE_COLOR": "1", "NO_COLOR": "", "COLUMNS": "80"}).invoke(cli, ["explain", name]).stdout
    )
    assert "\x1b[" in coloured
    assert "`" not in coloured
    assert all(len(re.sub("\x1b\\[[0-9;]*m", "", row)) <= 80 for row in coloured.splitlines())


def test_a_remedy_shows_its_conditions_in_words() -> None:
    remedy = run("catalogue", "show", "dataloader-stall").stdout
    assert "All of:" in remedy and "One of:" in remedy
    assert "A stack of the rank at fault shows _try_get_data" in remedy
    assert "stack-frame" not in remedy


@pytest.mark.parametrize(("wrong", "meant"), [("NCCL_TIMOUT", "NCCL_TIMEOUT"), ("Frozn", "frozen")])
def test_explain_suggests_what_is_spelled_or_named_like_it(wrong: str, meant: str) -> None:
    assert meant in run("explain", wrong).stderr


def test_explain_of_nothing_suggests_no_stranger() -> None:
    told = run("explain", "nosuchthing").stderr
    assert "did you mean" not in told
    assert "give a whole line of a log" in told


def test_no_help_text_is_cut() -> None:
    listed = run("catalogue", "--help").stdout.partition("Commands:")[2]
    assert listed and "..." not in listed


def test_catalogue() -> None:
    assert "dataloader-stall" in run("catalogue", "list").stdout
    found = run("catalogue", "search", "checkpoint").stdout
    assert "checkpoint-save-slow" in found
    assert "gpu-ecc" not in found
    assert "Confirm" in run("catalogue", "show", "checkpoint-save-slow").stdout
    assert run("catalogue", "show", "not-arrived").exit_code == 2


def test_demo_lists_and_writes(tmp_path: Path) -> None:
    listing = run("demo", "--list").stdout
    assert len(listing.splitlines()) == len(demo.samples()) >= 11
    folder = tmp_path / "it"
    result = run("demo", "--to", folder)
    assert result.exit_code == 1
    assert (tmp_path / "it.html").is_file()
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == set(
        demo.contents(demo.DEFAULT)
    )
    again = run("demo", "--to", folder)
    assert again.exit_code == 1, "the same files and the report of an earlier run may lie there already"
    assert again.stdout == result.stdout
    (tmp_path / "it.html").write_text("a letter")
    assert run("demo", "--to", folder).exit_code == 2, "what somebody else wrote is not replaced unasked"
    assert (tmp_path / "it.html").read_text() == "a letter"
    assert run("demo", "--to", folder, "--force").exit_code == 1
    assert run("demo", "healthy", "--to", folder, "--force").exit_code == 2
    assert run("demo", "nothing").exit_code == 2


def test_the_command_that_demo_prints_can_be_typed_again(tmp_path: Path) -> None:
    said = run("demo", "died", "--to", tmp_path / "one job").stderr
    (again,) = re.findall(r"the same as: nccldoctor (.*)", said)

    assert run(*shlex.split(again)).exit_code == 1


def test_demo_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "node0").mkdir()
    (tmp_path / "node0" / "rank_1.log").write_text("mine")
    result = run("demo", "--to", tmp_path)
    assert result.exit_code == 2
    assert (tmp_path / "node0" / "rank_1.log").read_text() == "mine"


@pytest.mark.parametrize(
    ("kind", "code"), [(SourceKind.LOG, 3), (SourceKind.RECORDER, 3), (SourceKind.UNREADABLE, 2), (SourceKind.EMPTY, 2)]
)
def test_undetermined_depends_on_what_was_read(kind: SourceKind, code: int) -> None:
    from msgspec.structs import replace

    diagnosis: Diagnosis = replace(exit_codes.failed("nothing"), sources=(Source(0, "a", kind, 1),))
    finding = diagnosis.findings[0]
    quoted = replace(finding, evidence=(replace(finding.evidence[0], quote="NCCL WARN"),))
    assert exit_codes.exit_code(replace(diagnosis, findings=(quoted,))) == code


def test_text_that_tells_of_no_job_is_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Anna,\n\nplease bring the list and the cake.\n" * 9)
    result = run("analyze", tmp_path)
    assert result.exit_code == 2
    assert "letter.txt" in result.stderr or str(tmp_path) in result.stderr
    assert "hint:" in result.stderr


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


@pytest.mark.parametrize("path", [(), *commands(cli)], ids=" ".join)
def test_examples_in_help_keep_their_lines(path: tuple[str, ...]) -> None:
    excerpt = run(*path, "--help").stdout.splitlines()
    assert not any("\b" in line or "\\b" in line for line in excerpt)
    heads = [n for n, line in enumerate(excerpt) if line.strip() in ("Example:", "Examples:")]
    assert all(excerpt[n + 1].startswith("    ") for n in heads)
    assert heads or path in ((), ("catalogue",))


def test_a_search_that_finds_nothing_says_so() -> None:
    result = run("catalogue", "search", "zeppelin")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no remedy mentions zeppelin" in result.stderr
