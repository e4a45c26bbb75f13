"""Recorder dumps inside a page of PyTorch's debug server: one file for each rank, as if it had been saved alone."""

import html
import json
from pathlib import Path

import pytest
from builders.files.dumps import content, entry
from builders.files.packing import texts, write, zip_of

from nccldoctor.discover.discover import discover
from nccldoctor.model import SourceKind

DUMPS = {rank: json.dumps(content(entry(seq=rank + 1)), indent=2) for rank in (0, 2)}
AT = "http://node1:4100{rank}/handler/fr_trace_json?"
FAILED = "<p>Failed to fetch: status=408</p>\n            <pre>TimeoutError: </pre>"


def page(heading: str, pre: str = "<pre>{}</pre>") -> str:
    """Ranks 0 and 2 answered, rank 1 did not."""
    parts = [(0, pre.format(DUMPS[0])), (1, FAILED), (2, pre.format(DUMPS[2]))]
    return "".join(f"{heading.format(AT.format(rank=rank), rank=rank)}\n\n{text}\n\n" for rank, text in parts)


SAVED = page("        <h2>Rank {rank}: {}</h2>")
COPIED = page("Rank {rank}: {}", "{}")
FILE = page("=== Rank {rank}: {} ===", "{}")


@pytest.mark.parametrize("text", [SAVED, COPIED, FILE], ids=["saved", "copied", "file"])
def test_each_dump_is_a_file_of_its_rank(tmp_path: Path, text: str) -> None:
    found = discover([write(tmp_path, {"fr_trace_json.html": text.encode()})])
    dumps = {i.source.rank: i.open().read() for i in found.inputs if i.source.kind is SourceKind.RECORDER}
    assert {rank: json.loads(read) for rank, read in dumps.items()} == {r: json.loads(d) for r, d in DUMPS.items()}
    assert [i.source.path for i in found.inputs if i.source.kind is not SourceKind.RECORDER] == ["fr_trace_json.html"]


def test_quotes_that_a_page_escaped_are_quotes_again(tmp_path: Path) -> None:
    text = SAVED.replace(DUMPS[0], html.escape(DUMPS[0]))
    found = discover([write(tmp_path, {"fr_trace_json.html": text.encode()})])
    assert json.loads(texts(found)["fr_trace_json.html/rank_0.json"]) == json.loads(DUMPS[0])


def test_a_page_inside_an_archive_is_opened_too(tmp_path: Path) -> None:
    packed = zip_of(
        {"pages/fr_trace_json.html": SAVED.encode(), "pages/stacks.html": b"<h2>Rank 0: http://n:1/handler/x?</h2>"}
    )
    found = discover([write(tmp_path, {"debug.zip": packed})])
    assert sorted(i.source.rank for i in found.inputs if i.source.kind is SourceKind.RECORDER) == [0, 2]
    assert len(found.inputs) == 4


def test_other_answers_in_json_are_no_dumps(tmp_path: Path) -> None:
    counters = '<h2>Rank 0: http://n:1/handler/wait_counter_values?</h2>\n<pre>{"pytorch.wait_counter.x": {"active_count": 1}}</pre>'
    found = discover([write(tmp_path, {"wait_counters.html": counters.encode()})])
    assert [i.source.kind for i in found.inputs] == [SourceKind.LOG]
