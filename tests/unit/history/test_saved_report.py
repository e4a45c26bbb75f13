import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders.diagnoses import fixtures_diagnoses
from msgspec.structs import replace

import nccldoctor as nd
from nccldoctor.history.comparison import compare
from nccldoctor.history.fingerprint import Fingerprint, same_defect
from nccldoctor.history.saved_report import Accused, from_document
from nccldoctor.incident import Incident
from nccldoctor.model.errors import InputError


@pytest.fixture
def incident() -> Incident:
    return Incident(fixtures_diagnoses.lagging(), None)  # type: ignore[arg-type]


def document(**verdict: object) -> dict[str, object]:
    """A small document, with parts of its verdict replaced."""
    base = {
        "class": "not-arrived",
        "family": "absent",
        "confidence": "high",
        "confidence_in": {"ranks": "medium", "class": "high"},
        "headline": "Rank 3 never reached ALLREDUCE #9.",
        "ranks": "3",
        "stalled": {"op": "ALLREDUCE", "seq": 9, "group": "TP_GROUP (4)", "since": None},
    }
    return {
        "schema_version": "1.0",
        "verdict": base | verdict,
        "job": {"world_size": 16, "hosts": ["n1", "n2"]},
        "input": {"files": 3, "bytes": 100, "kinds": {}},
        "alarm": {"rank": 0, "time": "2026-11-20T11:00:00", "where": "a.log:3"},
        "ranks": [
            {"ranks": "3", "role": "culprit", "hosts": ["n1"], "device": "0000:18:00"},
            {"ranks": "0-2,4-15", "role": "waiting", "hosts": ["n1", "n2"], "device": None},
        ],
        "stacks": [
            {"rank": 3, "frames": [{"function": "forward", "file": "/opt/t/model.py", "line": 12, "own": True}]},
            {"rank": 0, "frames": [{"function": "all_reduce", "file": "/x/torch/d.py", "line": 1, "own": False}]},
        ],
        "streams": None,
        "timeline": {"start": 1_767_225_600.5},
    }


@pytest.mark.parametrize("suffix", [".json", ".html", ".zip"])
def test_it_is_read_from_every_form_of_a_report(incident: Incident, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("report.html", incident.to_html())
            archive.writestr("report.json", incident.to_json())
    else:
        path.write_text(incident.to_json() if suffix == ".json" else incident.to_html(), encoding="utf-8")

    report = nd.load(path)

    assert report.document == json.loads(incident.to_json())
    assert report.headline == incident.verdict.headline
    assert report.cause == "not-arrived"
    assert report.path == str(path)


def test_a_frame_that_it_does_not_have_is_named(incident: Incident, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(incident.to_json())
    with pytest.raises(AttributeError, match=r"no 'calls'.*nccldoctor\.analyze"):
        nd.load(tmp_path / "report.json").calls  # noqa: B018


def test_it_tells_who_was_at_fault_and_when() -> None:
    report = from_document(document())

    assert report.accused == (Accused(3, "n1", "0000:18:00"),)
    assert report.hosts == {"n1", "n2"}
    assert report.confidence_in_ranks == "medium", "in the ranks"
    assert report.happened == datetime(2026, 11, 20, 11, tzinfo=UTC)
    assert report.fingerprint == Fingerprint("not-arrived", "forward (model.py)", "TP_GROUP")


def test_the_begin_of_the_stall_comes_before_the_first_complaint() -> None:
    stalled = {"op": "ALLREDUCE", "seq": 9, "group": None, "since": "2026-11-20T12:00:00+02:00"}

    assert from_document(document(stalled=stalled)).happened == datetime(2026, 11, 20, 10, tzinfo=UTC)


def test_a_time_without_a_year_is_no_time() -> None:
    made = document() | {"alarm": {"time": None}}

    assert from_document(made).happened == datetime.fromtimestamp(1_767_225_600.5, UTC)
    assert from_document(made | {"timeline": {"start": 951_000_000.0}}).happened is None


def test_without_a_complaint_that_has_a_time_it_happened_at_the_first_event_of_the_incident() -> None:
    story = [
        {"role": "unrelated", "time": "2026-11-19T08:00:00"},
        {"role": "cascade", "time": None},
        {"role": "cascade", "time": "2026-11-20T11:00:04"},
    ]
    made = document() | {"alarm": {"time": None}, "story": story}

    assert from_document(made).clock == datetime(2026, 11, 20, 11, 0, 4), "no zone is claimed"
    assert from_document(made).happened == datetime(2026, 11, 20, 11, 0, 4, tzinfo=UTC)
    assert compare(from_document(made), from_document(made)).rows[-1].left == "2026-11-20 11:00:04"


def in_call(rank: int, call: str, function: str) -> dict[str, object]:
    """The frames of the newest call that a rank recorded, where no stack of it was taken."""
    frame = {"function": function, "file": "/opt/t/train.py", "line": 62, "own": True}
    return {"rank": rank, "what": f"newest recorded call: {call} [256] scheduled", "frames": [frame]}


@pytest.mark.parametrize(
    ("newest", "site"),
    [
        ("all_reduce #8 in TP_GROUP (4)", "loss (train.py)"),
        ("all_reduce #9 in DP_GROUP (1)", "loss (train.py)"),
        ("all_reduce #9 in TP_GROUP (4)", "step (train.py)"),
    ],
    ids=["the call before", "a call of another group", "the call that hung"],
)
def test_without_a_stack_the_line_is_that_of_the_call_that_hung(newest: str, site: str) -> None:
    peer = in_call(0, "all_reduce #9 in TP_GROUP (4)", "loss")
    made = document() | {"stacks": [in_call(3, newest, "step"), peer]}

    assert from_document(made).fingerprint.site == site


def test_no_line_is_told_where_no_record_of_the_call_that_hung_is_there() -> None:
    finished = in_call(3, "all_reduce #8 in TP_GROUP (4)", "step")
    side = {"seq": 9, "group": "TP_GROUP (4)", "site": "loss (train.py:66)"}
    streams = {"left": 3, "right": 0, "rows": [{"kind": "right-only", "left": None, "right": side}]}

    assert from_document(document() | {"stacks": [finished]}).fingerprint.site == ""
    assert from_document(document() | {"stacks": [finished], "streams": streams}).fingerprint.site == "loss (train.py)"


def test_stand_ins_of_a_redacted_report_are_no_hosts() -> None:
    made = document() | {"job": {"world_size": 16, "hosts": ["host-1", "host-2"]}}
    made["ranks"] = [{"ranks": "3", "hosts": ["host-1"]}]

    assert from_document(made).hosts == frozenset()
    assert from_document(made).accused == (Accused(3, None, None),)


def test_reports_about_the_same_files_are_one_incident() -> None:
    later = document(headline="Rank 3 was stuck.", confidence="medium")
    other = document() | {"input": {"files": 3, "bytes": 101, "kinds": {}}}

    assert from_document(document()).incident_id == from_document(later).incident_id
    assert from_document(document()).incident_id != from_document(other).incident_id


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not json", "no report of nccldoctor"),
        (b"[]", "no schema_version"),
        (b'{"schema_version": "9.0"}', "no schema_version 1"),
        (b'{"schema_version": "1.0", "verdict": {}}', "verdict.class"),
        (b"<!DOCTYPE html><p>another page", "holds no document"),
        (b"PK\x03\x04 broken", "no report of nccldoctor"),
        (b"[" * 100_000, "no report of nccldoctor"),
        (
            b'<!DOCTYPE html><script type="application/gzip;base64" id="document">AAAA</script>',
            "no report of nccldoctor",
        ),
        (json.dumps(document(ranks="0-99999999999")).encode(), "no job has so many ranks"),
        (json.dumps(document() | {"ranks": [{"ranks": "3", "hosts": 7}]}).encode(), "broken report"),
        (json.dumps(document() | {"alarm": {"time": "yesterday"}}).encode(), "broken report"),
    ],
)
def test_what_is_no_report_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)

    with pytest.raises(InputError, match=said) as raised:
        nd.load(path)
    assert "x.json" in raised.value.message


@pytest.mark.parametrize(("at", "value"), [(6, 1), (8, 97)], ids=["encrypted", "packed in an unknown way"])
def test_a_zip_that_cannot_be_unpacked_is_named(tmp_path: Path, at: int, value: int) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("report.json", "{}")
    content = bytearray(path.read_bytes())
    content[at] = content[content.index(b"PK\x01\x02") + at + 2] = value
    path.write_bytes(content)

    with pytest.raises(InputError, match="no report of nccldoctor"):
        nd.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        nd.load(tmp_path / "gone.json")


def test_the_site_is_that_of_the_call_where_no_stack_is_known() -> None:
    rows = [
        {"kind": "same", "left": {"site": "f (a.py:1)"}, "right": {"site": "f (a.py:1)"}},
        {"kind": "differs", "left": {"site": "g (b.py:22)"}, "right": {"site": "h (c.py:3)"}},
    ]
    made = document() | {"stacks": [], "streams": {"left": 3, "right": 0, "rows": rows}}

    assert from_document(made).fingerprint.site == "g (b.py)"
    assert from_document(made | {"streams": None}).fingerprint.site == ""


@pytest.mark.parametrize(
    ("named", "site"),
    [("Client.fetch", "fetch (a.py)"), ("fetch", "fetch (a.py)"), ("Job.run.<locals>.<lambda>", "<lambda> (a.py)")],
)
def test_the_function_is_named_alike_whatever_tool_took_the_stack(named: str, site: str) -> None:
    """py-spy prints the class of a method, faulthandler does not."""
    side = {"rank": 3, "what": "the stack", "frames": [{"own": True, "function": named, "file": "/job/a.py"}]}
    assert from_document(document() | {"stacks": [side]}).fingerprint.site == site


def test_two_incidents_are_laid_side_by_side(incident: Incident) -> None:
    again = from_document(document(headline="Rank 9 never reached ALLREDUCE #7.", ranks="3"))
    other = from_document(document(**{"class": "died"}))

    same = nd.compare(from_document(document()), again)
    different = nd.compare(from_document(document()), other)

    assert same.is_same_defect
    assert same.shared_hosts == ("n1",)
    assert [row.what for row in same.rows if row.is_different] == ["headline"]
    assert different.is_same_defect is False
    assert [row.what for row in different.rows if row.is_different] == ["class"]
    assert (
        str(same).splitlines()[0]
        == same.answer
        == "Same defect: not-arrived in forward (model.py). At fault in both: n1."
    )
    assert str(different).startswith("Different defects: another class.")
    assert repr(same) == f"<Comparison: {same.answer}>"
    assert "- class                not-arrived\n+ class                died" in str(different)
    assert nd.compare(incident, incident).rows[0].left == incident.verdict.headline


def test_a_class_alone_does_not_tell_whether_the_defect_is_the_same() -> None:
    bare = document(stalled=None) | {"stacks": []}

    assert nd.compare(from_document(bare), from_document(bare)).is_same_defect is None


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (Fingerprint("died", "f (a.py)", "DP"), Fingerprint("died", "f (a.py)", "DP"), True),
        (Fingerprint("died", "f (a.py)", "DP"), Fingerprint("died", "g (a.py)", "DP"), False),
        (Fingerprint("died", "f (a.py)", "DP"), Fingerprint("died", "", "TP"), False),
        (Fingerprint("died", "f (a.py)", "DP"), Fingerprint("died", "", "DP"), None),
        (Fingerprint("died", "f (a.py)", "DP"), Fingerprint("died", "f (a.py)", ""), True),
        (Fingerprint("undetermined", "", "DP"), Fingerprint("died", "", "DP"), None),
        (Fingerprint("undetermined", "", "DP"), Fingerprint("died", "", "TP"), False),
        (Fingerprint("died", "", "default_pg"), Fingerprint("died", "", "default_pg"), None),
        (Fingerprint("undetermined", "f (a.py)", ""), Fingerprint("undetermined", "f (a.py)", ""), None),
    ],
)
def test_defects_differ_only_in_what_both_reports_know(
    left: Fingerprint, right: Fingerprint, same: bool | None
) -> None:
    assert same_defect(left, right) is same
    assert same_defect(right, left) is same


def test_saved_reports_are_values() -> None:
    report = from_document(document())

    assert replace(report, path="x").document is report.document
