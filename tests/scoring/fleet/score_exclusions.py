"""Counts the nodes that attributions leave out, and those of them that hold no culprit: ``score_exclusions.py [--by WHO] [--seeds A-B]``.

The jobs are those of the two generators, whose truth names the culprits and the hosts of all ranks.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the folder tests/, also when run as a script

from scoring.score_simulator import AUTHORS

from nccldoctor import pipeline
from nccldoctor.reports.attribution import attribution_of


def hosts_at_fault(truth: Mapping[str, Any]) -> set[str]:
    """The hosts of all ranks that may be named."""
    sets = [truth["culprit_ranks"], *truth.get("acceptable_rank_sets", [])]
    named = {rank for ranks in sets for rank in ranks}
    return {host for host, ranks in truth["hosts"].items() if named & set(ranks)}


def counted(author: str, seed: int) -> Counter[str]:
    """What the attribution of one job leaves out, and withholds; *innocent* is a node without a culprit."""
    job = AUTHORS[author].make(seed)
    with tempfile.TemporaryDirectory() as scratch:
        job.write(Path(scratch))
        found = attribution_of(pipeline.analyze([scratch]).unquoted)
    guilty, out = hosts_at_fault(job.truth), Counter(jobs=1)
    for what, nodes in (("excluded", found.exclude.nodes), ("withheld", found.withheld)):
        out[what] += len(nodes)
        out[f"innocent {what}"] += sum(node not in guilty for node in nodes)
    return out


def main(words: Sequence[str]) -> int:
    """Print the counts of some seeds; 1 where an innocent node is excluded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=AUTHORS, default="simulator")
    parser.add_argument("--seeds", default="0-99", help="A-B, both included")
    options = parser.parse_args(words)
    low, _, high = options.seeds.partition("-")
    counts: Counter[str] = Counter()
    for seed in range(int(low), int(high or low) + 1):
        found = counted(options.by, seed)
        counts.update(found)
        if found["innocent excluded"]:
            print(f"seed {seed}: an innocent node is excluded")
    print(dict(counts))
    return int(counts["innocent excluded"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
