"""Attributions: what is left out of the next run is sure, and the example that drains by it does nothing by itself."""

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from builders.diagnoses import fixtures_diagnoses
from click.testing import CliRunner
from msgspec.structs import replace

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.cli.app import cli
from nccldoctor.model import Action, Confidence, ConfidenceIn
from nccldoctor.reports import attribution

DRAIN = Path(__file__).parents[3] / "docs" / "examples" / "drain.py"
SCHEMA = jsonschema.Draft202012Validator(
    json.loads(files("nccldoctor").joinpath("schema", "attribution.json").read_text(encoding="utf-8"))
)
EMPTY = {"nodes": [], "pods": [], "devices": []}


def attributed(name: str) -> dict:
    return json.loads(nccldoctor.analyze(nccldoctor.demo(name)).to_attribution())


@pytest.mark.parametrize("make", fixtures_diagnoses.EVERY)
def test_every_document_fits_its_schema(make) -> None:
    SCHEMA.validate(json.loads(attribution.to_json(make())))


def test_a_node_with_a_faulty_board_is_left_out_and_then_a_retry_may_help() -> None:
    document = attributed("hardware")

    SCHEMA.validate(document)
    assert (document["class"], document["ranks"]) == ("hardware", "4")
    assert document["confidence"] == {"ranks": "high", "class": "high"}
    assert document["exclude"] == {
        "nodes": ["worker001"],
        "pods": [],
        "devices": [{"node": "worker001", "device": "0000:18:00", "rank": 4}],
    }
    assert (document["retry"]["unchanged"], document["retry"]["without_excluded"]) == ("same-fault-returns", "may-help")
    assert document["evidence"][0]["where"] == "dmesg/worker001.dmesg.txt:5"


@pytest.mark.parametrize(
    ("name", "outlook"),
    [("late-rank-three-groups", "same-fault-returns"), ("died", "unknown"), ("network", "may-help")],
)
def test_a_fault_of_the_program_or_of_nobody_knows_what_leaves_no_node_out(name: str, outlook: str) -> None:
    document = attributed(name)

    assert document["exclude"] == EMPTY
    assert document["withheld"] == []
    assert document["retry"]["unchanged"] == document["retry"]["without_excluded"] == outlook


@pytest.mark.parametrize("level", [Confidence.MEDIUM, Confidence.LOW])
def test_a_node_that_is_only_suspected_is_withheld(level: Confidence) -> None:
    made = fixtures_diagnoses.lagging()
    finding = replace(made.verdict, confidence_in=ConfidenceIn(Confidence.HIGH, level))
    action = Action("after-replacing-node", "Its host may be at fault.", ("gpu-a018",))
    document = json.loads(attribution.to_json(replace(made, findings=(finding,), action=action)))

    assert document["exclude"] == EMPTY
    assert document["withheld"] == ["gpu-a018"]
    assert document["retry"]["without_excluded"] != "may-help"


def test_logs_that_leave_the_cause_open_exclude_nobody(tmp_path: Path) -> None:
    """The kernel's line alone names a node; without the logs of its job nothing shows that the job fell over it."""
    (tmp_path / "worker001.dmesg.txt").write_bytes(demo.contents("hardware")["dmesg/worker001.dmesg.txt"])
    document = json.loads(nccldoctor.analyze(tmp_path).to_attribution())

    assert document["confidence"]["class"] != "high"
    assert document["exclude"] == EMPTY
    assert document["withheld"] == ["worker001"]


def test_the_command_prints_it_for_every_end(tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["analyze", str(nccldoctor.demo("hardware")), "--format", "attribution"])
    missing = CliRunner().invoke(cli, ["analyze", str(tmp_path / "gone"), "--format", "attribution"])

    assert shown.exit_code == 1
    assert json.loads(shown.stdout) == attributed("hardware")
    assert missing.exit_code == 2
    SCHEMA.validate(json.loads(missing.stdout))


def drain(document: dict, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PATH": str(path)} if path else {})
    return subprocess.run(
        [sys.executable, str(DRAIN), *words],
        input=json.dumps(document),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_prints_what_it_would_run_and_runs_it_where_asked(tmp_path: Path) -> None:
    document = attributed("hardware")
    asked = tmp_path / "asked.txt"
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {asked}\n')
    (tmp_path / "scontrol").chmod(0o755)
    dry = drain(document, path=tmp_path)

    assert dry.stdout == ("scontrol update nodename=worker001 state=drain 'reason=nccldoctor: hardware, job unknown'\n")
    assert not asked.exists()
    assert drain(document, "--run", path=tmp_path).returncode == 0
    assert "nodename=worker001" in asked.read_text()
    assert drain(document, "--scheduler", "kubernetes").stdout == "kubectl cordon worker001\n"
    assert drain(attributed("died")).stdout == ""


@pytest.mark.parametrize("nodes", [["-f"], ["a;reboot"], ["n1", "n2"], ["ALL"], ["gpu[1-9]"]])
def test_the_example_refuses_names_that_no_host_has_and_too_many(nodes: list[str]) -> None:
    document = attributed("hardware")
    document["exclude"]["nodes"] = nodes

    assert drain(document).returncode == 1
    assert drain(document).stdout == ""
