"""Which frames of a printed stack are the user's own code."""

from __future__ import annotations

import pytest

from nccldoctor.model.stack_frames import innermost, is_library


@pytest.mark.parametrize(
    ("file", "installed"),
    [
        ("/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", True),
        ("torch/utils/data/dataloader.py", True),
        ("multiprocessing/connection.py", True),
        ("selectors.py", True),
        ("<frozen runpy>", True),
        ("/job/train.py", False),
        ("filelock/_api.py", True),
        ("data/queue.py", False),
        ("train.py", False),
    ],
)
def test_py_spy_prints_installed_code_without_its_folder(file: str, installed: bool) -> None:
    assert is_library(file) is installed


def test_the_innermost_own_frame_is_shown() -> None:
    frames = (
        "select (selectors.py:415)",
        "_try_get_data (torch/utils/data/dataloader.py:1291)",
        "main (/job/train.py:7)",
    )
    assert innermost(frames) == "main (train.py:7)"
    assert innermost(frames[:1]) == "select (selectors.py:415)"
