"""A log inside the records of a collector is read as if it stood alone; the record adds time, node and pod."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nccldoctor.events import CollectiveTimeout, ExceptionRaised
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import Parsed
from nccldoctor.parsers.wrappers.collected_log import CollectedLogParser

TIMEOUT = (
    "[rank1]:[E705 10:15:02.100000000 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
)
TRACE = ("Traceback (most recent call last):", '  File "/opt/t.py", line 4, in load', "    f()", "ValueError: bad")


def parsed(text: str) -> Parsed:
    parser, content = CollectedLogParser(), text.encode()
    assert parser.claims(content[: 64 << 10], "a.log")
    return parser.parse(Source(0, "a.log", SourceKind.JSON, len(content)), content)


def lines(*records: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def in_pod(pod: str, text: str) -> dict[str, Any]:
    return {"message": text, "nodeName": f"node-{pod}", "namespace": "ml", "podName": pod, "containerName": "main"}


DOCUMENTS = {
    "cloudwatch": {"events": [{"timestamp": 1783246502200, "message": TIMEOUT, "ingestionTime": 1783246502900}]},
    "insights": {
        "results": [
            [{"field": "@timestamp", "value": "2026-07-05 10:15:02.200"}, {"field": "@message", "value": TIMEOUT}]
        ]
    },
    "google": [{"insertId": "x", "textPayload": TIMEOUT, "timestamp": "2026-07-05T10:15:02.2Z"}],
    "google-object": [{"insertId": "x", "jsonPayload": {"message": TIMEOUT}, "timestamp": "2026-07-05T10:15:02.2Z"}],
    "elastic": {
        "hits": {"hits": [{"_source": {"message": TIMEOUT, "@timestamp": "2026-07-05T10:15:02.2Z", "agent": {}}}]}
    },
    "loki-push": {"streams": [{"stream": {"pod": "p"}, "values": [["1783246502200000000", TIMEOUT]]}]},
}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_answers_of_log_stores_are_read(name: str, indent: int | None) -> None:
    (event,) = parsed(json.dumps(DOCUMENTS[name], indent=indent)).events
    assert isinstance(event, CollectiveTimeout)
    assert (event.rank, event.seq) == (1, 9)
    assert str(event.time) == "2026-07-05 10:15:02+00:00", "the year and the zone are those of the record"


def test_the_lines_of_two_pods_do_not_mix() -> None:
    mixed = [in_pod(pod, line) for line in TRACE for pod in ("a-0", "b-0")]
    raised = [e for e in parsed(lines(*mixed)).events if isinstance(e, ExceptionRaised)]
    assert [(e.host, e.type, e.frame) for e in raised] == [
        ("node-a-0", "ValueError", "load (/opt/t.py:4)"),
        ("node-b-0", "ValueError", "load (/opt/t.py:4)"),
    ]


def test_places_are_lines_of_the_file() -> None:
    report = parsed(lines(in_pod("a-0", "one\ntwo\nthree"), in_pod("a-0", TIMEOUT)))
    assert [e.place.line for e in report.events] == [2]
    assert report.lines == 2, "two records"


def test_a_record_that_is_cut_off_is_a_line_like_any_other() -> None:
    text = lines(in_pod("a-0", TIMEOUT)) + '{"message":"step 4", "podNa'
    assert [e.kind for e in parsed(text).events] == ["collective-timeout"]


def test_a_document_that_is_cut_off_is_said_to_be() -> None:
    whole = json.dumps([*DOCUMENTS["google"], *DOCUMENTS["google"]])
    report = parsed(whole[:-40])
    assert [e.kind for e in report.events] == ["collective-timeout"]
    assert report.gaps[0].lost


@pytest.mark.parametrize(
    "text",
    [
        '{"level": "error", "msg": "shard lost", "time": "2026-07-05T10:15:02Z"}\n',
        '{"step": 12, "loss": 2.5}\n',
        "2026-07-05T10:15:02Z step 12\n",
        "plain text\n",
        "[1, 2\n",
    ],
)
def test_other_texts_are_left_alone(text: str) -> None:
    assert not CollectedLogParser().claims(text.encode(), "a.log")


def test_a_document_with_such_keys_and_no_record_is_read_as_text() -> None:
    text = '{"podName": "a-0",\n"lines": [\n' + json.dumps(TIMEOUT) + "\n]}\n"
    assert [(e.kind, e.place.line) for e in parsed(text).events] == [("collective-timeout", 3)]
    assert parsed("{" + text).events, "nor is anything lost where the JSON is broken"
