"""Lines of two groups that they do not name are never taken for one call, in simulated jobs of both authors."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from scoring.claims import World, world_of
from scoring.score_simulator import AUTHORS

from nccldoctor import pipeline
from nccldoctor.align.facts import align
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.events import CallTimeout

JOBS = [
    *(("simulator", seed) for seed in (20, 57, 88, 97, 140, 152, 200, 212, 213, 264)),
    *(("staged", seed) for seed in (120, 193, 201, 209, 213, 392, 1016, 1038, 1065, 1127)),
]
"""Jobs in which some watchdog names no group; most of them have several."""


def _true_groups(world: World, line: CallTimeout) -> frozenset[str]:
    """The groups in which the rank of a line really stands in a call of that number and operation."""
    return frozenset(
        i.group
        for i in world.issued
        if (i.rank, i.op) == (line.rank, line.op) and line.seq in i.seqs and not i.is_complete
    )


@pytest.mark.parametrize("author, seed", JOBS)
def test_lines_of_two_groups_are_never_pooled(author: str, seed: int, tmp_path: Path) -> None:
    job = AUTHORS[author].make(seed)
    job.write(tmp_path)
    incident = pipeline.analyze([str(tmp_path)])
    case, world = align(incident.case).case, world_of(job)
    groups: dict[int, list[frozenset[str]]] = defaultdict(list)
    for line in case.of(CallTimeout):
        group = group_of(case, line)
        if line.group is None and line.rank is not None and group is not None:
            groups[group].append(_true_groups(world, line))
    assert groups, "the job has lines without a group"
    for group, found in groups.items():
        assert len(found) == 1 or frozenset.intersection(*found), f"{case.groups[group]} holds lines of {found}"
    for finding in incident.diagnosis.findings:
        assert finding.stalled is None or finding.stalled.group != "not named" or not finding.stalled.missing


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
