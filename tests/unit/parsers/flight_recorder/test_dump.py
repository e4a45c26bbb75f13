import json
import math
import pickle
from typing import Any

import pytest
from builders.files.dumps import FRAME, content, dump, entry, list_dump
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.flight_recorder.child import load_dump
from nccldoctor.parsers.flight_recorder.dump import NO_ENTRIES, NOT_A_DUMP, is_json_dump, is_pickle, read_dump
from nccldoctor.parsers.flight_recorder.shapes import DEEPEST_STACK
from nccldoctor.parsers.flight_recorder.values import TooBig
from nccldoctor.parsers.flight_recorder.wire import Unpacker, pack


def batch_of(data: bytes) -> Batch:
    return Unpacker().unpack(pack(load_dump(data)), source=7, path="fr/rank_3")


def of_entries(*entries: dict[str, Any]) -> Batch:
    return batch_of(dump(*entries))


def test_a_dict_dump_gives_its_columns():
    batch = of_entries(
        entry(1), entry(2, "nccl:_all_gather_base", output_sizes=[[16, 2]], retired=False, state="started")
    )
    calls, words, head = batch.calls, batch.vocabulary, batch.dumps[0]

    assert (head.form, head.version, head.library, head.backend) == ("dict", "2.10", "2.27.5", "nccl")
    assert (head.entries, head.wrapped, head.has_frames, head.problem) == (2, False, True, "")
    assert (head.source, head.path) == (7, "fr/rank_3")
    assert [words.ops[c] for c in calls.op] == ["all_reduce", "_all_gather_base"]
    assert [words.groups[c] for c in calls.group] == [("0", "default_pg")] * 2
    assert calls.seq.tolist() == [1, 2]
    assert calls.state.tolist() == [2, 1]
    assert calls.retired.tolist() == [True, False]
    assert calls.numel_in.tolist() == [8, 8]
    assert calls.numel_out.tolist() == [8, 32]
    assert words.sizes[calls.sizes[1]] == (((4, 2),), ((16, 2),))
    assert words.dtypes[calls.dtypes[1]] == (("Float",), ("Float",))
    assert words.stacks[calls.stack[0]] == (("step", "/opt/train/train.py", 31),)
    assert words.stacks[0] == ()
    assert calls.created_ns.tolist() == [1_780_000_000_000_000_001, 1_780_000_000_000_000_002]
    assert calls.started_ns.tolist() == [0, 0]
    assert calls.timeout_ms.tolist() == [600_000] * 2
    assert all(math.isnan(v) for v in calls.duration_ms)


def test_the_list_of_2_2():
    batch = batch_of(list_dump())
    calls, head = batch.calls, batch.dumps[0]

    assert (head.form, head.version, head.entries, head.problem) == ("list", "", 3, "")
    assert head.wrapped, "the first call recorded is number 40"
    assert calls.seq.tolist() == [40, 41, 42]
    assert calls.created_ns[0] == 1_700_000_000_000_000_000
    assert calls.is_p2p.tolist() == [True] * 3, "told by the name, the field came later"
    assert batch.vocabulary.ops == ("send 0->1",)
    assert calls.group.tolist() == [-1] * 3
    assert calls.p2p_seq.tolist() == [-1] * 3


def test_the_json_form_reads_like_the_pickle():
    shape = content()
    for one in shape["entries"]:
        del one["frames"]
        one |= {"time_discovered_started_ns": 0, "process_group": ["0", "default_pg"]}
    shape["pg_status"] = {"0": dict.fromkeys(shape["pg_status"]["0"], "6")}
    text = json.dumps(shape, sort_keys=True).encode()
    batch = batch_of(text)

    assert is_json_dump(text[:4096])
    assert batch.dumps[0].form == "json"
    assert not batch.dumps[0].has_frames
    assert batch.dumps[0].status[0].enqueued == 6
    assert batch.vocabulary.groups == (("0", "default_pg"),)
    assert batch.calls.seq.tolist() == [1, 2]
    assert batch.calls.started_ns.tolist() == [0, 0]


def test_json_frames_that_are_not_shared_are_still_one_stack():
    text = json.dumps(content(entry(1), entry(2))).encode()
    assert batch_of(text).vocabulary.stacks == ((), ((FRAME["name"], FRAME["filename"], FRAME["line"]),))


@pytest.mark.parametrize(
    ("name", "op", "backend"),
    [
        ("nccl:all_reduce", "all_reduce", "nccl"),
        ("gloo:barrier", "barrier", "gloo"),
        ("nccl2:recv 0<-1", "recv 0<-1", "nccl2"),
        ("my-backend:send 3->4", "send 3->4", "my-backend"),
        ("coalesced", "coalesced", ""),
        ("", "", ""),
        ("nccl:odd:name", "odd:name", "nccl"),
    ],
)
def test_the_backend_is_taken_off_the_name(name: str, op: str, backend: str):
    batch = of_entries(entry(1, name))
    assert batch.vocabulary.ops[batch.calls.op[0]] == op
    assert batch.dumps[0].backend == backend


@pytest.mark.parametrize(
    ("sizes", "elements"),
    [([[]], 1), ([], 0), ([[3], [4, 5]], 23), ([[0, 7]], 0), ([[2**40, 2**40]], -1), ([[1] * 65], -1), ([[-1]], -1)],
)
def test_elements_are_summed_over_tensors(sizes: list[list[int]], elements: int):
    assert of_entries(entry(1, input_sizes=sizes)).calls.numel_in.tolist() == [elements]


def test_an_unknown_state_is_kept_as_unknown_and_said():
    batch = of_entries(entry(1, state="pondering"), entry(2, state=None), entry(3))
    assert batch.calls.state.tolist() == [3, 3, 2]
    assert "2 entries in a state of unknown name" in batch.dumps[0].problem


def test_entries_without_a_state_show_nothing_either():
    bare = [{key: value for key, value in entry(n).items() if key != "state"} for n in (1, 2)]
    batch = of_entries(*bare)
    assert batch.calls.state.tolist() == [3, 3]
    assert "2 entries in a state of unknown name" in batch.dumps[0].problem


@pytest.mark.parametrize("field", ["pg_id", "input_dtypes", "output_sizes", "time_created_ns"])
def test_a_field_that_only_some_entries_lack_is_said(field: str):
    batch = of_entries(entry(1), entry(2, **{field: None}), entry(3))
    assert f"1 entries without their {field}" in batch.dumps[0].problem
    assert of_entries(*(entry(n, **{field: None}) for n in (1, 2))).dumps[0].problem == ""


@pytest.mark.parametrize("seq", [2**63, -(2**63) - 1, "x", [1], {}, 1.5])
def test_entries_with_impossible_numbers_are_left_out(seq: object):
    batch = of_entries(entry(1), entry(2, collective_seq_id=seq), entry(3))
    assert batch.calls.seq.tolist() == [1, 3]
    assert batch.calls.entry.tolist() == [0, 2], "places keep pointing at the recorded position"
    assert batch.dumps[0].problem == "1 of 3 entries left out: values out of range"


def test_entries_that_are_no_entries_are_left_out():
    batch = of_entries(entry(1), 5, entry(3))  # type: ignore[arg-type]
    assert batch.calls.entry.tolist() == [0, 2]
    assert batch.dumps[0].problem.startswith("1 of 3 entries left out")


def test_a_group_index_beyond_32_bits_is_out_of_range():
    assert of_entries(entry(1), entry(2, pg_id=2**31)).calls.pg_id.tolist() == [0]


@pytest.mark.parametrize("key", sorted(entry()))
def test_any_field_may_be_missing(key: str):
    one, two = entry(1), entry(2)
    del one[key]
    del two[key]
    assert len(of_entries(one, two).calls) == 2
    assert len(of_entries(entry(1), two).calls) == 2
    assert len(of_entries(one, entry(2)).calls) == 2


def test_entries_of_equal_length_with_different_fields():
    one, two = entry(1, duration_ms=1.5), entry(2, thread_name="python")
    calls = of_entries(one, two).calls
    assert calls.duration_ms[0] == 1.5
    assert math.isnan(calls.duration_ms[1])


@pytest.mark.parametrize(
    "field", ["input_sizes", "output_dtypes", "frames", "process_group", "profiling_name", "retired"]
)
@pytest.mark.parametrize("value", [None, 5, "x", [5], [[["x"]]], [[2**70]], ("a", "b", "c"), {"a": 1}, [None], [{}]])
def test_an_odd_value_costs_at_most_its_field(field: str, value: object):
    batch = of_entries(entry(1), entry(2, **{field: value}), entry(3))
    assert batch.calls.seq.tolist() == [1, 2, 3]


def test_a_group_may_be_a_name_alone_where_all_entries_write_it_so():
    batch = of_entries(entry(1, process_group="0"), entry(1, process_group="3"))
    assert [batch.vocabulary.groups[code] for code in batch.calls.group] == [("0", ""), ("3", "")]
    odd = of_entries(entry(1), entry(2, process_group="7"))
    assert odd.calls.group.tolist() == [0, -1]


@pytest.mark.parametrize("name", ["\ud800", "7", "-1", 5])
def test_a_name_that_no_operation_has_is_unknown(name: object):
    batch = of_entries(entry(1), entry(2, profiling_name=name))
    assert batch.vocabulary.ops[batch.calls.op[1]] == ""
    assert "1 entries without the name" in batch.dumps[0].problem


def test_the_ring_had_wrapped_where_the_first_record_is_not_number_0():
    assert of_entries(entry(9), entry(10)).dumps[0].wrapped
    assert not of_entries(entry(1)).dumps[0].wrapped


@pytest.mark.parametrize(
    ("ranks", "members"),
    [
        ("[0, 1, 2, 5]", (0, 1, 2, 5)),
        ("0,1", (0, 1)),
        ("[3, 1, 2]", (3, 1, 2)),
        ([4, 5], (4, 5)),
        ("[]", None),
        ("__import__('os')", None),
        ([True, "x"], None),
        (None, None),
        ("[99999999999999999999]", None),
        ("[0, 1, 131072]", None),
        ([0, 1, 10**9], None),
        ([0, -1], None),
        ("[0, 1, 1]", None),
        ("[0, 1, 99999999999]", None),
        ([*range(4000, 0, -1)], (*range(4000, 0, -1),)),
        ([*range(5000, 0, -1)], None),  # more runs than the groups of any job: 100 MB of such lists took 2 GB
    ],
)
def test_members_of_a_group(ranks: object, members: tuple[int, ...] | None):
    head = batch_of(dump(pg_config={"7": {"name": "7", "desc": "dp", "ranks": ranks}})).dumps[0]
    assert [(c.uid, c.desc, c.ranks) for c in head.config] == ([("7", "dp", members)] if members else [])


def test_the_nameless_group_of_gloo_is_dropped():
    assert batch_of(dump(pg_config={"": {"name": "", "desc": "", "ranks": "[0, 1]"}})).dumps[0].config == ()


def test_counters_are_ordered_by_group():
    status = {str(n): {"last_enqueued_collective": n, "last_completed_collective": 2**70} for n in (10, 2)}
    found = batch_of(dump(pg_status=status | {"x": {}, "3": 5})).dumps[0].status
    assert [(s.pg_id, s.enqueued, s.started, s.completed) for s in found] == [(2, 2, -1, -1), (10, 10, -1, -1)]


def test_a_dump_without_entries_says_so_and_keeps_its_counters():
    for shape in (content() | {"entries": []}, {k: v for k, v in content().items() if k != "entries"}):
        head = Unpacker().unpack(pack(read_dump(shape, "pickle", 500)), 0, "x").dumps[0]
        assert head.problem == NO_ENTRIES
        assert head.status[0].enqueued == 2
        assert head.config[0].ranks == (0, 1, 2, 5)


@pytest.mark.parametrize("shape", [{}, {"model": 1}, [1, 2], [{"loss": 1}], 5, "x", None, (1,), {("a",): 2}])
def test_other_things_are_no_dumps(shape: object):
    assert read_dump(shape, "pickle", 100).problem == NOT_A_DUMP


def test_shared_parts_may_not_expand_beyond_the_file():
    sizes = [[1] * 1000] * 1000
    with pytest.raises(TooBig):
        read_dump(content(*(entry(n, input_sizes=sizes) for n in range(20))), "pickle", 5000)
    with pytest.raises(TooBig):
        read_dump(content(*(entry(n, frames=[FRAME] * 100_000) for n in range(20))), "pickle", 5000)


def test_long_texts_and_stacks_are_cut_and_lone_surrogates_escaped():
    frames = [{"name": "f" * 5000, "filename": "\ud800x", "line": n} for n in range(DEEPEST_STACK + 50)]
    batch = of_entries(entry(1, frames=frames, profiling_name="nccl:" + "x" * 5000))
    stack = batch.vocabulary.stacks[batch.calls.stack[0]]
    assert len(stack) == DEEPEST_STACK
    assert len(stack[0][0]) == 1000
    assert stack[0][1] == "\\ud800x"
    assert len(batch.vocabulary.ops[0]) == 1000


def test_heads_of_files():
    assert is_pickle(dump()[:3])
    assert not is_pickle(b"\x80\x01x")
    assert not is_pickle(b"2024")
    assert is_json_dump(b'  {"pg_status": {}}')
    assert is_json_dump(b'\xef\xbb\xbf{"version": "2.4", "pg_config" : {}}')
    assert not is_json_dump(b'{"message": {"message": "boom"}}')
    assert not is_json_dump(b'[rank3]: "pg_config" was') or load_dump(b'[rank3]: "pg_config" was').problem == NOT_A_DUMP


def test_texts_that_look_like_json_dumps_are_handed_back():
    lines = b'{"collective_seq_id": 5, "step": 1}\n{"collective_seq_id": 6, "step": 2}\n'
    assert load_dump(lines).problem == NOT_A_DUMP


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(2**63)
_THINGS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.tuples(inner, inner)
    ),
    max_leaves=6,
)
_ENTRY = st.dictionaries(st.sampled_from([*entry(), "seq_id", "time_created_us", "duration_ms"]), _THINGS, max_size=20)


@settings(max_examples=150, deadline=None)
@given(
    entries=st.lists(_ENTRY | st.builds(lambda more: entry(1) | more, _ENTRY) | _LEAVES, max_size=4),
    config=_THINGS,
    status=_THINGS,
    version=_THINGS,
)
def test_nothing_in_a_dump_makes_the_reader_raise(entries, config, status, version):
    shape = {"version": version, "entries": entries, "pg_config": config, "pg_status": {"0": status}}
    for form in (shape, entries):
        read = read_dump(form, "pickle", 10_000)
        batch = Unpacker().unpack(pack(read), 0, "x")
        assert len(batch.calls) == batch.dumps[0].entries
        for name in ("op", "stack"):
            assert (getattr(batch.calls, name) < len(getattr(batch.vocabulary, f"{name}s"))).all()


def test_a_dump_that_was_fetched_in_text_mode_says_so() -> None:
    data = pickle.dumps(
        {"version": "2.4", "entries": [{"record_id": n, "profiling_name": f"{n:010d}"} for n in range(40)]}, protocol=2
    )
    assert data.count(b"\n") >= 4
    assert load_dump(data.replace(b"\n", b"\r\n")).problem.startswith("refused: fetched in text mode")
    assert not load_dump(data).problem.startswith("refused: fetched")


def test_a_bare_list_as_json_reads_like_the_pickle():
    """PyTorch 2.2 names no groups: their numbers count in each process, in whatever form the list came."""
    rows = pickle.loads(list_dump())
    by_pickle, by_json = load_dump(list_dump()), load_dump(json.dumps(rows).encode())
    assert (by_pickle.form, by_json.form) == ("list", "list")
    assert by_json.entries.rows == by_pickle.entries.rows == 3


@pytest.mark.parametrize(("backend", "states"), [("gloo", [3, 3]), ("nccl", [0, 0])])
def test_without_the_only_field_that_tells_an_end_states_show_nothing(backend: str, states: list[int]):
    """Gloo never calls an entry completed, it only retires it."""
    rows = [entry(seq, f"{backend}:all_reduce", state="scheduled") for seq in (1, 2)]
    for row in rows:
        del row["retired"]
    assert batch_of(dump(*rows)).calls.state.tolist() == states


@pytest.mark.parametrize(
    ("flags", "retired", "states"),
    [
        ([1, 0], [True, False], [0, 0]),
        ([True, None], [True, False], [0, 3]),
        ([0, 0], [False, False], [3, 3]),
        (["yes", 2], [False, False], [3, 3]),
    ],
)
def test_what_is_no_flag_does_not_say_that_a_call_is_open(flags: list[object], retired: list[bool], states: list[int]):
    """Gloo only retires an entry: one whose flag cannot be read shows nothing. Zeros beside ones are flags."""
    rows = [entry(seq, "gloo:all_reduce", state="scheduled", retired=flag) for seq, flag in enumerate(flags, 1)]
    calls = batch_of(dump(*rows)).calls
    assert (calls.retired.tolist(), calls.state.tolist()) == (retired, states)
    rows = [row | {"profiling_name": "nccl:all_reduce"} for row in rows]
    assert batch_of(dump(*rows)).calls.state.tolist() == [0, 0], "NCCL's states tell"
