"""``Incident.source`` reads quoted lines again."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.discover.streams import HEAD
from nccldoctor.incident import Incident
from nccldoctor.model.errors import InputError

CHECKPOINT = "checkpoint of step 1550 written in 639.2 s"


@pytest.fixture
def incident(tmp_path: Path) -> Incident:
    demo.write("straggler", tmp_path / "job")
    return nccldoctor.analyze(tmp_path / "job")


def quoting(incident: Incident) -> str:
    return next(e.id for e in incident.diagnosis.proof if e.lines and CHECKPOINT in e.lines.shown[0].text)


def test_an_exhibit_has_the_lines_of_its_file(incident: Incident) -> None:
    found = incident.source(quoting(incident), context=1)

    assert [line.number for line in found.lines] == [24, 25, 26]
    assert found.lines[1].text == CHECKPOINT
    assert f"> 25  {CHECKPOINT}" in repr(found)
    assert f"<b>25 {CHECKPOINT}</b>" in found._repr_html_()


def test_an_id_of_evidence_means_the_same_in_json_frame_and_source(incident: Incident) -> None:
    document = json.loads(incident.to_json())["verdict"]
    in_frame = incident.evidence[incident.evidence.finding == "F1"]

    assert [piece["id"] for piece in document["evidence"]] == list(in_frame["id"])
    for piece in document["evidence"]:
        path, _, number = piece["where"].rpartition(":")
        if number.isdecimal():
            found = incident.source(piece["id"], context=0)
            assert (found.path, {int(number)}) == (path, found.quoted)
    assert {reason["evidence"] for reason in document["why"]} - {None} <= {
        piece["id"] for piece in document["evidence"]
    }


def test_an_exhibit_has_one_id_in_json_page_terminal_and_report(incident: Incident) -> None:
    page, text, report = incident.to_html(), incident.to_full_text(width=400), incident.to_full_markdown()
    for exhibit in json.loads(incident.to_json())["proof"]:
        shown = re.search(rf'id="exhibit-{exhibit["id"]}".*?<h3>.*?</h3>', page, re.DOTALL)
        assert shown is not None
        assert exhibit["claim"] in html.unescape(shown[0])
        assert f"\n{exhibit['id']}: {exhibit['claim']}" in text
        assert f"\n- {exhibit['id']}: " in report


def test_evidence_is_named_by_its_finding(incident: Incident) -> None:
    assert CHECKPOINT in incident.source("F1.E1").text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("E99", "no exhibit"),
        ("F1.E99", "no exhibit"),
        ("F1.1", "no exhibit"),
        ("E", "no exhibit"),
        ("D", "no exhibit"),
    ],
)
def test_what_has_no_lines_is_a_clear_error(incident: Incident, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        incident.source(name)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    demo.write("straggler", tmp_path / "job")
    log = tmp_path / "job" / "gpu-17/run374853/attempt_0/0/stdout.log"
    with log.open("a") as more:
        more.write("-\n" * HEAD)  # a smaller file is kept in memory
    incident = nccldoctor.analyze(tmp_path / "job")
    log.unlink()
    with pytest.raises(InputError, match=r"0/stdout\.log:25 can't be read again"):
        incident.source(quoting(incident))


def test_a_redacted_copy_reads_no_file(incident: Incident) -> None:
    with pytest.raises(InputError, match="no files to read again"):
        incident.redacted(["hosts"]).source(quoting(incident))
