import json
from datetime import UTC, datetime
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from msgspec.structs import replace

from nccldoctor.events import CollectiveTimeout, Events, GroupRef, MonitoredBarrier, Progress, Setting, Stack
from nccldoctor.identify.case import Case, Reading
from nccldoctor.identify.groups import Groups
from nccldoctor.model import Gap, Place, Source, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, GroupConfig, Vocabulary
from nccldoctor.reports import inspect
from nccldoctor.reports.terminal.inspected import inspected_text


@pytest.fixture
def case():
    head = DumpHead(
        1, "fr_3", "dict", "2.9", 0, False, "nccl", "", (GroupConfig("0", "default_pg", (0, 1)),), (), False, "off"
    )
    events = (
        CollectiveTimeout(
            place=Place(0, "a.log", 5),
            text="x",
            rank=3,
            group_rank=1,
            time=datetime(1900, 11, 20, 9, 35, 10),
            group=GroupRef(0, "0", "default_pg"),
            op="ALLREDUCE",
        ),
        MonitoredBarrier(
            place=Place(0, "a.log", 6),
            text="\udc80\u202e",
            missing=Ranks([1, 2]),
            time=datetime(2026, 1, 2, tzinfo=UTC),
        ),
        Setting(place=Place(2, "b.log", 1), text="HF_TOKEN=hf_x", name="HF_TOKEN", value="hf_x"),
        Progress(place=Place(2, "b.log", 2), text="", rate=float("nan")),
        Stack(place=Place(2, "b.log", 3), text="", frames=("f (a.py:1)", "g (a.py:2)")),
    )
    return Case(
        sources=(
            Source(0, "a.log", SourceKind.LOG, 10, rank=3, why="its name"),
            Source(1, "fr_3", SourceKind.RECORDER, 5),
            Source(2, "b.log", SourceKind.LOG, 7),
        ),
        readings=(Reading(0, 10, 3, 2, "what \x1b[1m is this", "a.log:7", None, None),),
        events=Events(events),
        batch=Batch((head,), Calls.empty(), Vocabulary()),
        dump_rank=(3,),
        call_rank=np.zeros(0, np.int32),
        call_group=np.zeros(0, np.int32),
        naming=Groups((), {}, {}),
        world_size=4,
        seconds=np.zeros(len(events)),
        gaps=(Gap("fr_3", "no entries", Ranks([3]), 1),),
    )


def test_the_document_fits_its_schema(case):
    text = files("nccldoctor").joinpath("schema", "inspect.json").read_text(encoding="utf-8")

    jsonschema.Draft202012Validator(json.loads(text)).validate(json.loads(inspect.to_json(case)))


def test_events_stand_in_the_order_of_the_input_and_dumps_among_them(case):
    events = json.loads(inspect.to_json(case))["events"]

    assert [e["kind"] for e in events] == [
        "collective-timeout",
        "monitored-barrier",
        "recorder-dump",
        "setting",
        "progress",
        "stack",
    ]
    assert events[2] | {"rank": 3, "entries": 0, "wrapped": False, "version": "2.9", "where": "fr_3"} == events[2]
    assert events[2]["groups"] == [{"id": "0", "description": "default_pg", "members": "0-1"}]


def test_values_are_those_of_the_contract(case):
    events = json.loads(inspect.to_json(case))["events"]

    assert (events[0]["rank"], events[0]["group_rank"], events[0]["where"]) == (3, 1, "a.log:5")
    assert (events[0]["time"], events[0]["clock"]) == (None, "11-20T09:35:10")
    assert events[1]["time"] == "2026-01-02T00:00:00+00:00"
    assert events[1]["missing"] == "1-2"
    assert events[3]["value"] == "***"
    assert "hf_x" not in json.dumps(events[3])
    assert events[4]["rate"] is None
    assert events[5]["frames"] == ["f (a.py:1)", "g (a.py:2)"]


def test_the_text_lists_files_and_what_was_not_understood(case):
    text = inspected_text(case, 120)

    assert "a.log  log" in text
    assert "2/3" in text
    assert "a.log:7" in text
    assert "fr_3: no entries" in text
    assert "\x1b" not in text
    text.encode("utf-8")


@pytest.mark.parametrize(("width", "said"), [(160, ""), (40, "Columns that did not fit: ")])
def test_columns_without_room_are_named(case, width, said):
    text = inspected_text(case, width)

    head = text.splitlines()[0]
    _, label, told = " ".join(text.splitlines()).partition("Columns that did not fit: ")
    assert label == said
    assert ("known by" in head) is not ("known by" in told), "each column is shown or named"


def timed(case, width, times):
    sources = tuple(
        Source(n, f"logs/some/long/folder/rank_{n}.log", SourceKind.LOG, 1, rank=n, host="node0")
        for n in range(len(times))
    )
    readings = tuple(Reading(n, 10, 3, 2, None, None, first, last) for n, (first, last) in enumerate(times))
    empty = Batch((), Calls.empty(), Vocabulary())
    made = replace(case, sources=sources, readings=readings, events=Events(), batch=empty, dump_rank=(), gaps=())
    return inspected_text(made, width).splitlines()


def test_a_date_stands_once_and_utc_is_marked(case):
    day = "2026-11-20T11:32:44+00:00"
    rows = timed(case, 160, [(day, "2026-11-20T12:32:50.5+01:00"), (day, day), ("2026-11-21T00:00:01", None)])

    assert "2026-11-20 11:32:44Z  11:32:50Z" in rows[1]
    assert "  11:32:44Z             11:32:44Z" in rows[2]
    assert "2026-11-21 00:00:01" in rows[3]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_table_of_files_fits_and_keeps_the_end_of_a_path(case, width):
    rows = timed(case, width, [("2026-11-20T11:32:44+00:00", "2026-11-20T11:32:50+00:00")] * 12)

    assert all(len(row) <= width for row in rows)
    assert any("rank_11.log" in row for row in rows)
    assert "rank" in rows[0] and "kind" in rows[0]
