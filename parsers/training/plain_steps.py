"""Step lines of hand-written training loops, which hold little but numbers: ``rank 0 step 6``, ``epoch 3 - iter 50/1000``.

Such a line counts only as a whole. *Step 1: Loading raw data* is a heading, *total steps: 1000* a setting, *Resuming from step 500* a plan.
Of *Step 6* alone only the other lines of its writer tell whether it is a step.

Shapes: PyTorch's tutorials (``beginner/blitz/cifar10``, ``beginner/dcgan``, ``intermediate/ddp_series_multigpu``) and ``examples/mnist``.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.patterns import lazy

_GAP = r"[\s,|;:()\[\]<>*#=.\u2013-]{0,6}"
_IS = r"\s{0,2}[=:#]?\s{0,3}[\[(]?\s{0,6}"
_OF = r"(?:\s{0,2}(?:/|of)\s{0,6}\d{1,12})?"
_KEY = r"(?:global|train|local)?[_ ]?(?:step|iteration|iter|batch|mini-?batch)(?:[_ ](?:idx|index|num))?|it"
_WRITER = r"(?:\[\d{1,6}\]:?\s{0,3}|\d{1,6}:\s{1,3}|(?:INFO|DEBUG):[\w.]{1,60}:\s{0,2})?"
_PLAIN = lazy(
    rf"{_WRITER}{_GAP}(?:(?P<rank>(?:global[_ ])?rank){_IS}\d{{1,7}}{_GAP})?"
    r"(?:(?:finished|completed|done with|starting|started|start|begin|training|train|processed):?\s{1,2})?"
    rf"(?:(?:train(?:ing)?\s)?(?P<has_epoch>epoch){_IS}(?P<epoch>\d{{1,9}}){_OF}{_GAP})?"
    rf"(?P<key>{_KEY})(?P<is>{_IS})(?P<n>\d{{1,12}})(?:\s{{0,2}}(?:/|of)\s{{0,6}}(?P<total>\d{{1,12}}))?"
    r"(?::\s\d{1,9}\.\d{1,12})?(?:[\s,|;:()\[\]]{1,4}[a-z_]\w{0,24}[=:]\s{0,2}[-+]?\d[\d.e+-]{0,24}[a-z/%]{0,8}){0,12}"
    rf"{_GAP}(?:done|ok|finished|completed?|started?|begins?|ends?|took)?"
    rf"(?:\s(?:in\s)?\d{{1,9}}(?:\.\d{{1,9}})?\s?(?:s|ms|sec|seconds))?{_GAP}",
    re.IGNORECASE,
)
_MNIST = lazy(
    r"\b[Ee]poch:? (?P<epoch>\d{1,9}) \[\s{0,9}(?P<n>\d{1,12})/(?P<total>\d{1,12}) \(\s{0,3}\d{1,3}(?:\.\d+)?%\)\]"
)
_CIFAR = lazy(r"^\s{0,4}\[(?P<epoch>\d{1,9}),\s{1,9}(?P<n>\d{1,12})\] loss: ")
_GAN = lazy(
    r"^\s{0,4}(?:\[(?P<epoch>\d{1,9})/\d{1,9}\]\s?)?\[(?P<n>\d{1,12})/(?P<total>\d{1,12})\]\s{1,4}[Ll]oss(?:_D)?: "
)
_EPOCHS = lazy(r"\bEpoch (?P<epoch>\d{1,9}) \| Batch ?size(?: \(\w{1,20}\))?: \d")
_LONGEST = 240


def plain_step(body: str, is_of_rank: bool) -> dict[str, Any] | None:
    """The fields of a line that says nothing but how far a loop came.

    ``is_of_rank`` where its prefix names a rank. A number alone is a step where a rank, an epoch or a total stands beside it, or where it
    is written like a variable: *step 6*, and not *batch 64*. What *Step 6* counts stays open.
    """
    if m := _MNIST.search(body) or _CIFAR.match(body) or _GAN.match(body):
        return _numbers(m)
    if m := _EPOCHS.search(body):
        return {"epoch": int(m["epoch"])}
    m = _PLAIN.fullmatch(body) if len(body) <= _LONGEST else None
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
