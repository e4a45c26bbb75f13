"""Reports say nothing that the state of a simulated job refutes; the whole is run by ``claims.py``."""

from __future__ import annotations

from collections import Counter

import pytest
from scoring import claims

SEEDS = {"simulator": range(8), "staged": (0, 4, 7, 9, 16, 27, 29, 33, 37, 45)}
"""Jobs of both authors, of all families."""


@pytest.mark.parametrize("author", SEEDS)
def test_no_statement_of_a_report_is_false(author: str) -> None:
    counted: Counter[str] = Counter()
    for seed in SEEDS[author]:
        for kind, said, is_true in claims.lint(author, seed):
            assert is_true, f"{author} {seed} {kind}: {said}"
            counted[kind] += 1
    assert counted.total() > 100
    assert {"entered", "missing", "victims", "waits in", "headline", "evidence"} <= set(counted)


def test_a_false_statement_is_found() -> None:
    """Rank 1 made the call and rank 2 did not: the linter tells the two apart."""
    done = claims.Issued(0, "0", "ALLREDUCE", frozenset({7}), is_complete=False, is_late=False)
    world = claims.World(
        size=3,
        groups={"0": frozenset({0, 1, 2})},
        issued=(done, claims.Issued(1, "0", "ALLREDUCE", frozenset({7}), is_complete=False, is_late=False)),
        culprits=frozenset({2}),
        cause="not-arrived",
        scenario="",
        is_hung=True,
        dumped=frozenset(),
        logged=frozenset(),
        gave_up=frozenset({0, 1}),
        codes={},
    )
    said = {
        rank: list(claims._sentences("headline", f"Rank {rank} never reached ALLREDUCE #7", "0", {"0": "0"}, world))
        for rank in (1, 2)
    }
    assert [claim[2] for claim in said[1]] == [False]
    assert [claim[2] for claim in said[2]] == [True]
    assert world.waits(0) and not world.waits(2)
