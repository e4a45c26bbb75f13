"""``inspect FILE --entry N`` prints what an exhibit formatted from a dump."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nccldoctor import pipeline
from nccldoctor.cli import demo, recorded_entry
from nccldoctor.model.errors import InputError


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    demo.write("dtype-mismatch", folder)
    return folder


def test_the_fields_of_an_entry_are_those_of_the_recorder(job: Path) -> None:
    found = recorded_entry.recorded_entry(pipeline.read([job / "traces" / "fr_3"]), 6)
    document = json.loads(recorded_entry.to_json(found))

    assert (document["collective_seq_id"], document["profiling_name"]) == (7, "nccl:all_reduce")
    assert (document["input_sizes"], document["input_dtypes"]) == ([[4382464]], ["Half"])
    assert {frame["name"] for frame in document["frames"]} >= {"run_step"}
    text = recorded_entry.to_text(found)
    assert "['Half']" in text
    assert "run_step (" in text
    assert "None" not in text


@pytest.mark.parametrize(
    ("path", "entry", "hint"),
    [
        ("traces/fr_3", 900, "it holds entries 0.."),
        ("logs/rank_3.log", 0, "name one dump file"),
        ("traces", 0, "name one of them: "),
    ],
)
def test_what_is_not_there_is_a_clear_error(job: Path, path: str, entry: int, hint: str) -> None:
    with pytest.raises(InputError) as error:
        recorded_entry.recorded_entry(pipeline.read([job / path]), entry)
    assert error.value.hint.startswith(hint)
