"""Memory, storage, links and stuck tasks in the kernel log.

Sources: Linux ``mm/oom_kill.c``, ``kernel/hung_task.c``, ``kernel/watchdog.c``, ``net/sunrpc/clnt.c``,
``drivers/net/ethernet/mellanox/mlx5``, ``drivers/pci/pcie/aer.c``; matchers of leptonai/gpud and NVIDIA/NVSentinel.
Corrected PCIe and memory errors are part of a healthy node's life and are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, KernelEvent, OutOfMemory
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.kernel.prefix import kernel_fields
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_NOT_TELLING = {
    "schedule",
    "__schedule",
    "io_schedule",
    "schedule_timeout",
    "schedule_preempt_disabled",
    "out_of_line_wait_on_bit",
}
"""Frames on top of every blocked task's stack."""


@for_rows
def oom_constraint(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*out-of-memory* where no line below tells the same end."""
    again = f"Killed process {hit['pid']} ("
    if not any(again in below.raw for below in line.following(5)):
        yield OutOfMemory(**kernel_fields(line, pid=int(hit["pid"])), scope="host", process=hit["comm"])


_BLOCKED = lazy(
    r"INFO: task (?P<task>\S{1,64}):(?P<pid>\d{1,10}) blocked for more than (?P<s>\d{1,6}) seconds"
    r"|(?P<sleeper>\btask:(?P<task3>\S{1,64}) {1,20}state:D\b.{0,80}?pid: ?(?P<pid3>\d{1,10}))"
    r"|BUG: soft lockup - CPU#\d{1,5} stuck for (?P<s2>\d{1,6})s! \[(?P<task2>[^\]:]{1,64}):(?P<pid2>\d{1,10})\]"
)
_KERNEL_FRAME = lazy(r"(?:^|[\s\]])(?:\? )?(?P<name>[A-Za-z_][\w.]{1,80})\+0x[0-9a-f]{1,6}/0x[0-9a-f]{1,6}")


@reads("blocked for more than", "soft lockup", "state:D", needs=(_BLOCKED,))
def stuck_task(line: Line) -> Iterator[Event]:
    """Tasks in uninterruptible sleep, and CPUs that never came back; ``detail`` ends in what the stack says."""
    if hit := _BLOCKED.search(line.raw):
        if hit["sleeper"] and any("blocked for more than" in above.raw for above in line.preceding(4)):
            return  # the head of that report's stack
        pid, within = int(hit["pid"] or hit["pid2"] or hit["pid3"]), _in_kernel_stack(line)
        if hit["sleeper"]:
            what, detail = "blocked-task", f"{hit['task3']} in uninterruptible sleep{within}"
        elif hit["task"]:
            what, detail = "blocked-task", f"{hit['task']} blocked for {hit['s']} s{within}"
        else:
            what, detail = "soft-lockup", f"{hit['task2']} on a CPU stuck for {hit['s2']} s{within}"
        yield KernelEvent(**kernel_fields(line, pid=pid), what=what, detail=detail)


def _in_kernel_stack(line: Line) -> str:
    names: list[str] = []
    for below in line.following(25):
        if _BLOCKED.search(below.raw):
            break
        frame = _KERNEL_FRAME.search(below.raw)
        if frame and frame["name"] not in _NOT_TELLING:
            names.append(frame["name"])
        if len(names) == 4:
            break
    return f" in {' < '.join(names)}" if names else ""
