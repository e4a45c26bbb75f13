"""The notebooks of the documentation run, and stand in the repository with what they print.

``python tests/ui/test_notebooks.py`` runs them and stores the outputs. A figure is stored as a picture, which also GitHub shows.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
FIGURE = "application/vnd.plotly.v1+json"
LARGEST = 400_000
"""Bytes of a stored notebook at most."""


def test_there_are_notebooks() -> None:
    assert {path.name for path in NOTEBOOKS} >= {"first-look.ipynb", "deadlock.ipynb", "questions.ipynb"}


def cells_of(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def printed(cells: list[dict[str, Any]]) -> list[str]:
    """What the cells print. Tables are left out: pandas releases draw them differently."""
    return ["".join(out["text"]) for cell in cells for out in cell["outputs"] if out["output_type"] == "stream"]


def kinds(cells: list[dict[str, Any]]) -> list[list[str]]:
    """What sort of output each cell has: figures count as pictures."""
    return [[kind_of(output) for output in cell["outputs"]] for cell in cells]


def kind_of(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    return next((name for name, kind in KINDS if kind in data), output["output_type"])


KINDS = (("picture", FIGURE), ("picture", "image/png"), ("table", "text/html"))


def run(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of a run that starts in ``folder``.

    The kernel sends what a cell prints in pieces that depend on timing, so the pieces of one stream are joined.
    """
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    book = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", coalesce_streams=True, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return book


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_is_stored_with_its_outputs(path: Path) -> None:
    cells = cells_of(path)

    assert path.stat().st_size < LARGEST
    assert all(cell["execution_count"] == number for number, cell in enumerate(cells, 1))
    assert any("picture" in found for found in kinds(cells))


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs_and_prints_what_is_stored(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cells = [cell for cell in run(path, tmp_path).cells if cell.cell_type == "code"]

    assert printed(cells) == printed(cells_of(path)), "run python tests/ui/test_notebooks.py"
    assert kinds(cells) == kinds(cells_of(path))


def photographs() -> Iterator[Any]:
    """Gives a function that turns a figure into a PNG; keeps one browser open for it."""
    import plotly.graph_objects as go
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))))
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        page = driver.chromium.launch(executable_path=found, args=["--no-sandbox"]).new_page()

        def photograph(figure: dict[str, Any]) -> bytes:
            drawn = go.Figure(figure)
            height = drawn.layout.height or 450
            page.set_viewport_size({"width": 900, "height": int(height)})
            (Path(folder) / "figure.html").write_text(
                f"<body style='margin:0'>{drawn.to_html(full_html=False, include_plotlyjs=True)}", encoding="utf-8"
            )
            page.goto(f"file://{folder}/figure.html")
            page.wait_for_selector(".main-svg")
            page.wait_for_timeout(500)
            return bytes(page.screenshot())

        yield photograph


def store(path: Path, photograph: Any) -> None:
    """Run a notebook and write it with its outputs, figures as pictures."""
    with tempfile.TemporaryDirectory() as folder:
        book = run(path, Path(folder))
    for number, cell in enumerate((cell for cell in book.cells if cell.cell_type == "code"), 1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            data = output.get("data", {})
            if FIGURE in data:
                png = base64.b64encode(photograph(data[FIGURE])).decode()
                output.data = {"image/png": png, "text/plain": "a plotly figure"}
            if output.output_type == "execute_result":
                output.execution_count = number
    path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(ROOT)
    for photograph in photographs():
        for notebook in NOTEBOOKS:
            store(notebook, photograph)
