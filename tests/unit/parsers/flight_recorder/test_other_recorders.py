"""Calls that ClogHook and NCCL's example profiler recorded become those of a dump; what is lost accuses nobody."""

from __future__ import annotations

import pytest
from builders.files.other_recorders import clog, profile
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.discover.file_types import kind_of
from nccldoctor.model import SourceKind
from nccldoctor.model.recorded_calls import COMPLETED, SCHEDULED, STARTED, UNKNOWN_STATE, Batch
from nccldoctor.parsers.flight_recorder.child import load_dump
from nccldoctor.parsers.flight_recorder.wire import Unpacker, pack


def batch_of(text: str | bytes) -> Batch:
    data = text if isinstance(text, bytes) else text.encode()
    assert kind_of(data) is SourceKind.RECORDER
    return Unpacker().unpack(pack(load_dump(data)), source=0, path="calls")


def test_a_log_of_calls_gives_numbers_sizes_states_and_times() -> None:
    batch = batch_of(clog(2, calls=3))
    calls, words, head = batch.calls, batch.vocabulary, batch.dumps[0]

    assert (head.rank, head.problem, head.wrapped) == (2, "", False)
    assert [(c.uid, c.ranks) for c in head.config] == [("world", tuple(range(8)))]
    assert [words.ops[code] for code in calls.op] == ["all_reduce", "all_gather_single", "all_reduce"]
    assert calls.seq.tolist() == [1, 2, 3]
    assert calls.state.tolist() == [COMPLETED, COMPLETED, STARTED]
    assert calls.retired.tolist() == [True, True, False]
    assert calls.numel_in.tolist() == [4096, 512, 4096]
    assert words.dtypes[calls.dtypes[0]] == (("bf16",), ())
    assert calls.created_ns[0] / 1e9 == pytest.approx(1788000000.502)


def test_an_end_that_is_written_before_its_start_still_is_one() -> None:
    batch = batch_of(clog(0, calls=2, hangs=False).replace("C1|S|+0.510\nC1|E|+0.550\n", "C1|E|+0.550\nC1|S|+0.510\n"))
    assert batch.calls.state.tolist() == [COMPLETED, COMPLETED]


def test_without_starts_and_ends_no_state_is_known() -> None:
    batch = batch_of(clog(0, states=False))
    assert set(batch.calls.state.tolist()) == {UNKNOWN_STATE}
    assert "states show nothing" in batch.dumps[0].problem or "which show nothing" in batch.dumps[0].problem


def test_groups_that_were_split_off_have_their_members_and_numbers() -> None:
    more = (
        "split|parent=world|child=tp1|ranks=4,5,6,7\n"
        "C3|sig|all_reduce|in_count=8|out_count=8|dtype=f32|red_op=sum|async_op=f|comm=tp1\nC3|Q|work_id=4|+9.000\n"
        "C4|sig|send|in_count=8|out_count=0|dtype=f32|peer=0|async_op=f|comm=tp1\nC4|Q|work_id=5|+9.500\nC4|S|+9.501\n"
    )
    inside, outside = (
        batch_of(clog(6, calls=3, hangs=False, more=more)),
        batch_of(clog(1, calls=3, hangs=False, more=more)),
    )
    calls, words = inside.calls, inside.vocabulary
    assert [(c.uid, c.ranks) for c in inside.dumps[0].config] == [("world", tuple(range(8))), ("tp1", (4, 5, 6, 7))]
    assert [c.uid for c in outside.dumps[0].config] == ["world"], "rank 1 is no member of tp1"
    assert (calls.seq.tolist()[3:], calls.state.tolist()[3:]) == ([1, 1], [SCHEDULED, STARTED])
    assert words.ops[calls.op[4]] == "send 2->0"
    assert calls.is_p2p.tolist() == [False] * 4 + [True]


def test_sizes_that_may_differ_between_ranks_are_left_out() -> None:
    more = (
        "C3|sig|all_gather_v|in_count=7|out_counts=7,9|dtype=f32|async_op=f|comm=world\nC3|Q|work_id=4|+9.000\n"
        "C4|sig|gather_single|in_count=7|out_count=0|dtype=f32|root=1|async_op=f|comm=world\nC4|Q|work_id=5|+9.500\n"
        "C5|sig|barrier|async_op=f|comm=world\nC5|Q|work_id=6|+9.700\n"
    )
    batch = batch_of(clog(0, calls=3, hangs=False, more=more))
    assert [batch.vocabulary.sizes[code] for code in batch.calls.sizes[3:]] == [((), ()), (((7,),), ()), ((), ())]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (clog(5)[:-9], "truncated"),
        (clog(5)[:200], "truncated"),
        (clog(5).replace("C1|Q|work_id=3|+1.500\n", ""), "damaged"),
        (clog(5).replace("C2|Q|work_id=4|+2.000", "C2|Q|work_id=4|+2.x00"), "damaged"),
        (profile(5)[:-200], "truncated"),
        (profile(5, 9, lost=lambda number: number == 4), "incomplete"),
    ],
)
def test_a_file_that_lost_calls_has_none(text: str, why: str) -> None:
    batch = batch_of(text)
    assert (len(batch.calls), batch.dumps[0].rank) == (0, 5)
    assert batch.dumps[0].problem.startswith(why)


def test_a_last_line_without_its_feed_is_whole_where_its_time_is() -> None:
    assert len(batch_of(clog(0).removesuffix("\n")).calls) == 9


def test_a_log_with_cuda_graphs_is_left_out() -> None:
    """A rank may wait inside a replay, whose calls have no number."""
    more = "G42|C1|Q|work_id=10|+9.000\nG42|C1|S|+9.001\nG42|R1|C1|S|+9.500\nG42|R1|C1|E|+9.600\n"
    batch = batch_of(clog(0, hangs=False, more=more))
    assert len(batch.calls) == 0
    assert "CUDA graph" in batch.dumps[0].problem


def test_each_function_of_the_profiler_counts_for_itself() -> None:
    batch = batch_of(profile(3))
    calls, words, head = batch.calls, batch.vocabulary, batch.dumps[0]
    assert (head.rank, head.config, head.backend, head.problem) == (3, (), "nccl", "")
    told = sorted(zip((words.groups[c][0] for c in calls.group), calls.seq.tolist(), calls.state.tolist(), strict=True))
    assert [(uid.partition("/")[2], seq, state) for uid, seq, state in told] == [
        ("AllGather", 1, COMPLETED),
        ("AllGather", 2, COMPLETED),
        ("AllReduce", 1, COMPLETED),
        ("AllReduce", 2, COMPLETED),
        ("ReduceScatter", 1, COMPLETED),
        ("ReduceScatter", 2, STARTED),
    ]
    assert words.dtypes[calls.dtypes[0]] == (("bfloat16",), ())


def test_a_ring_that_dropped_older_calls_has_lost_its_past() -> None:
    assert not batch_of(profile(3)).dumps[0].wrapped
    assert batch_of(profile(3, first=41)).dumps[0].wrapped


def test_a_pool_that_was_full_when_the_newest_call_began_may_have_dropped_more() -> None:
    long = profile(3, 9, hangs=False).replace("500.0}", "999999.0}")
    assert batch_of(long).dumps[0].problem.startswith("incomplete")
    assert batch_of(profile(3, 9)).dumps[0].problem == ""


HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.integers(min_value=2**62, max_value=2**80)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["SeqNum", "CommHash", "Rank", "x"]), inner)
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.fixed_dictionaries({}, optional=dict.fromkeys(("cat", "ph", "id", "ts", "name", "args"), HOSTILE)),
        max_size=6,
    )
)
def test_no_trace_breaks_the_reader(rows: list[dict[str, object]]) -> None:
    import json

    whole = [
        {"name": "x", "cat": "COLL", "CommHash": 1, "SeqNum": 1},
        *({"cat": "COLL", "ph": "b", "id": 1} | row for row in rows),
    ]
    dump = load_dump(json.dumps(whole).encode())
    pack(dump)


LINES = st.lists(
    st.text(alphabet="CGRVQSE|=+.0123456789-einfan,", max_size=60)
    | st.sampled_from(
        [
            "new_comm|comm=a|rank=9|world_size=2",
            "new_comm|comm=a|rank=1|world_size=99999999999999999999",
            "new_comm|comm=b|rank=1|world_size=4",
            "split|parent=b|child=c|ranks=1,-5,99999999999999999999",
            "split|parent=b|child=c|ranks=",
            "C1|sig|all_reduce|in_count=99999999999999999999|dtype=f32|comm=b",
            "C2|sig|send|in_count=4|peer=x|comm=c",
            "C1|Q|work_id=1|+1e400",
            "C1|Q|work_id=1|+1e30",
            "C1|Q|work_id=2|+nan",
            "C1|S|+1.0",
            "C1|E|+1.0",
        ]
    ),
    max_size=12,
)


@given(LINES, st.sampled_from(["0", "1788000000.5", "99999999999.9"]))
def test_no_log_breaks_the_reader(lines: list[str], base: str) -> None:
    dump = load_dump("\n".join([f"V|1|base_timestamp={base}", *lines, ""]).encode())
    pack(dump)
