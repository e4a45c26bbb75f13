"""A cluster of dask or Ray reads the files and changes nothing of what is said."""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from builders.diagnoses.bundled import FOLDER, incident

from nccldoctor import pipeline
from nccldoctor.model.errors import InputError


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler of dask with two workers, as threads of this process."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """Ray with two workers on this machine."""
    ray = pytest.importorskip("ray", reason="Ray isn't installed: pip install ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


SEVERAL = ["died", "missed-call", "network", "two-rank-loader", "ras-queries"]


@pytest.mark.parametrize("name", SEVERAL)
def test_ray_says_the_same(name: str, ray_cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    whole = incident(name)
    found = pipeline.analyze((FOLDER / name).absolute(), scheduler="ray")

    assert found.to_json() == whole.to_json()
    assert found.to_full_markdown() == whole.to_full_markdown()
    assert "read here" not in caplog.text
    assert ray_cluster.is_initialized(), "a connection that was there is kept"


def test_a_share_that_ray_cannot_read_is_read_here(ray_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = incident("died")

    def fails(*_: Any) -> bytes:
        raise MemoryError

    monkeypatch.setattr("nccldoctor.parts.on_cluster._part_of_share", fails)

    assert pipeline.analyze(FOLDER / "died", scheduler="ray").to_json() == whole.to_json()


def test_a_job_that_holds_every_core_of_ray_holds_up_nobody(ray_cluster: Any) -> None:
    class Trainer:
        def ready(self) -> bool:
            return True

    whole, found = incident("died"), list[str]()
    trainer = ray_cluster.remote(num_cpus=2)(Trainer).remote()
    assert ray_cluster.get(trainer.ready.remote())

    def look() -> None:
        found.append(pipeline.analyze(FOLDER / "died", scheduler="ray").to_json())

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(120)
    ray_cluster.kill(trainer)
    assert found == [whole.to_json()]


def test_ray_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match="needs Ray") as told:
        pipeline.analyze(FOLDER, scheduler="ray://127.0.0.1:10001")
    assert told.value.hint == "pip install 'nccldoctor[ray]'"


@pytest.mark.parametrize("name", SEVERAL)
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
    monkeypatch.setattr("nccldoctor.parts.on_cluster.LARGEST_TICKET", 0)  # as of what came through standard input
    assert pipeline.analyze(Path(tmp_path.name), scheduler=address).to_json() == here


def test_a_share_whose_worker_fails_is_read_here(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = incident("died")

    def fails(*_: Any, **__: Any) -> int:
        raise MemoryError

    monkeypatch.setattr("nccldoctor.parts.on_cluster.write_part", fails)

    assert pipeline.analyze(FOLDER / "died", scheduler=address).to_json() == whole.to_json()


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccldoctor.parts.on_cluster.PATIENCE", 0.2)
    with pytest.raises(InputError, match=r"no dask scheduler at tcp://127\.0\.0\.1:9"):
        pipeline.analyze(FOLDER, scheduler="tcp://127.0.0.1:9")
