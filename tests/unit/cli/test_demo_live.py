"""``nccldoctor demo --live`` with a job that is played: what it prints, refuses and opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from nccldoctor.cli import demo as bundled
from nccldoctor.cli.app import cli
from nccldoctor.cli.live import rehearsing
from nccldoctor.rehearsal.faults import FAULTS, Fault


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a bundled incident stand for those of a job that has ended."""

    @contextmanager
    def job(fault: Fault, folder: Path) -> Iterator[SimpleNamespace]:
        bundled.write("not-arrived", folder)
        yield SimpleNamespace(folder=folder, pids=(), is_shown_within=lambda fault, seconds: True)

    monkeypatch.setattr(rehearsing, "rehearsed", job)
    monkeypatch.setattr(rehearsing, "has_torch", lambda: True)


def demo(*options: str) -> Result:
    return CliRunner().invoke(cli, ["demo", "--live", *options])


def test_all_faults_are_listed() -> None:
    rows = demo("list").stdout.splitlines()
    assert [row.split()[0] for row in rows] == [fault.name for fault in FAULTS]


def test_a_job_is_analysed_and_its_report_written(tmp_path: Path) -> None:
    for _ in range(2):
        done = demo("late-loader", "--no-open", "--to", str(tmp_path / "job"))
        assert done.exit_code in (1, 2), done.output
    assert "is not empty" in done.output
    assert (tmp_path / "job.html").exists()


def test_an_unknown_fault_is_named(tmp_path: Path) -> None:
    done = demo("gremlins", "--to", str(tmp_path / "job"))
    assert done.exit_code == 2
    assert "no live fault is called 'gremlins'" in done.output


def test_a_machine_without_torch_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsing, "has_torch", lambda: False)
    done = demo("deadlock", "--to", str(tmp_path / "job"))
    assert done.exit_code == 2
    assert 'pip install "nccldoctor[torch]"' in done.output
    assert not (tmp_path / "job").exists()
