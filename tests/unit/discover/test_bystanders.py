"""Texts that other programs leave beside a job are told from its output; a job that begins with a build stays a job."""

from __future__ import annotations

import json

import pytest
from builders.logs.lines import watchdog

from nccldoctor.discover.bystanders import first_lines, kind_of_bystander
from nccldoctor.model import SourceKind

INSTALL = "Collecting torch\nRequirement already satisfied: numpy in ./lib\nSuccessfully installed torch-2.13.0\n"
BUILD = "[1/2] Building CXX object a.o\nFAILED: a.o\na.cpp:3:1: error: no rank here\nninja: build stopped: subcommand failed.\n"
TESTS = "=== test session starts ===\ncollected 3 items\n\nE   RuntimeError: CUDA error\n=== 1 failed, 2 passed in 3.2s ===\n"
HISTORY = "commit 8a1f0c2d9e7b\nAuthor: P <p@x.org>\nDate:   Fri Apr 17\n\n    Retry when rank 3 raises RuntimeError\n"
MAIL = "From: p@x.org\nTo: q@x.org\nSubject: hang\n\nNVRM: Xid (PCI:0000:3b:00): 79\n"
METRICS = '# HELP xid_total Xid 79, GPU has fallen off the bus.\n# TYPE xid_total counter\nxid_total{gpu="0"} 79\n'
WORDS = "[PAD]\n[UNK]\nKilled\nSIGKILL\nthe\nof\nand\nto\n"
PAGE = f"<!DOCTYPE html>\n<html><body><pre>{watchdog(3)}</pre></body></html>\n"
BESIDE = {
    SourceKind.BUILD: (BUILD, TESTS, INSTALL),
    SourceKind.NOTES: (HISTORY, MAIL, "8a1f0c2 Fix rank 3\n1b2c3d4 CUDA error: out of memory\n"),
    SourceKind.DATA: (METRICS, WORDS),
    SourceKind.PAGE: (PAGE, '<?xml version="1.0"?>\n<testsuites><testcase>RuntimeError</testcase></testsuites>\n'),
}


def _kind(text: str, *, is_json: bool, is_whole: bool) -> SourceKind | None:
    head = text.encode()
    return kind_of_bystander(head, first_lines(head), is_json=is_json, is_whole=is_whole)


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in BESIDE.items() for text in texts])
def test_a_bystander_is_known(kind: SourceKind, text: str) -> None:
    assert _kind(text, is_json=False, is_whole=True) is kind


@pytest.mark.parametrize(
    "text",
    [
        INSTALL + watchdog(3),
        INSTALL + "step 5/90 loss 2.0\n",
        "7f3a2b1c 2026-04-17 10:00:00 INFO start\n7f3a2b1d 2026-04-17 10:00:01 INFO step\n",
        PAGE.replace("<pre>", "<h2>Rank 3: http://node1:41003/handler/dump_traceback?</h2><pre>"),
        "loss 2.0\nstep 1\n" * 9,
        "HF_TOKEN=x\nRANK=3\nHOME=/root\nNCCL_DEBUG=INFO\nA=1\nB=2\nC=3\nD=4\n",
    ],
)
def test_output_of_a_job_is_none(text: str) -> None:
    assert _kind(text, is_json=False, is_whole=True) is None


def test_a_job_that_begins_with_a_build_is_not_judged_by_its_beginning() -> None:
    assert _kind(INSTALL * 900, is_json=False, is_whole=False) is None


def test_documents_are_data_and_lines_of_a_logger_are_not() -> None:
    shard = json.dumps({"id": 1, "text": f"Why?\n{watchdog(3)}"})
    logged = json.dumps({"time": "2026-04-17T10:00:00Z", "text": f"Why?\n{watchdog(3)}"})
    numbers, of_rank = json.dumps({"step": 3, "loss": 2.0}), json.dumps({"step": 3, "loss": 2.0, "rank": 1})
    vocabulary = json.dumps({chr(65 + n): n for n in range(30)})
    kinds = [_kind(f"{text}\n" * 3, is_json=True, is_whole=True) for text in (shard, numbers)]
    assert kinds == [SourceKind.DATA] * 2
    assert _kind(vocabulary, is_json=True, is_whole=True) is SourceKind.DATA
    for text in (logged, of_rank):
        assert _kind(f"{text}\n" * 3, is_json=True, is_whole=True) is None
