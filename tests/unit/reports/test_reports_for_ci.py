"""SARIF and JUnit: what CI systems show of a diagnosis."""

import json
from xml.etree import ElementTree

import pytest
from builders.diagnoses import fixtures_diagnoses
from msgspec.structs import replace

from nccldoctor.model import Diagnosis
from nccldoctor.model.causes import Family
from nccldoctor.reports.junit import to_junit
from nccldoctor.reports.sarif import MOST_LOCATIONS, to_sarif

HOSTILE = "</failure><script>alert(1)</script>\x00\x1b]8;;http://evil\x07\ud800 & ]]>"


def hostile(diagnosis: Diagnosis) -> Diagnosis:
    verdict = replace(diagnosis.verdict, headline=HOSTILE)
    return replace(diagnosis, findings=(verdict, *diagnosis.findings[1:]))


@pytest.mark.parametrize("make", fixtures_diagnoses.EVERY)
def test_every_diagnosis_has_a_result_and_a_test_for_each_finding(make) -> None:  # type: ignore[no-untyped-def]
    diagnosis = make()
    healthy = diagnosis.verdict.cause.family is Family.NONE

    (run,) = json.loads(to_sarif(diagnosis))["runs"]
    suite = ElementTree.fromstring(to_junit(diagnosis).encode())[0]

    assert len(run["results"]) == len(suite) == len(diagnosis.findings)
    assert {result["ruleId"] for result in run["results"]} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert (run["results"][0]["kind"] == "pass") == healthy
    assert (suite[0].find("failure") is None) == healthy
    assert suite.get("tests") == str(len(diagnosis.findings))
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))


def test_a_result_tells_ranks_and_lines() -> None:
    diagnosis = fixtures_diagnoses.lagging()

    (result,) = json.loads(to_sarif(diagnosis))["runs"][0]["results"]

    lines = [
        (
            place["physicalLocation"]["artifactLocation"]["uri"],
            place["physicalLocation"].get("region", {}).get("startLine"),
        )
        for place in result["locations"]
    ]
    told = [item.where for item in diagnosis.verdict.evidence if item.supports and item.where]
    assert lines == [(where.path, where.line) for where in told]
    assert result["properties"]["ranks"] == str(diagnosis.verdict.ranks) == "5"
    assert result["level"] == "error"


def test_locations_are_bounded_and_paths_are_uris() -> None:
    diagnosis = fixtures_diagnoses.lagging()
    item = next(item for item in diagnosis.verdict.evidence if item.where is not None)
    odd = replace(item, where=replace(item.where, path="logs of node 1/größe#1.log"))
    verdict = replace(diagnosis.verdict, evidence=(odd,) * (MOST_LOCATIONS + 5))

    (result,) = json.loads(to_sarif(replace(diagnosis, findings=(verdict,))))["runs"][0]["results"]

    assert len(result["locations"]) == MOST_LOCATIONS
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "logs%20of%20node%201/gr%C3%B6%C3%9Fe%231.log"


def test_the_failure_of_the_verdict_holds_the_ticket() -> None:
    failure = ElementTree.fromstring(to_junit(fixtures_diagnoses.lagging()).encode()).find("testsuite/testcase/failure")

    assert failure is not None
    assert failure.get("type") == "not-arrived"
    assert failure.text is not None
    assert "**Do now**" in failure.text


def test_text_of_strangers_stays_text() -> None:
    root = ElementTree.fromstring(to_junit(hostile(fixtures_diagnoses.lagging())).encode())

    assert {node.tag for node in root.iter()} == {"testsuites", "testsuite", "testcase", "failure"}
    assert "\x00" not in to_sarif(hostile(fixtures_diagnoses.lagging()))
