"""What close looks cost is shared among the files, and rare lines are not lost among common ones."""

from __future__ import annotations

import io

from nccldoctor.events import Heartbeat, Phase
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.engine import effort
from nccldoctor.parsers.engine.effort import Effort, shared_by
from nccldoctor.parsers.engine.scan import scan


def test_all_files_together_cost_no_more_than_a_few_until_each_has_its_least() -> None:
    for files in (1, 4, 20, 100, 400):
        share = shared_by(files)
        assert files * share.sampled <= max(effort.SAMPLED_IN_ALL, files * effort.SAMPLED_AT_LEAST)
        assert files * share.trials <= max(effort.TRIALS_IN_ALL, files * effort.TRIALS_AT_LEAST)
    assert shared_by(0) == shared_by(1) == Effort()
    assert shared_by(10_000) == Effort(
        effort.SAMPLED_AT_LEAST, effort.TRIALS_AT_LEAST, effort.MENDED_AT_LEAST, effort.ROOM_AT_LEAST
    )


def test_a_rare_line_is_kept_among_thousands_of_steps() -> None:
    lines = [f"[rank 3] Heartbeat: epoch=0 iter={n} global_step={n}\n" for n in range(2_000)]
    lines.insert(900, "[rank3]: Saved checkpoint to /ckpt/step_900 in 12.3 seconds\n")
    text = "".join(lines).encode()
    events = scan(Source(0, "rank_3.log", SourceKind.LOG, len(text), 3), io.BytesIO(text), effort=Effort(24)).events
    steps = [event.step for event in events if isinstance(event, Heartbeat)]
    assert steps[0] == 0
    assert steps[-3:] == [1_997, 1_998, 1_999]
    assert len(steps) <= 24
    assert [event.place.line for event in events if isinstance(event, Phase)] == [901]
