"""Texts of programs that nobody reads: the first line that a program marks as an error is quoted, and nothing is denied.

Every form below stands for a logger. Whatever surrounds it, the answer quotes the line, accuses nobody, and is no all-clear.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from builders.jobs.verdicts import Ruling, read

from nccldoctor import analyze
from nccldoctor.cli.exit_codes import exit_code

FORMS = {
    "Python logging": "2031-02-03 10:11:12,130 ERROR shardd.lease: lease 71 was given back twice",
    "Python, its colons": "ERROR:shardd:lease 71 was given back twice",
    "Python, a critical one": "CRITICAL shardd - lease 71 was given back twice",
    "loguru": "2031-02-03 10:11:12.130 | ERROR    | shardd.lease:give:12 - lease 71 was given back twice",
    "glog": "E0203 10:11:12.130412   981 lease.cc:71] lease 71 was given back twice",
    "glog, a fatal one": "F0203 10:11:12.130412   981 lease.cc:71] lease 71 was given back twice",
    "klog": "E0203 10:11:12.130412       1 lease.go:71] lease 71 was given back twice",
    "TensorFlow": "2031-02-03 10:11:12.130412: E shardd/core/lease.cc:71] lease 71 was given back twice",
    "ray's own": "[2031-02-03 10:11:12,130 E 981 981] (shardd) lease.cc:71: lease 71 was given back twice",
    "zap": '{"level":"error","ts":1927447872.1,"msg":"lease 71 was given back twice"}',
    "structlog": '{"event": "lease 71 was given back twice", "level": "critical"}',
    "pino": '{"level":50,"time":1927447872130,"msg":"lease 71 was given back twice"}',
    "logrus": 'time="2031-02-03T10:11:12Z" level=fatal msg="lease 71 was given back twice"',
    "Google Cloud": '{"severity":"ERROR","message":"lease 71 was given back twice"}',
    "log4j": "31/02/03 10:11:12 ERROR LeaseKeeper: lease 71 was given back twice",
    "java.util.logging": "SEVERE: lease 71 was given back twice",
    "tracing of Rust": "2031-02-03T10:11:12.130412Z ERROR shardd::lease: lease 71 was given back twice",
    "env_logger": "[2031-02-03T10:11:12Z ERROR shardd] lease 71 was given back twice",
    "brackets": "[10:11:12.130][lease][error] lease 71 was given back twice",
    "a letter": "10:11:12 [E] lease 71 was given back twice",
    "Rust": "thread 'lease-keeper' panicked at src/lease.rs:71:9:",
    "Go": "panic: lease 71 was given back twice",
    "Java": 'Exception in thread "main" shardd.LeaseException: lease 71 was given back twice',
    "a shell": "run.sh: line 7: ./lease-71: Permission denied",
    "npm": "npm ERR! lease 71 was given back twice",
    "a compiler": "error: lease 71 was given back twice",
    "a sentence": "lease 71 failed",
    "a wait": "lease 71 timed out after 30 s",
    "gRPC": "lease keeper: UNAVAILABLE: lease 71 is held elsewhere",
    "Kubernetes": "shardd-2: Liveness probe failed: lease 71 was given back twice",
    "LightGBM": "[LightGBM] [Fatal] lease 71 was given back twice",
    "UCX": "[1927447872.130412] [gpu-b2:981  :0]        lease.c:71   SHARD ERROR lease 71 was given back twice",
}
BEFORE = ("", "starting shardd, lease 70 is fine\nchecks: failed: 0, errors=0\n")
AFTER = ("", "goodbye\n")
DENIALS = ("known failure", "neither a failure", "no line looks like", "no hang or failure")


def denied(ruling: Ruling) -> bool:
    return any(words in str(ruling.verdict["headline"]).lower() for words in DENIALS)


@pytest.mark.parametrize("form", FORMS)
def test_the_first_line_marked_as_an_error_is_quoted(form: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(FORMS[form] + "\n")
    assert exit_code(analyze([str(tmp_path)]).diagnosis) == 3
    for before, after in product(BEFORE, AFTER):
        ruling = read({"job.log": f"{before}{FORMS[form]}\n{after}"})
        assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
        assert FORMS[form].rstrip('"}')[-20:] in str(ruling.document["findings"][0]["evidence"]), str(ruling)
        assert not denied(ruling), ruling.verdict["headline"]


@pytest.mark.parametrize(
    "line",
    [
        "checks: failed: 0, passed: 1200",
        "INFO 2031-02-03 10:11:12 word error rate 0.31, 0 errors",
        "step error: 0.0312 | val error=0.12",
        'level=info msg="0 failed, retrying is off"',
        "E0203 10:11:12.130412   981 cuda_dnn.cc:9261] Unable to register cuDNN factory: one is there",
        "settings: max_failures=3 on_error=raise --fail-fast",
    ],
)
def test_words_that_count_or_set_are_no_error(line: str) -> None:
    ruling = read({"job.log": f"hello\n{line}\n"})
    assert "marked as an error" not in ruling.verdict["headline"], str(ruling)


def test_the_process_that_wrote_the_line_is_told() -> None:
    ruling = read({"job.log": "[rank2]: 2031-02-03 10:11:12,130 ERROR shardd: lease 71 was given back twice\n"})
    assert ruling.verdict["headline"].endswith(" (rank 2): lease 71 was given back twice."), str(ruling)
    assert (ruling.cause, ruling.ranks) == ("undetermined", "")


def test_an_end_without_a_reason_is_told_with_the_first_error_above_it() -> None:
    text = "10:11:12 [E] lease 71 was given back twice\nterminate called after throwing an instance of 'shardd::Lost'\n"
    ruling = read({"job.log": text})
    assert ruling.verdict["headline"].startswith("A process aborted. First line marked as an error"), str(ruling)


def test_an_error_at_the_start_takes_no_good_end_away() -> None:
    text = f"{FORMS['glog']}\nstep 10 loss 2.31\nstep 20 loss 2.11\nTraining finished\n"
    assert read({"job.log": text}).cause == "none"
    late = f"step 10 loss 2.31\nstep 20 loss 2.11\nTraining finished\n{FORMS['Python logging']}\n"
    assert read({"job.log": late}).cause == "none"


def test_an_error_before_the_last_steps_is_no_reason_and_is_not_denied() -> None:
    ruling = read({"job.log": f"{FORMS['glog']}\nstep 10 loss 2.31\nstep 20 loss 2.11\n"})
    assert "marked as an error" not in ruling.verdict["headline"]
    assert not denied(ruling)


def test_a_letter_holds_nothing_to_judge(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear all,\nthe room is booked for noon.\n")
    assert exit_code(analyze([str(tmp_path)]).diagnosis) == 2


def test_pods_that_no_node_takes_are_a_job_that_never_began() -> None:
    event = (
        "Warning  FailedScheduling  4m  default-scheduler  0/7 nodes are available: 7 Insufficient nvidia.com/gpu.\n"
    )
    ruling = read({"events.txt": event})
    assert ruling.cause == "init", str(ruling)
    assert "7 Insufficient nvidia.com/gpu" in ruling.verdict["headline"]
    placed = "Normal  Scheduled  1m  default-scheduler  Successfully assigned train/w-1 to gpu-b7\n"
    assert read({"events.txt": event + placed}).cause == "undetermined"


def test_all_peers_that_a_rank_missed_are_told() -> None:
    text = "".join(f"DeepEP timeout check failed: rank = 0, thread = {p}, value = 1)\n" for p in (2, 3, 5))
    headline = read({"job.log": text}).verdict["headline"]
    assert "ranks 2-3, 5" in headline, headline
