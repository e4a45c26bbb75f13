"""No report contradicts itself: each check fails on a page with that fault, and finds nothing on the pages of known jobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.diagnoses.bundled import SAMPLES, incident
from scoring.pages import page_consistency
from scoring.score_simulator import AUTHORS

import nccldoctor

TRUE = "device-stalled"
"""The page that is doctored: rank 2 stopped in ALLREDUCE #6, and ranks 0-1, 3 timed out in #7."""


def _replaced(old: str, new: str) -> Callable[[str], str]:
    def doctor(page: str) -> str:
        assert old in page
        return page.replace(old, new)

    return doctor


DOCTORED: dict[str, list[Callable[[str], str]]] = {
    "same call": [
        _replaced("ALLREDUCE #6 in average", "ALLREDUCE #8 in average"),
        _replaced("stopped in ALLREDUCE #6: its", "called ALLGATHER: its"),
    ],
    "blocked count": [
        _replaced("3 of 4 ranks <span>", "2 of 4 ranks <span>"),
        _replaced("3 ranks were", "2 ranks were"),
    ],
    "timed out": [_replaced('class="waiting" data-ranks="0-1,3"', 'class="uninvolved" data-ranks="0-1,3"')],
    "parts of the graph": [_replaced("not a hang</b>", "not a hang</b> <span>2 independent hangs</span>")],
    "refuted by": [
        _replaced("a later dump of rank 2 had shown more finished calls", "rank 2 had a record of ALLREDUCE #6"),
        _replaced("a later dump of rank 2 had shown more finished calls", "rank 2 left a dump, or an exit record"),
    ],
    "unknown but shown": [_replaced("worker17 · pid 20003", "host unknown")],
    "cycle": [_replaced("Every chain ends at rank 3.", "Rank 3 and rank 1 wait for each other.")],
    "exhibit of a culprit": [_replaced('class="culprit" data-ranks="2"', 'class="culprit" data-ranks="9"')],
    "marked values": [
        _replaced("<mark>SeqNum=7</mark>", "SeqNum=7"),
        _replaced("Rank 1 timed out in ALLREDUCE #7.", "Rank 1 timed out in ALLREDUCE #8."),
        lambda page: re.sub(r"</?mark>", "", page),
    ],
    "command twice": [lambda page: re.sub(r'(<pre id="c\d">).*?</pre>', r"\1dmesg</pre>", page)],
    "host": [_replaced("ssh worker17", "ssh HOST_OF_RANK_2")],
    "asked again": [_replaced("Drain worker17.", "Collect the logs of rank 2, and run it again.")],
    "one exhibit": [lambda page: re.sub(r'class="ex" (id="exhibit-[BC]")', r"\1", page)],
    "no record of a call": [_replaced("ALLREDUCE #6 in average", "no record of a call, average")],
}
"""Faults for each check."""

OF_GRAPH = "died"
"""The page that is doctored where the fault is one of the graph: rank 3 was killed, and rank 1 waits for it."""


@pytest.mark.parametrize("check", page_consistency.CHECKS)
def test_each_check_finds_its_fault_on_a_doctored_page(check: str) -> None:
    name = OF_GRAPH if check in ("parts of the graph", "cycle") else TRUE
    page, timed_out = incident(name).to_html().replace("\u00a0", " "), page_consistency.timed_out(incident(name))

    assert page_consistency.violations(name, page, timed_out) == ()
    for doctor in DOCTORED[check]:
        found = page_consistency.violations(name, doctor(page), timed_out)
        assert check in [one.check for one in found]


@pytest.mark.parametrize("name", SAMPLES)
def test_no_bundled_report_contradicts_itself(name: str) -> None:
    one = incident(name)

    assert page_consistency.violations(name, one.to_html(), page_consistency.timed_out(one)) == ()


@pytest.mark.parametrize("author", AUTHORS)
def test_no_report_of_a_simulated_job_contradicts_itself(author: str, tmp_path: Path) -> None:
    found = []
    for seed in range(20):
        folder = AUTHORS[author].make(seed).write(tmp_path / str(seed))
        one = nccldoctor.analyze(folder)
        found += page_consistency.violations(f"{author} {seed}", one.to_html(), page_consistency.timed_out(one))

    assert found == []
