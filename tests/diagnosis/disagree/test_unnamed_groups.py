"""Lines of two groups that they do not name are never taken for one call, in simulated jobs of both authors."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import simulator
import staged
from scoring.claims import World, world_of
from scoring.score_simulator import AUTHORS

from nccldoctor import pipeline
from nccldoctor.align.facts import align
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.events import CallTimeout

ENOUGH = 6
"""Jobs of each author that are looked at."""


def _can_leave_group_open(job: simulator.Job | staged.Job) -> bool:
    """True where some watchdog of the job prints no group."""
    return any(
        b"Watchdog caught" in line and b"PG " not in line
        for content in job.files.values()
        for line in (content.encode() if isinstance(content, str) else content).splitlines()
    )


def _true_groups(world: World, line: CallTimeout) -> frozenset[str]:
    """The groups in which the rank of a line really stands in a call of that number and operation."""
    return frozenset(
        i.group
        for i in world.issued
        if (i.rank, i.op) == (line.rank, line.op) and line.seq in i.seqs and not i.is_complete
    )


def _pooled_lines(job: simulator.Job | staged.Job, folder: Path) -> list[list[frozenset[str]]]:
    """For each group that lines without a name were given to: the groups that each of the lines may truly be of."""
    job.write(folder)
    incident = pipeline.analyze([str(folder)])
    for finding in incident.diagnosis.findings:
        assert finding.stalled is None or finding.stalled.group != "not named" or not finding.stalled.missing
    case, world = align(incident.case).case, world_of(job)
    groups: dict[int, list[frozenset[str]]] = defaultdict(list)
    for line in case.of(CallTimeout):
        group = group_of(case, line)
        if line.group is None and line.rank is not None and group is not None:
            groups[group].append(_true_groups(world, line))
    return list(groups.values())


@pytest.mark.costly
@pytest.mark.parametrize("author", AUTHORS)
def test_lines_of_two_groups_are_never_pooled(author: str, tmp_path: Path) -> None:
    checked = 0
    for seed in range(400):
        job = AUTHORS[author].make(seed)
        if not _can_leave_group_open(job):
            continue
        groups = _pooled_lines(job, tmp_path / str(seed))
        checked += bool(groups)
        for found in groups:
            assert len(found) == 1 or frozenset.intersection(*found), f"seed {seed} pools lines of {found}"
        if checked == ENOUGH:
            return
    raise AssertionError(f"only {checked} jobs have lines without a group")


def test_several_groups_without_a_name_leave_who_is_at_fault_at_low(tmp_path: Path) -> None:
    """Ranks 0 and 1 wait in #18, ranks 2 and 7 in #5012: two groups at least, and any of the others may be missing in either."""
    line = (
        "[rank{r}]:[E ProcessGroupNCCL.cpp:523] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, "
        "OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600080 milliseconds before timing out.\n"
    )
    (tmp_path / "train.log").write_text(
        "".join(line.format(r=r, n=n) for r, n in ((0, 18), (1, 18), (2, 5012), (7, 5012)))
    )
    found = pipeline.analyze([str(tmp_path)]).diagnosis.verdict
    assert found.confidence.value in ("low", "cannot-tell"), found
    assert not found.ranks
