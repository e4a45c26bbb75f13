"""What capture sets, warns about and shows of the environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nccldoctor.capture.settings import defeating, recorder_variables, shown, torch_release

DUMPS, PIPES = Path("/run/dumps"), Path("/tmp/x/pipe_rank_")


def test_the_recorder_is_on_under_both_names_of_each_setting() -> None:
    wanted = recorder_variables({}, DUMPS, PIPES)
    assert wanted["TORCH_FR_BUFFER_SIZE"] == wanted["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"
    assert (
        wanted["TORCH_FR_DUMP_TEMP_FILE"] == wanted["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] == "/run/dumps/nccl_trace_rank_"
    )
    assert wanted["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert wanted["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] == "/tmp/x/pipe_rank_"


def test_a_release_that_warns_about_the_old_names_is_given_the_new_ones_alone() -> None:
    old = {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}
    assert not old & recorder_variables({}, DUMPS, PIPES, release=(2, 13)).keys()
    assert old < recorder_variables({}, DUMPS, PIPES, release=(2, 9)).keys(), "parts of 2.9 read nothing else"
    given = recorder_variables({"TORCH_NCCL_TRACE_BUFFER_SIZE": "5000"}, DUMPS, PIPES, release=(2, 13))
    assert given["TORCH_FR_BUFFER_SIZE"] == "5000"


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("__version__ = '2.10.1+cu128'\n", (2, 10)),
        ('__version__ = "3.0.0a0"\n', (3, 0)),
        ("version = 2\n", None),
        (None, None),
    ],
)
def test_the_release_is_read_without_an_import(
    version: str | None, release: tuple[int, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')\n")
    if version is not None:
        (tmp_path / "torch" / "version.py").write_text(version)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert torch_release() == release


def test_what_the_user_set_stays_and_counts_for_the_other_name() -> None:
    environment = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "500", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}
    wanted = recorder_variables(environment, DUMPS, PIPES)
    assert wanted["TORCH_FR_BUFFER_SIZE"] == "500"
    assert not wanted.keys() & environment.keys()


def test_settings_that_defeat_it_are_named() -> None:
    told = "\n".join(
        defeating(
            {
                "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
                "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
                "NCCL_BLOCKING_WAIT": "1",
                "NCCL_TIMEOUT": "3600",
            }
        )
    )
    assert len(told.splitlines()) == 4
    for name in ("TRACE_BUFFER_SIZE=0", "DUMP_ON_TIMEOUT=0", "NCCL_BLOCKING_WAIT=1", "nothing reads NCCL_TIMEOUT"):
        assert name in told


def test_settings_that_are_fine_are_not_mentioned() -> None:
    assert not list(defeating({"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_BLOCKING_WAIT": "0", "NCCL_DEBUG": "INFO"}))


def test_only_variables_of_collectives_are_shown_and_no_secrets() -> None:
    environment = {
        "NCCL_DEBUG": "INFO",
        "NCCL_API_TOKEN": "s3cret",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "HOME": "/home/me",
        "RANK": "3",
        "NCCL_TOPO_FILE": "a\nb",
        "FI_PROXY": "http://me:s3cret@proxy:80",
        "NCCL_IB_PKEY": "3",
        "TOKENIZERS_PARALLELISM": "false",
    }
    assert shown(environment) == [
        "FI_PROXY=http://***@proxy:80",
        "NCCL_DEBUG=INFO",
        "NCCL_IB_PKEY=3",
        "NCCL_TOPO_FILE=a b",
        "RANK=3",
        "TOKENIZERS_PARALLELISM=false",
    ]
