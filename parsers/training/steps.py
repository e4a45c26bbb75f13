"""Progress bars and the step lines of trainers. They are common in healthy logs: only parts of a large file are
searched.

Shapes: tqdm ``std.py``; Megatron-LM ``training.py``; Hugging Face ``trainer_callback.py``; DeepSpeed ``engine.py``;
torchtitan ``metrics.py``; torchvision ``references/utils.py``; NeMo and Lightning ``progress_bar.py``.

Lines of hand-written loops hold little but numbers: ``rank 0 step 6``, ``epoch 3 - iter 50/1000``. Such a line counts only as a whole.
*Step 1: Loading raw data* is a heading, *total steps: 1000* a setting, *Resuming from step 500* a plan. Of *Step 6* alone only the
other lines of its writer tell whether it is a step. Shapes: PyTorch's tutorials (``beginner/blitz/cifar10``, ``beginner/dcgan``,
``intermediate/ddp_series_multigpu``) and ``examples/mnist``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from nccldoctor.events import Event, Progress
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table
from nccldoctor.parsers.training.heartbeat import epoch_of, rank_in
from nccldoctor.parsers.training.left_out_batches import is_left_out_by_error
from nccldoctor.parsers.training.write_ups import is_of_person
from nccldoctor.patterns import lazy

_PATTERNS = Table(__file__).patterns()
_LONGEST = 240


def plain_step(body: str, is_of_rank: bool) -> dict[str, Any] | None:
    """The fields of a line that says nothing but how far a loop came.

    ``is_of_rank`` where its prefix names a rank. A number alone is a step where a rank, an epoch or a total stands beside it, or where it
    is written like a variable: *step 6*, and not *batch 64*. What *Step 6* counts stays open.
    """
    if m := _PATTERNS["mnist"].search(body) or _PATTERNS["cifar"].match(body) or _PATTERNS["gan"].match(body):
        return _numbers(m)
    if m := _PATTERNS["epochs"].search(body):
        return {"epoch": int(m["epoch"])}
    m = _PATTERNS["plain"].fullmatch(body) if len(body) <= _LONGEST else None
    if m is None:
        return None
    is_placed = is_of_rank or bool(m["rank"] or m["has_epoch"] or m["total"])
    if not is_placed and "batch" in m["key"].lower():
        return None
    return _numbers(m) if is_placed or m["key"].islower() else _numbers(m) | {"counts": ""}


def _numbers(m: re.Match[str]) -> dict[str, Any]:
    named = m.groupdict()
    return {
        "step": int(named["n"]),
        "total": int(named["total"]) if named.get("total") else None,
        "epoch": int(named["epoch"]) if named["epoch"] else None,
    }


_MEASURED = lazy(r"^[^\]\n]{0,400}[,\s][\w/]{0,40}(?:loss|grad_norm|lr|ppl|reward)\s?[=:]", re.IGNORECASE)
_NOT_STEPS = ("eartbeat", "time (ms) | ", " CANCELLED AT ")
"""Where *step* is no training step: heartbeats have a parser of their own, DeepSpeed times the optimizer's step, and
Slurm speaks of the steps of a job.
"""
_LEFT_OUT = ("kipp", "ropp", "gnor", "iscard")
"""What a line about a batch that was left out holds."""
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9}


def _whole(text: str | None, unit: str | None = None) -> int | None:
    if not text:
        return None
    value = float(text) * _SCALE.get(unit or "", 1.0)
    return int(value) if value < 1e18 else None


def _rate(m: re.Match[str]) -> float | None:
    """Steps per second, from ``1.5it/s`` or ``2.0s/it``."""
    if not m["rate"] or m["rate"] == "?":
        return None
    value = float(m["rate"])
    if m["per"].startswith("s/"):
        return round(1 / value, 6) if value else None
    return value


def _counted(label: str | None, behind: str) -> str:
    """What a bar counts, by its name and by what stands behind its counters.

    *Epoch 3* counts steps, and so does any bar that shows a loss; *Loading checkpoint shards*, *Map* and *Validation* count other work.
    """
    if label and _PATTERNS["no_training"].search(label):
        return "work"
    if _MEASURED.search(behind) or (label and _PATTERNS["training"].search(label)):
        return "steps"
    return "work" if label else ""


def _bar_fields(text: str) -> dict[str, Any] | None:
    """The last ``label:  18%|██   | 3685/20000 [0:55:16<5:12:40, 0.90s/it, …]`` of a text; the bar itself may be
    missing.
    """
    end = len(text)
    for _ in range(4):
        at = text.rfind("%", 0, end)
        if at < 0:
            return None
        bar = text.find("|", at + 2, at + 400) if text[at + 1 : at + 2] == "|" else at
        m = _PATTERNS["counts"].match(text, bar + 1) if bar >= at else None
        if m:
            before = text[max(0, at - 160) : at].rstrip("0123456789. ")
            label = re.split(r"[\]|]", before)[-1].strip(" :\t")[-80:]
            return {
                "step": _whole(m["n"], m["unit"]), "total": _whole(m["total"], m["unit2"]), "rate": _rate(m),
                "label": label or None, "epoch": epoch_of(label), "counts": _counted(label, text[m.end() :]),
            }  # fmt: skip
        end = at
    return None


def _megatron_fields(m: re.Match[str]) -> dict[str, Any]:
    ms = float(m["ms"]) if m["ms"] else 0.0
    rate = round(1000 / ms, 6) if ms else None
    return {"step": int(m["n"]), "total": int(m["total"]), "rate": rate, "label": "iteration"}


def _vision_fields(m: re.Match[str]) -> dict[str, Any]:
    counts = "steps" if m["label"] == "Epoch" else "work"
    return {
        "step": int(m["n"]), "total": int(m["total"]), "epoch": _whole(m["epoch"]), "label": m["label"], "counts": counts,
    }  # fmt: skip


def _open_fields(m: re.Match[str]) -> dict[str, Any]:
    label = m["unit"] if m["unit"] != "it" else None
    counts = _counted(label, m.string[m.end() :])
    return {"step": _whole(m["n"]), "rate": _rate(m), "label": label, "counts": counts}


def _step_fields(m: re.Match[str]) -> dict[str, Any]:
    return {"step": _whole(m["n"]), "total": _whole(m["total"])}


_FORMS: tuple[tuple[str, str, Callable[[re.Match[str]], dict[str, Any]]], ...] = (
    # each is tried where its mark stands in the line
    (
        "raining epoch",
        "nemo",
        lambda m: {
            "step": int(m["n"] or m["i"]),
            "epoch": int(m["epoch"]),
            "total": None if m["n"] else int(m["total"]),
        },
    ),
    ("iteration ", "megatron", _megatron_fields),
    ("eta:", "vision", _vision_fields),
    ("epoch", "hf", lambda m: {"epoch": int(m["epoch"])}),
    (" [", "open", _open_fields),
)


@reads(
    *("it/s", "s/it", "?it", "/s]", "%|", "eta:"),
    *("iteration ", "Iteration", "iter", "Iter", "step", "Step", "STEP", "batch", "Batch"),
    *("{'loss'", '{"loss"', "'epoch'", "poch ", "poch: ", "] loss: ", "]\tLoss_D: ", "finish", "processed"),
    sampled=True,
)
def trainer(line: Line) -> Iterable[Event]:
    """A bar, or the step line of a trainer."""
    body = line.body
    if line.mark.is_native or any(words in body for words in _NOT_STEPS) or is_of_person(body):
        return
    state = _step_of(body, line.mark.rank is not None)
    if state is None or (any(words in body for words in _LEFT_OUT) and is_left_out_by_error(body)):
        return
    rank = line.mark.rank if line.mark.rank is not None else rank_in(body[:40])  # Rank 0 | Epoch 2 | Batch 10
    yield Progress(**common(line, rank=rank), **state)


def _step_of(body: str, is_of_rank: bool) -> dict[str, Any] | None:
    text = body[-1200:]  # bars may stand behind each other on one line: the last one counts
    state = _bar_fields(text)
    if state is not None:
        return state
    for mark, name, fields in _FORMS:
        m = _PATTERNS[name].search(text) if mark in text else None
        if m:
            return fields(m)
    m = _PATTERNS["step"].search(text)
    if m and _PATTERNS["about"].search(text):
        return _step_fields(m) | {"epoch": epoch_of(text)}
    if plain := plain_step(body, is_of_rank):
        return plain
    if m := _PATTERNS["epoch_loss"].search(text):
        return {"epoch": int(m["epoch"])}
    m = _PATTERNS["finish"].search(text)
    if m and re.search(r"taken|elapsed|seconds|\bs\b|examples|samples", text):
        return _step_fields(m) | {"label": m["word"], "counts": "work"}
    return None
