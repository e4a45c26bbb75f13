"""Every bundled incident through the public call, judged by its ``expected.toml`` and nothing else."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.page import answer

NAMES = [sample.name for sample in demo.samples()]
SCALE = [Confidence.CANNOT_TELL, Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH]
KNOWN = {
    "": {"about", "origin", "verdict", "action", "must_find", "must_not_find", "remedies", "avoid"},
    "origin": {"kind", "how", "versions", "notes"},
    "verdict": {
        "class", "ranks", "suspects", "stalled", "op", "seq", "confidence_at_least", "confidence_at_most",
    },
    "action": {"restart"},
    "must_find": {"events", "classes"},
    "must_not_find": {"classes", "blamed"},
    "remedies": {"first", "absent"},
    "avoid": {"what"},
}  # fmt: skip


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any]:
    folder = tmp_path_factory.mktemp("incident") / request.param
    demo.write(request.param, folder)
    return tomllib.loads(demo.expected(request.param)), nccldoctor.analyze(folder)


def test_expectations_use_known_words_only(case: tuple[dict[str, Any], Any]) -> None:
    expected, _ = case
    assert set(expected) <= KNOWN[""]
    for section, value in expected.items():
        if isinstance(value, dict):
            assert set(value) <= KNOWN[section], section
    assert expected["origin"]["kind"] in ("recorded", "written", "simulated")
    classes = set(expected["verdict"]["class"]) | set(expected["must_not_find"]["classes"])
    assert classes <= {str(cause) for cause in CauseClass}


def test_verdict(case: tuple[dict[str, Any], Any]) -> None:
    expected, incident = case
    want, verdict = expected["verdict"], incident.verdict
    told = f"{verdict.cause} {verdict.ranks} ({verdict.confidence}): {verdict.headline}"
    assert verdict.cause in want["class"], told
    assert str(verdict.ranks) == want["ranks"], told
    if "suspects" in want:
        assert str(verdict.suspects) == want["suspects"], told
    if "confidence_at_least" in want:
        assert SCALE.index(verdict.confidence) >= SCALE.index(Confidence(want["confidence_at_least"])), told
    if "confidence_at_most" in want:
        assert SCALE.index(verdict.confidence) <= SCALE.index(Confidence(want["confidence_at_most"])), told


def test_stalled_call(case: tuple[dict[str, Any], Any]) -> None:
    expected, incident = case
    want, stalled = expected["verdict"], incident.verdict.stalled
    if want.get("stalled") is False:
        assert stalled is None
    if "op" in want:
        assert stalled is not None
        assert stalled.op == want["op"]
    if "seq" in want:
        assert stalled is not None
        assert stalled.seq == want["seq"]


def test_what_must_be_found(case: tuple[dict[str, Any], Any]) -> None:
    expected, incident = case
    want = expected.get("must_find", {})
    assert set(want.get("events", [])) <= {event.kind for event in incident.case.events}
    assert set(want.get("classes", [])) <= {finding.cause for finding in incident.diagnosis.findings}


def test_what_must_not_be_found(case: tuple[dict[str, Any], Any]) -> None:
    expected, incident = case
    want = expected["must_not_find"]
    innocent = Ranks.parse(want.get("blamed", ""))
    for finding in incident.diagnosis.findings:
        assert finding.cause not in want.get("classes", []), finding.headline
        assert not finding.ranks & innocent, finding.headline


def test_remedies(case: tuple[dict[str, Any], Any]) -> None:
    expected, incident = case
    want, given = expected.get("remedies", {}), [advice.id for advice in incident.diagnosis.remedies]
    if "first" in want:
        assert given, "no remedy at all"
        assert given[0] in want["first"], given
    assert not set(want.get("absent", [])) & set(given)


def test_restart(case: tuple[dict[str, Any], Any]) -> None:
    expected, incident = case
    action = incident.diagnosis.action
    assert action.restart == expected["action"]["restart"], action.why


def test_steps(case: tuple[dict[str, Any], Any]) -> None:
    """Few, none with a look at a process that is gone, and the restart among them."""
    _, incident = case
    steps, verdict = incident.diagnosis.action.steps, incident.diagnosis.verdict
    assert len(steps) <= 3
    assert verdict.family == "none" or sum(step.kind == "restart" for step in steps) == 1
    if incident.diagnosis.job_end.state != "running":
        pids = {str(state.pid) for state in incident.diagnosis.ranks if state.pid is not None}
        for step in steps:
            assert not pids & set((step.command or "").replace("'", " ").split()), step.command


def test_what_to_avoid(case: tuple[dict[str, Any], Any]) -> None:
    expected, incident = case
    said = {avoid.what.partition("=")[0].strip(): avoid for avoid in incident.diagnosis.avoid}
    for what in expected.get("avoid", {}).get("what", []):
        assert what in said, sorted(said)
        assert said[what].where, f"{what} was seen in the input, but no place is given"


def test_every_document_fits_the_incident(case: tuple[dict[str, Any], Any]) -> None:
    _, incident = case
    for text in (incident.to_json(), incident.to_markdown()):
        assert str(incident.verdict.cause) in text
    status = answer.status_line(incident.diagnosis)
    assert (str(incident.verdict.cause) if status.cause else status.kind) in incident.to_html()
