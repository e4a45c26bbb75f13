"""No ordinary line of a job's start carries a remedy that names a cause, where all that is wrong is one rank's timeout."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from builders.remedies.advice import CATALOGUE

import nccldoctor

STARTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("healthy_starts.toml").read_text(encoding="utf-8"))
GENERAL = {entry.remedy.id for entry in CATALOGUE.entries if entry.remedy.general}
STEPS = "".join(f"2026-07-04 08:{minute:02}:10,000 step {minute * 30} loss 2.{minute:02}\n" for minute in range(10, 40))
TIMEOUT = (
    "[rank1]:[E704 08:50:10.301180204 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=7311, OpType=ALLREDUCE, NumelIn=417792, NumelOut=417792, Timeout(ms)=600000) ran for 600017 "
    "milliseconds before timing out.\n"
)


def started(name: str) -> str:
    lines = STARTS[name].strip().splitlines()
    return "".join(f"{line.replace('{t}', f'{number:02}')}\n" for number, line in enumerate(lines, 1))


@pytest.mark.parametrize("kind", ["steps", "a saved checkpoint", "two starts"])
@pytest.mark.parametrize("name", STARTS)
def test_a_healthy_start_and_one_timeout_name_no_cause(name, kind, tmp_path):
    text = started(name) + STEPS
    if kind == "a saved checkpoint":
        text = text.replace("step 600 ", "Saving checkpoint /ckpt/600\n2026-07-04 08:20:10,500 step 600 ")
    elif kind == "two starts":
        text = started(name) + started(name).replace("08:00:", "08:05:") + STEPS
    (tmp_path / "train.log").write_text(text + TIMEOUT, encoding="utf-8")
    remedies = nccldoctor.analyze(tmp_path).diagnosis.remedies
    assert {remedy.id for remedy in remedies[:1]} <= GENERAL, [(r.id, r.checks) for r in remedies]


def test_what_led_to_the_call_is_told_where_it_is_the_last_that_the_log_shows(tmp_path):
    save = "2026-07-04 08:40:09,000 Saving checkpoint /ckpt/1170\n"
    (tmp_path / "train.log").write_text(started("fsdp") + STEPS + save + TIMEOUT, encoding="utf-8")
    assert nccldoctor.analyze(tmp_path).diagnosis.remedies[0].id == "checkpoint-save-slow"
    early = save.replace("08:40:09", "08:20:10")
    stale = STEPS.replace("08:39:10", "08:15:00")
    (tmp_path / "train.log").write_text(
        started("fsdp") + stale[: stale.index("2026-07-04 08:20")] + early + TIMEOUT, encoding="utf-8"
    )
    assert not nccldoctor.analyze(tmp_path).diagnosis.remedies, "twenty minutes before the call"
