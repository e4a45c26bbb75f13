"""The rules, in the order of the contract's table: for each stall, the first one that holds decides.

One file per cause class. To add one, write ``judge(facts, stall) -> Draft | None`` and ``CAUSE`` in a file named
after the class, with a docstring that says what it means, how we know and what would refute it, and put it in its place in this list.
"""

from __future__ import annotations

from types import ModuleType

from nccldoctor.diagnose.rules import (
    device_stalled,
    died,
    dtype_mismatch,
    extra_call,
    frozen,
    hardware,
    init,
    missed_call,
    network,
    none,
    not_arrived,
    op_mismatch,
    order_inversion,
    raised,
    size_mismatch,
    straggler,
    undetermined,
    unfinished,
    unmatched_p2p,
)

RULES: tuple[ModuleType, ...] = (
    init,
    hardware,
    network,
    raised,
    extra_call,
    missed_call,
    op_mismatch,
    size_mismatch,
    dtype_mismatch,
    died,
    device_stalled,
    order_inversion,
    unmatched_p2p,
    straggler,
    not_arrived,
    unfinished,
    frozen,
    none,
    undetermined,
)
"""Most telling first. ``undetermined`` always holds."""
