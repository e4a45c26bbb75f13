"""The findings as a JUnit report: a CI system shows a job that hung as a failed test."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from nccldoctor.model import Diagnosis, Finding
from nccldoctor.model.causes import Family
from nccldoctor.reports import dialects, ticket
from nccldoctor.reports.parts import wording
from nccldoctor.words.sanitize import line, spelled_out

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


def to_junit(diagnosis: Diagnosis) -> str:
    """One suite with a test for each finding; the verdict's failure holds the ticket text. A job that ended well passes."""
    cases = [_case(finding) for finding in diagnosis.findings]
    failed = sum(len(case) for case in cases)
    if len(cases[0]):
        cases[0][0].text = _storable(ticket.in_dialect(diagnosis, dialects.DIALECTS["md"]))
    suites = ElementTree.Element("testsuites", name="nccldoctor")
    suite = ElementTree.SubElement(suites, "testsuite", name="nccldoctor", tests=str(len(cases)), failures=str(failed))
    suite.extend(cases)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _case(finding: Finding) -> ElementTree.Element:
    cause, headline = finding.cause, _storable(line(finding.headline, 1000))
    case = ElementTree.Element(
        "testcase", classname=f"nccldoctor.{cause.family.value}", name=wording.CLASSES[cause].title
    )
    if cause.family is not Family.NONE:
        failure = ElementTree.SubElement(case, "failure", type=cause.value, message=headline)
        failure.text = headline
    return case


def _storable(text: str) -> str:
    return _NO_XML.sub("?", str(spelled_out(text)))
