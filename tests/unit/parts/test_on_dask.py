"""A dask cluster reads the files and changes nothing of what is said."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.diagnoses.bundled import FOLDER, incident

from nccldoctor import pipeline
from nccldoctor.model.errors import InputError

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler with two workers, as threads of this process."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.parametrize("name", ["died", "missed-call", "network", "two-rank-loader", "ras-queries"])
def test_a_cluster_says_the_same(name: str, address: str) -> None:
    whole = incident(name)
    found = pipeline.analyze(FOLDER / name, scheduler=address)

    assert found.to_json() == whole.to_json()
    assert found.to_full_markdown() == whole.to_full_markdown()


def test_several_folders_keep_their_order(address: str, tmp_path: Path) -> None:
    incident("died")
    for name in ("b/x", "a/y"):
        (tmp_path / name).mkdir(parents=True)
        for path in (FOLDER / "died").rglob("*.log"):
            (tmp_path / name / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
    paths = [tmp_path / "b" / "x", tmp_path / "a" / "y"]

    assert pipeline.analyze(paths, scheduler=address).to_json() == pipeline.analyze(paths).to_json()


def test_packed_files_and_archives_say_the_same(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incident("died")
    for path in sorted((FOLDER / "died" / "dumps").iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    shutil.make_archive(str(tmp_path / "node0"), "tar", FOLDER / "died" / "node0")
    here = pipeline.analyze(tmp_path).to_json()
    monkeypatch.chdir(tmp_path.parent)

    assert pipeline.analyze(Path(tmp_path.name), scheduler=address).to_json() == here
    monkeypatch.setattr("nccldoctor.parts.on_dask.LARGEST_TICKET", 0)  # as of what came through standard input
    assert pipeline.analyze(Path(tmp_path.name), scheduler=address).to_json() == here


def test_a_share_whose_worker_fails_is_read_here(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = incident("died")

    def fails(*_: Any, **__: Any) -> int:
        raise MemoryError

    monkeypatch.setattr("nccldoctor.parts.on_dask.write_part", fails)

    assert pipeline.analyze(FOLDER / "died", scheduler=address).to_json() == whole.to_json()


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccldoctor.parts.on_dask.PATIENCE", 0.2)
    with pytest.raises(InputError, match=r"no dask scheduler at tcp://127\.0\.0\.1:9"):
        pipeline.analyze(FOLDER, scheduler="tcp://127.0.0.1:9")
