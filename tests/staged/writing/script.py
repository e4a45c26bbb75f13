"""The lines of the training script: their wording, how often they come, and who prints them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from staged.plan import Plan
from staged.play import Played
from staged.writing.calendar import at, comma


def progress(plan: Plan, played: Played, more: int, pause: float = 0.0) -> Iterator[tuple[float, int, str]]:
    """(time, rank, line) for the steps before the played ones, the played ones that ended, and ``more`` after them and a pause."""
    rng = plan.rng
    every, who = rng.choice([1, 1, 2, 5]), rng.choice(["first", "first", "all", "last"])
    stamped = rng.random() < 0.7 or more > 0  # else nothing shows that the job went on
    total = plan.first_step + rng.choice([900, 20_000])
    ranks = {"first": [0], "last": [plan.world - 1], "all": list(range(plan.world))}[who]
    for rank in ranks:
        for step, end in _steps(plan, played, rank, more, pause):
            if step % every == 0:
                yield end, rank, _line(plan, step, total, end, stamped, rank if who == "all" else None)


def _steps(plan: Plan, played: Played, rank: int, more: int, pause: float) -> Iterator[tuple[int, float]]:
    """The steps that a rank has ended, with the time."""
    works = played.works[rank]
    begin = works[0].created if works else plan.start
    for back in range(min(8, plan.first_step - 1), 0, -1):
        yield plan.first_step - back, begin - back * plan.step_time
    last, latest = plan.first_step - 1, begin
    for index in sorted({w.step for w in works}):
        mine = [w for w in works if w.step == index]
        if any(w.end is None for w in mine):
            return
        last, latest = plan.first_step + index, max(w.end or 0 for w in mine)
        yield last, latest + 0.01
    for extra in range(1, more + 1):
        yield last + extra, latest + pause + extra * plan.step_time


def _line(plan: Plan, step: int, total: int, when: float, stamped: bool, rank: int | None) -> str:
    loss = 1.5 + 3.0 / (1 + step * 0.01) + (step * 7919 % 97) / 400
    mine = "" if rank is None else f"(rank {rank}) "
    if plan.script == "json":
        row: dict[str, object] = {"event": "train", "step": step, "loss": round(loss, 4)}
        if stamped:
            row["ts"] = f"{at(when):%Y-%m-%dT%H:%M:%S}Z"
        if rank is not None:
            row["rank"] = rank
        return json.dumps(row)
    if plan.script == "logger":
        return f"{comma(when)} INFO trainer {mine}step {step}/{total} loss={loss:.4f} lr=2.0e-04"
    stamp = f"[{at(when):%H:%M:%S}] " if stamped else ""
    if plan.script == "bar":
        speed = f"{1 / plan.step_time:.2f}it/s, loss={loss:.2f}"
        return f"{stamp}{mine}training: {100 * step // total:3d}%|###       | {step}/{total} [03:21<41:10, {speed}]"
    if plan.script == "table":
        return f"{stamp}{mine}| it {step:>7d} | loss {loss:8.4f} | {plan.step_time * 1000:7.1f} ms |"
    return f"{stamp}{mine}batch {step} of {total}, loss {loss:.3f}"
