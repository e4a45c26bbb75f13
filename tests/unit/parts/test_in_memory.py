"""Any engine reduces and merges: whatever the grouping of files, the answer is that of one run."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from builders.diagnoses.bundled import FOLDER, incident

import nccldoctor as nd
from nccldoctor.model.errors import InputError


def groups(folder: Path, count: int) -> list[list[Path]]:
    """The files of a folder, in groups without any sense."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".toml")
    random.Random(count).shuffle(found)
    return [own for own in (found[n::count] for n in range(count)) if own]


@pytest.mark.parametrize("count", [2, 5, 64])
@pytest.mark.parametrize("name", ["jax-died", "died", "hardware", "order-inversion"])
def test_any_grouping_gives_the_document_of_one_run(name: str, count: int) -> None:
    """One log of JAX alone doesn't show that the number in its name is a rank: the names of all files do."""
    whole, folder = incident(name), FOLDER / name
    parts = [nd.reduce(own, root=folder, workers=1) for own in groups(folder, count)]
    merged = nd.merge(reversed(parts), workers=1)
    assert merged.to_json() == whole.to_json()
    assert merged.to_html() == whole.to_html()


def test_processes_of_an_engine_reduce(tmp_path: Path) -> None:
    """Bytes travel, by a pool as by any engine; parts that were written to files are taken, too."""
    whole, folder = incident("order-inversion"), FOLDER / "order-inversion"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as engine:
        first, *others = engine.map(partial(nd.reduce, root=folder, workers=1), groups(folder, 3))
    (tmp_path / "first.nd").write_bytes(first)
    assert nd.merge([tmp_path / "first.nd", *others]).to_json() == whole.to_json()


def test_hosts_with_equal_paths_are_told_apart_by_their_name(tmp_path: Path) -> None:
    for host in ("node0", "node1"):
        (tmp_path / host).mkdir()
        (tmp_path / host / "rank_0.log").write_text(f"{host} says hello\n")
    merged = nd.merge([nd.reduce(tmp_path / host, name=host) for host in ("node0", "node1")])
    assert [one.path for one in merged.case.sources] == ["node0/rank_0.log", "node1/rank_0.log"]


def test_a_damaged_part_costs_itself_alone() -> None:
    folder = nd.demo("died")
    good, bad = (nd.reduce(own, root=folder) for own in groups(folder, 2))
    merged = nd.merge([good, bad[:-40]])
    assert any("damaged" in problem for row in merged.diagnosis.coverage for problem in row.problems)


def test_what_cannot_be_reduced_or_merged_says_so(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("hello\n")
    (tmp_path / "a.nd").write_bytes(nd.reduce(tmp_path / "logs"))
    for work, words in (
        (lambda: nd.reduce(tmp_path / "a.nd"), "is a part already"),
        (lambda: nd.reduce(tmp_path / "a.nd", root=tmp_path / "logs"), "is not in the subpath"),
        (lambda: nd.reduce(tmp_path / "logs" / "b", root=tmp_path / "logs"), "nothing to read"),
        (lambda: nd.merge([]), "no part to merge"),
    ):
        with pytest.raises(InputError, match=words):
            work()
