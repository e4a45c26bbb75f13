"""Traces of torch.profiler of any shape give notes or a gap."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.events import Note
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.nccl.inspector import kernel_time
from nccldoctor.parsers.nccl.torch_profile import TorchProfile

PARSER = TorchProfile()


def notes(document: object) -> list[Note]:
    text = json.dumps(document).encode()
    parsed = PARSER.parse(Source(0, "trace.json", SourceKind.LOG, len(text)), text)
    return [event for event in parsed.events if isinstance(event, Note)]


def test_a_trace_without_kernels_names_rank_and_world() -> None:
    (note,) = notes({"schemaVersion": 1, "distributedInfo": {"rank": 2, "world_size": 16}, "traceEvents": []})
    assert (note.rank, note.what) == (2, "torch-profile")
    assert "rank 2 of 16" in note.detail


def test_average_times_can_be_compared_between_ranks() -> None:
    kernel = {
        "cat": "kernel",
        "name": "ncclDevKernel_AllGather_RING_LL",
        "dur": 1234567.0,
        "args": {"In msg nelems": 5},
    }
    _, note = notes({"schemaVersion": 1, "distributedInfo": {"rank": 2, "world_size": 16}, "traceEvents": [kernel]})
    timed = kernel_time(note)
    assert timed is not None
    assert (timed.board, timed.calls, timed.micros) == ("rank 2", "AllGather of 5 elements in group ?", 1.23457e6)


def test_a_trace_that_is_cut_off_gives_a_gap() -> None:
    text = b'{"schemaVersion": 1, "distributedInfo": {"rank": 2}, "traceEvents": [{"cat": "ker'
    parsed = PARSER.parse(Source(0, "trace.json", SourceKind.LOG, len(text)), text)
    assert not parsed.events
    assert len(parsed.gaps) == 1


VALUE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.just(10**300) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["rank", "world_size"]), inner),
    max_leaves=6,
)
KERNEL = st.fixed_dictionaries(
    {"cat": st.just("kernel"), "name": st.just("ncclKernel_AllReduce") | VALUE}, optional={"dur": VALUE, "args": VALUE}
)


@given(VALUE, VALUE | st.lists(KERNEL, max_size=4))
def test_no_trace_breaks_the_reader(told: object, traced: object) -> None:
    for note in notes({"schemaVersion": 1, "distributedInfo": told, "traceEvents": traced}):
        assert note.rank is None or 0 <= note.rank < 1 << 20
        kernel_time(note)
