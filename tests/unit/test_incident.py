import doctest
import importlib
import json
import subprocess
import sys
from datetime import datetime
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders.diagnoses import bundled, fixtures_diagnoses
from msgspec.structs import replace

import nccldoctor
from nccldoctor import dataframes
from nccldoctor.cli import demo
from nccldoctor.events import CollectiveTimeout, Events, Heartbeat
from nccldoctor.history.saved_report import from_document
from nccldoctor.identify.case import Case
from nccldoctor.identify.groups import Groups
from nccldoctor.incident import FRAMES, Incident
from nccldoctor.ingest import excerpts
from nccldoctor.ingest.excerpts import read_excerpts
from nccldoctor.model import Group, Place, RankState, Role, Source, SourceKind
from nccldoctor.model.errors import OutputError
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, Vocabulary
from nccldoctor.model.standings import RankWait, WaitedCall, WaitTimes
from nccldoctor.model.steps import JobEnd, JobState
from nccldoctor.reports import json_document


@pytest.fixture
def incident():
    calls = Calls.build(
        {
            "dump": [0, 0, 0],
            "entry": [0, 1, 2],
            "seq": [5, 6, -1],
            "p2p_seq": [-1, -1, 2],
            "op": [0, 1, 0],
            "sizes": [0, 1, -1],
            "dtypes": [0, 0, -1],
            "numel_in": [6, -1, 1],
            "state": [2, 0, 1],
            "retired": [True, False, False],
            "created_ns": [1_700_000_000_000_000_001, 1_700_000_001_000_000_000, 0],
            "timeout_ms": [600_000, -1, -1],
            "stack": [1, 0, 2],
        }
    )
    words = Vocabulary(
        groups=(("0", "default_pg"),),
        ops=("all_reduce", "send 0->1"),
        sizes=((((2, 3),), ((6,),)), (((),), ())),
        dtypes=((("Float",), ("Float",)),),
        stacks=(
            (),
            (("all_reduce", "/x/site-packages/torch/d.py", 9), ("step", "/opt/train/t.py", 4)),
            (("f", "/x/site-packages/torch/a.py", 1),),
        ),
    )
    head = DumpHead(0, "fr/3", "dict", "2.9", 3, False, "nccl", "", (), (), True)
    case = Case(
        sources=(Source(0, "fr/3", SourceKind.RECORDER, 5), Source(1, "a.log", SourceKind.LOG, 5)),
        readings=(),
        events=Events(
            (
                CollectiveTimeout(
                    place=Place(1, "a.log", 5),
                    text="x",
                    rank=3,
                    time=datetime.fromisoformat("2026-01-02T03:04:05+02:00"),
                ),
                Heartbeat(place=Place(1, "a.log", 6), text="y", time=datetime(1900, 11, 20, 9), step=7),
            )
        ),
        batch=Batch((head,), calls, words),
        dump_rank=(3,),
        call_rank=np.array([3, 3, -1], np.int32),
        call_group=np.array([0, -1, 0], np.int32),
        naming=Groups((Group(0, "0", "default_pg", Ranks([0, 3]), "config"),), {}, {}),
        world_size=4,
        seconds=np.array([1_767_315_845.0, 1_795_165_200.0]),
    )
    return Incident(fixtures_diagnoses.lagging(), case)


def test_calls_have_names_times_and_missing_values(incident):
    calls = incident.calls

    assert calls["global_rank"].dtype == "Int64"
    assert list(calls["global_rank"])[:2] == [3, 3]
    assert calls["global_rank"].isna().tolist() == [False, False, True]
    assert calls["seq"].tolist()[:2] == [5, 6]
    assert calls["seq"].isna().tolist() == [False, False, True]
    assert calls["op"].tolist() == ["ALLREDUCE", "SEND", "ALLREDUCE"]
    assert calls["recorded_op"].tolist() == ["all_reduce", "send 0->1", "all_reduce"]
    assert calls["group"].iloc[0] == "default_pg (0)"
    assert calls["group"].isna().tolist() == [False, True, False]
    assert calls["sizes"].iloc[0] == "2x3 -> 6"
    assert calls["state"].tolist() == ["completed", "scheduled", "started"]
    assert calls["retired"].tolist() == [True, False, False]
    assert calls["created"].iloc[0] == pd.Timestamp(1_700_000_000_000_000_001, tz="UTC")
    assert calls["created"].isna().tolist() == [False, False, True]
    assert calls["timeout_ms"].iloc[0] == 600_000
    assert calls["path"].tolist() == ["fr/3"] * 3
    assert calls["entry"].tolist() == [0, 1, 2]


def test_the_frame_is_the_innermost_of_the_users_own_code(incident):
    assert incident.calls["frame"].iloc[0] == "step (/opt/train/t.py:4)"
    assert pd.isna(incident.calls["frame"].iloc[1])
    assert incident.calls["frame"].iloc[2] == "f (/x/site-packages/torch/a.py:1)"


def test_calls_tell_who_was_late_and_who_waited(incident):
    second = 1_000_000_000
    calls = Calls.build(
        {
            "dump": [0, 1, 2, 0, 1, 0],
            "entry": [0, 0, 0, 1, 1, 2],
            "seq": [5, 5, 5, 6, -1, 5],
            "p2p_seq": [-1, -1, -1, -1, 1, 1],
            "created_ns": [9 * second, 11 * second, 10 * second, 12 * second, 13 * second, 50 * second],
            "is_p2p": [False, False, False, False, True, True],
            "state": [1, 2, 1, 1, 1, 1],
        }
    )
    ranks = np.array([0, 1, 2, 0, 1, 0], np.int32)

    def frame_of(calls: Calls, members: int) -> pd.DataFrame:
        batch = Batch(incident.case.dumps * 3, calls, Vocabulary(groups=(("0", "default_pg"),)))
        naming = Groups((Group(0, "0", "default_pg", Ranks(range(members)), "config"),), {}, {})
        case = replace(
            incident.case, batch=batch, dump_rank=(0, 1, 2), call_rank=ranks, call_group=np.zeros(6, np.int32)
        )
        return Incident(incident.diagnosis, replace(case, naming=naming)).calls

    frame = frame_of(calls, 4)
    assert frame["lateness_ms"].tolist()[:3] == [0, 2000, 1000]
    assert frame["wait_ms"].tolist()[:3] == [2000, 0, 1000]
    assert frame[["lateness_ms", "wait_ms"]].iloc[3:].isna().all(axis=None), "one rank alone, a send, a receive"

    hung = replace(calls, state=np.ones_like(calls.state))
    assert frame_of(hung, 3)["wait_ms"].tolist()[:3] == [2000, 0, 1000], "every member issued it"
    assert frame_of(hung, 4)["wait_ms"].isna().all(), "they wait for a rank that never issued it"
    assert frame_of(hung, 4)["lateness_ms"].tolist()[:3] == [0, 2000, 1000]


def test_every_event_with_a_time_has_it_in_utc(incident):
    events = incident.events

    assert events["kind"].tolist() == ["collective-timeout", "heartbeat"]
    assert events["time"].iloc[0] == pd.Timestamp("2026-01-02T01:04:05Z")
    assert events["time"].iloc[1] == pd.Timestamp("2026-11-20T09:00:00Z")
    assert events["tz_known"].tolist() == [True, False]
    assert events["clock"].iloc[1] == "11-20T09:00:00"
    assert events["fields"].iloc[1]["step"] == 7
    assert (events["path"].iloc[0], events["line"].iloc[0]) == ("a.log", 5)


@pytest.mark.parametrize("name", FRAMES)
def test_no_column_hides_a_method_of_frames(incident, name):
    frame = getattr(incident, name)

    assert not [column for column in frame.columns if hasattr(pd.DataFrame(), column)]
    assert not [column for column in frame.columns if not column.isidentifier()]


@pytest.mark.parametrize("name", FRAMES)
def test_every_column_is_described(incident, name):
    said = getattr(dataframes, name).__doc__
    assert not [column for column in getattr(incident, name).columns if f"``{column}``" not in said]


def test_ranks_tell_for_whom_and_how_long_they_waited():
    ranks = nccldoctor.analyze(files("nccldoctor.samples") / "straggler").ranks.set_index("global_rank")
    assert pd.isna(ranks.waits_for[0]) and pd.isna(ranks.waited_ms[0])
    assert ranks.waits_for[1:].tolist() == ["0"] * 7
    assert ranks.waited_ms[1:].tolist() == [600_073, 600_092, 600_090, 600_012, 600_013, 600_068, 600_064], "as printed"


def test_waits_tell_the_call_that_the_late_rank_never_made():
    incident = nccldoctor.analyze(files("nccldoctor.samples") / "late-rank-three-groups")
    waits = incident.waits.set_index("global_rank")

    late = waits[waits.arrival == "missing"]
    assert late[["finding", "op", "seq", "group"]].to_numpy().tolist() == [
        ["F1", "ALLREDUCE", 9, "TENSOR_MODEL_PARALLEL_GROUP (1)"]
    ]
    assert late.index.tolist() == [1] and late.remark.str.startswith("did not make this call").all()
    assert (waits.waits_for[0], waits.waited_ms[0], waits.timeout_ms[0]) == ("1", 8000, 8000)
    assert waits.remark[0] == "its line about the timeout has no time: waited_ms is the timeout"
    assert waits.waits_for[[2, 3, 6, 7]].tolist() == ["0", "1", "4", "5"] and waits.finding[[2, 3, 6, 7]].isna().all()
    assert waits.since[[0, 2, 3, 6, 7]].is_unique, "each rank has its own"
    ranks = incident.ranks.set_index("global_rank")
    assert waits.waited_ms.dropna().to_dict() == ranks.waited_ms.dropna().to_dict()


def test_a_call_has_one_spelling_in_all_frames():
    incident = nccldoctor.analyze(files("nccldoctor.samples") / "unmatched-p2p")
    spelled = {*incident.waits.op, *incident.findings.op}

    assert spelled <= {*incident.calls.op} and "_REDUCE_SCATTER_BASE" in spelled


def test_two_findings_of_one_call_make_one_row_for_each_rank(incident):
    twice = replace(incident.unquoted.findings[0], id="F2")
    waits = dataframes.waits(replace(incident.unquoted, findings=(*incident.unquoted.findings[:1], twice)))

    assert len(waits) and not waits.global_rank.duplicated().any()
    assert set(waits.finding.dropna()) == {"F1"}


def test_without_dumps_the_lines_of_the_watchdogs_tell_how_long_each_rank_waited():
    incident = nccldoctor.analyze(files("nccldoctor.samples") / "slow-norms")
    waits = incident.waits.set_index("global_rank")

    entered = waits[waits.arrival == "entered"]
    assert len(incident.calls) == 0 and len(entered) == 7
    assert entered.waited_ms.nunique() > 1 and (entered.waited_ms >= entered.timeout_ms).all()
    assert waits.attrs["remark"].startswith("no flight recorder dump")
    assert incident.calls.attrs["remark"] == "no flight recorder dump was read"


def test_logs_of_gloo_alone_tell_who_never_made_the_call_and_who_waited_for_it():
    logs = files("nccldoctor.samples") / "not-arrived"
    incident = nccldoctor.analyze([logs / "node0", logs / "node1"])
    waits = incident.waits.set_index("global_rank")

    assert incident.verdict.victims == {0, 1, 2, 3, 4, 5, 7}
    assert waits.index[waits.arrival == "missing"].tolist() == [6]
    entered = waits[waits.arrival == "entered"]
    assert (entered.waited_ms == 8000).all() and (entered.timeout_ms == 8000).all()
    assert entered.op.to_dict() == dict.fromkeys((0, 1, 4, 5, 7), "ALLREDUCE") | {2: "SEND", 3: "RECV"}
    assert entered.waits_for.isna().all(), (
        "their tracebacks stand in different calls: rank 6 is not missing in all of them"
    )
    assert entered.remark.str.startswith("no file numbers the call; nothing shows for which rank it waits").all()
    assert not waits.tz_known.any(), "no line names its zone"


def test_before_the_first_call_the_missing_rank_stands_beside_those_that_wait_in_init():
    waits = nccldoctor.analyze(files("nccldoctor.samples") / "init").waits.set_index("global_rank")

    assert waits.arrival.to_dict() == {rank: "missing" if rank == 2 else "entered" for rank in range(8)}
    assert set(waits.op) == {"init"} and set(waits.finding) == {"F1"}


def test_a_victim_of_a_call_without_a_name_stands_once_where_its_own_lines_name_one(incident):
    call = WaitedCall("dp", "ALLREDUCE", 4)
    states = (RankState(0, Role.WAITING, wait=RankWait(call)), RankState(1, Role.WAITING), RankState(5, Role.CULPRIT))
    no_call = replace(incident.verdict, stalled=None, ranks=Ranks([5]), victims=Ranks([0, 1]))
    waits = dataframes.waits(replace(incident.unquoted, ranks=states, findings=(no_call,))).set_index("global_rank")

    assert waits.arrival.to_dict() == {1: "entered", 5: "missing", 0: "entered"}
    assert waits.seq[0] == 4 and pd.isna(waits.seq[1])
    assert waits.waits_for[1] == "5"


def test_an_empty_frame_of_waits_says_why(incident):
    well = nccldoctor.analyze(files("nccldoctor.samples") / "healthy").waits
    no_call = replace(incident.verdict, stalled=None, victims=Ranks())
    nameless = replace(incident.unquoted, findings=(no_call,), sources=())
    unread = replace(nameless, ranks=())

    assert (len(well), well.attrs["remark"]) == (0, "no rank waits: nothing hangs")
    assert [len(dataframes.waits(one)) for one in (nameless, unread)] == [0, 0]
    assert dataframes.waits(nameless).attrs["remark"].startswith("no file names a call that ranks wait in; no flight")
    assert dataframes.waits(unread).attrs["remark"] == "no line shows of which rank it is"


def test_a_rank_stands_in_the_group_whose_call_it_waits_in():
    ranks = nccldoctor.analyze(files("nccldoctor.samples") / "unmatched-p2p").ranks.set_index("global_rank")

    assert ranks.waits_in[7].startswith("COALESCED #2 of mesh_pp 12")
    assert ranks.group[7] == "mesh_pp (12)" and pd.isna(ranks.enqueued[7])


@pytest.mark.parametrize("name", ["network", "unmatched-p2p", "hardware", "init", "order-inversion", "died", "frozen"])
def test_every_unknown_value_of_waits_is_explained_and_each_rank_stands_in_a_call_once(name):
    waits = nccldoctor.analyze(files("nccldoctor.samples") / name).waits

    open_rows = waits[waits.waits_for.isna() | waits.waited_ms.isna()]
    assert len(waits) and open_rows.remark.notna().all()
    assert not waits.duplicated(["group", "seq", "global_rank"]).any()


def test_of_a_job_that_still_runs_the_wait_goes_until_the_newest_look(incident):
    seen = datetime.fromisoformat("2026-11-22T11:20:00+00:00")
    call = WaitedCall("dp", "ALLREDUCE", 4)
    state = RankState(0, Role.WAITING, wait=RankWait(call, times=WaitTimes(since=seen.timestamp() - 90)))
    no_call = replace(incident.verdict, stalled=None, victims=Ranks())
    running = replace(
        incident.unquoted, ranks=(state,), job_end=JobEnd(JobState.RUNNING, seen=seen), findings=(no_call,)
    )
    row = dataframes.waits(running).iloc[0]

    assert (row.waited_ms, row.seq) == (90_000, 4)
    assert "no end is recorded" in row.remark


def test_where_nothing_shows_the_start_of_a_wait_stands_when_the_rank_printed_last(incident):
    last = datetime.fromisoformat("2026-11-22T11:20:00+00:00")
    state = RankState(0, Role.WAITING, wait=RankWait(WaitedCall("dp", "ALLREDUCE", 4)), last_line=last.timestamp())
    silent = replace(
        incident.unquoted, ranks=(state,), findings=(replace(incident.verdict, stalled=None, victims=Ranks()),)
    )
    row = dataframes.waits(silent).iloc[0]

    assert pd.isna(row.since) and row.last_line == pd.Timestamp(last)
    assert "last_line is when it printed last" in row.remark
    assert dataframes.ranks(silent).last_line[0] == row.last_line


def test_a_redacted_copy_holds_nothing_raw(incident):
    line = "stor-07.corp.example: anna@stor-07 asked 10.12.0.7 for /home/anna/data/x.idx"
    event = replace(incident.case.events[0], text=line, host="stor-07")
    raw = Incident(incident.diagnosis, replace(incident.case, events=Events([event, *incident.case.events[1:]])))
    copy = raw.redacted(("hosts", "users", "paths", "addresses"))

    told = copy.calls.to_csv() + copy.events.to_csv() + repr(copy.case)
    for gone in ("stor-07", "anna", "10.12.0.7", "/home", "/opt/train"):
        assert gone in raw.calls.to_csv() + raw.events.to_csv()
        assert gone not in told
    assert "/t.py" in copy.calls["frame"].iloc[0]
    assert copy.calls["seq"].equals(raw.calls["seq"])
    assert copy.to_json() == raw.redacted(("addresses", "hosts", "paths", "users")).to_json()


@pytest.mark.parametrize("name", FRAMES)
def test_every_access_gives_a_copy(incident, name):
    first = getattr(incident, name)
    columns = list(first.columns)
    del first[columns[0]]

    assert list(getattr(incident, name).columns) == columns


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("make", fixtures_diagnoses.EVERY)
def test_frames_of_any_diagnosis_are_built(incident, name, make):
    frame = getattr(Incident(make(), incident.case), name)

    assert not any(str(dtype) == "object" for column, dtype in frame.dtypes.items() if column != "fields")


def test_evidence_rows_have_file_and_line(incident):
    row = incident.evidence.iloc[1]

    assert (row["path"], row["line"]) == ("rank_1.log", 812)


def test_it_greets_with_one_line_and_with_a_card(incident):
    assert repr(incident).count("\n") == 0
    assert repr(incident).startswith("<Incident not-arrived, confidence high: Rank 5")
    assert "nccldoctor-card" in incident._repr_html_()
    assert incident._repr_markdown_() == incident.to_markdown()


def test_public_values_print_one_short_line(incident):
    saved = from_document(json.loads(incident.to_json()))
    values = [
        incident,
        incident.diagnosis,
        incident.verdict,
        incident.verdict.evidence[0],
        saved,
        nccldoctor.compare(saved, saved),
    ]

    for value in [*values, *incident.diagnosis.remedies]:
        assert repr(value).startswith(f"<{type(value).__name__}"), repr(value)
        assert len(repr(value)) < 400 and "\n" not in repr(value)


def test_a_saved_report_has_the_same_type_of_verdict(incident):
    saved, fresh = from_document(json.loads(incident.to_json())).verdict, incident.verdict

    assert type(saved) is type(fresh)
    for name in (
        "id",
        "cause",
        "confidence",
        "confidence_in",
        "headline",
        "ranks",
        "suspects",
        "victims",
        "refuted_by",
    ):
        assert getattr(saved, name) == getattr(fresh, name)
    assert [piece.says for piece in saved.evidence] == [piece.says for piece in fresh.evidence]


def test_ranks_have_the_roles_that_the_page_draws():
    incident = bundled.incident("late-rank-three-groups")
    drawn = {rank: standing.involvement for standing in incident.diagnosis.standings for rank in standing.ranks}

    assert incident.ranks.set_index("global_rank").role.to_dict() == {r: str(seen) for r, seen in drawn.items()}
    assert set(incident.ranks.role) == {"culprit", "waiting", "blocked"}


def test_an_exhibit_of_a_dump_is_its_entry_in_words():
    incident = bundled.incident("late-rank-three-groups")
    for exhibit in incident.diagnosis.proof:
        assert incident.source(exhibit.id).text
    shown = incident.source("A")

    assert shown.lines[0].text.startswith("all_reduce #9 in TENSOR_MODEL_PARALLEL_GROUP (1)")
    assert repr(shown).splitlines()[0] == f"{shown.path}:{shown.lines[0].number}"


def test_it_shows_what_the_reports_show(incident):
    assert incident.to_json() == json_document.to_json(incident.diagnosis)
    assert incident.verdict is incident.diagnosis.findings[0]
    assert incident.to_html().startswith("<!DOCTYPE html>")
    assert "\x1b[" in incident.to_text(color=True)
    assert "\x1b[" not in incident.to_text()
    incident.to_text(ascii_only=True).encode("ascii")


def test_pandas_and_rich_come_only_when_asked_for():
    code = (
        "import sys; from builders.diagnoses import fixtures_diagnoses; from nccldoctor.incident import Incident; "
        "i = Incident(fixtures_diagnoses.lagging(), None); i.to_json(); i.to_text(); i.to_html(); i.to_markdown(); "
        "print(sorted({'pandas', 'rich', 'plotly'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
        timeout=60,
    )

    assert done.stdout == "[]\n"


def test_files_are_opened_again_once_for_their_last_lines_and_once_for_a_report_that_quotes_lines(
    tmp_path, monkeypatch
):
    demo.write(demo.DEFAULT, tmp_path / "job")
    opened = []
    monkeypatch.setattr(excerpts, "read_excerpts", lambda *args: opened.append(args) or read_excerpts(*args))
    incident = nccldoctor.analyze(tmp_path / "job")

    document = incident.to_json()
    assert incident.verdict.headline
    assert len(incident.evidence)
    assert incident.plot.timeline() is not None
    assert len(opened) == 1

    assert "refresh_expert_table" in incident.to_text()
    assert "refresh_expert_table" in incident.to_html()
    assert len(opened) == 2
    assert incident.to_json() == document


def test_frames_are_written_as_parquet_and_come_back(incident, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")

    paths = incident.to_parquet(tmp_path / "frames")

    assert [path.name for path in paths] == [f"{name}.parquet" for name in FRAMES]
    events = pd.read_parquet(tmp_path / "frames" / "events.parquet")
    assert events["time"].tolist() == incident.events["time"].tolist()
    assert json.loads(events["fields"].iloc[1])["step"] == 7
    assert len(pd.read_parquet(tmp_path / "frames" / "calls.parquet")) == 3


def test_without_pyarrow_the_extra_is_named(incident, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OutputError) as raised:
        incident.to_parquet(tmp_path / "frames")
    assert "hint: pip install 'nccldoctor[parquet]'" in raised.value.__notes__


def test_a_folder_that_cannot_be_written_is_named(incident, tmp_path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(OutputError, match="cannot write"):
        incident.to_parquet(tmp_path / "file" / "frames")


@pytest.mark.parametrize("name", ["incident", "history.saved_report", "history.comparison", "pipeline", "cli.demo"])
def test_examples_of_the_api_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"nccldoctor.{name}")

    result = doctest.testmod(module)

    assert (result.attempted > 2, result.failed) == (True, 0)


def test_completion_offers_the_public_names_alone():
    assert dir(nccldoctor) == sorted(nccldoctor.__all__)
    assert all(getattr(nccldoctor, name).__doc__ for name in nccldoctor.__all__ if not name.startswith("_"))
