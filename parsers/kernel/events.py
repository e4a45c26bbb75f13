"""Memory, storage, links and stuck tasks in the kernel log.

Sources: Linux ``mm/oom_kill.c``, ``kernel/hung_task.c``, ``kernel/watchdog.c``, ``net/sunrpc/clnt.c``,
``drivers/net/ethernet/mellanox/mlx5``, ``drivers/pci/pcie/aer.c``; matchers of leptonai/gpud and NVIDIA/NVSentinel.
Corrected PCIe and memory errors are part of a healthy node's life and are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, KernelEvent, OutOfMemory
from nccldoctor.parsers.base import Line, LineParser, line_parser
from nccldoctor.parsers.kernel.prefix import fields
from nccldoctor.parsers.rows import Row, RowParser
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

_KILLED = lazy(r"Killed process (?P<pid>\d{1,10}) \((?P<comm>[^)]{1,64})\)")
_CONSTRAINT = lazy(
    r"oom-kill:constraint=(?P<why>CONSTRAINT_\w{1,20}),.{0,2000}?,task=(?P<comm>[^,]{1,64}),pid=(?P<pid>\d{1,10})"
)


@line_parser
class OomKillParser(LineParser):
    """The kernel killed a process because memory ran out: of a container (``CONSTRAINT_MEMCG``) or of the node."""

    literals = ("Killed process ", "oom-kill:constraint=")

    def parse(self, line: Line) -> Iterator[Event]:
        """One event for each process; of the two lines about one, the later speaks."""
        if hit := _KILLED.search(line.raw):
            yield OutOfMemory(**fields(line, pid=int(hit["pid"])), scope="host", process=hit["comm"])
        elif hit := _CONSTRAINT.search(line.raw):
            again = f"Killed process {hit['pid']} ("
            if not any(again in below.raw for below in line.following(5)):
                yield OutOfMemory(**fields(line, pid=int(hit["pid"])), scope="host", process=hit["comm"])


_BLOCKED = lazy(
    r"INFO: task (?P<task>\S{1,64}):(?P<pid>\d{1,10}) blocked for more than (?P<s>\d{1,6}) seconds"
    r"|(?P<sleeper>\btask:(?P<task3>\S{1,64}) {1,20}state:D\b.{0,80}?pid: ?(?P<pid3>\d{1,10}))"
    r"|BUG: soft lockup - CPU#\d{1,5} stuck for (?P<s2>\d{1,6})s! \[(?P<task2>[^\]:]{1,64}):(?P<pid2>\d{1,10})\]"
)
_KERNEL_FRAME = lazy(r"(?:^|[\s\]])(?:\? )?(?P<name>[A-Za-z_][\w.]{1,80})\+0x[0-9a-f]{1,6}/0x[0-9a-f]{1,6}")


@line_parser
class StuckTaskParser(LineParser):
    """Tasks in uninterruptible sleep, and CPUs that never came back; ``detail`` ends in what the stack says."""

    literals = ("blocked for more than", "soft lockup", "state:D")

    def parse(self, line: Line) -> Iterator[Event]:
        """One event for each report."""
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
            yield KernelEvent(**fields(line, pid=pid), what=what, detail=detail)


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


@line_parser
class KernelEventParser(RowParser):
    """Links, adapters, slots, file systems and the end of the kernel."""

    event = KernelEvent
    rows = (
        Row("Kernel panic", r"Kernel panic - not syncing.{0,200}", what="panic"),
        Row("nfs:", r"nfs: server \S{1,120} (?:not responding.{0,40}|OK)", what="nfs"),
        Row("nfs4_reclaim_open_state", r"nfs4_reclaim_open_state: Lock reclaim failed!?", what="nfs"),
        Row("LustreError", r"LustreError: .{0,200}", what="lustre"),
        Row("Lustre:", r"Lustre: .{0,160}?Connection to \S{1,120} .{0,60}was lost.{0,120}", what="lustre"),
        Row("Link down", r"(?:mlx5_core|mlx4_core|bnxt_en|ice|irdma|efa|qede|hfi1)\b.{0,120}Link down", what="link-down"),
        Row("Link up", r"(?:mlx5_core|mlx4_core|bnxt_en|ice|irdma|efa|qede|hfi1)\b.{0,120}Link up", what="link-up"),
        Row("Link is Down", r"\S{1,40}: (?:NIC )?Link is Down", what="link-down"),
        Row("Link is Up", r"\S{1,40}: (?:NIC )?Link is Up", what="link-up"),
        Row("link status definitely down", r"bond\S{0,20}:? .{0,80}link status definitely down.{0,80}", what="link-down"),
        Row("Cable unplugged", r"(?:mlx5_core \S{1,40} )?Port module event.{0,60}Cable unplugged", what="link-down"),
        Row("Cable plugged", r"(?:mlx5_core \S{1,40} )?Port module event.{0,60}Cable plugged", what="link-up"),
        Row("Port module event[error]", r"(?:mlx5_core \S{1,40} )?Port module event\[error\].{0,120}", what="link-down"),
        Row("mlx5_core", r"mlx5_core.{0,200}?(?:health compromised.{0,80}|unrecoverable hardware error.{0,80}"
                         r"|Will cause a leak of a command resource"
                         r"|Fatal error.{0,80}detected|insufficient power.{0,80}|firmware internal error.{0,80})", what="nic"),
        Row("NETDEV WATCHDOG", r"(?:mlx5_core \S{1,40} \S{1,40}: )?NETDEV WATCHDOG: .{0,120}transmit queue \d{1,5} timed out.{0,40}",
            what="nic"),
        Row("timeout detected", r"mlx5_core.{0,120}TX timeout detected.{0,40}", what="nic"),
        Row("RX timeout on channel", r"mlx5_core.{0,120}RX timeout on channel.{0,60}", what="nic"),
        Row("nv_get_p2p_free_callback", r"nvidia-peermem nv_get_p2p_free_callback.{0,160}", what="peermem"),
        Row("invoked oom-killer", r"\S{1,64} invoked oom-killer: .{0,120}", what="oom-invoked"),
        Row("admin cmd", r"(?:efa|infiniband).{0,80}The device (?:didn't|did not) send any completion for.{0,80}", what="nic"),
        Row("Admin queue is closed", r"(?:efa|infiniband).{0,80}Admin queue is closed", what="nic"),
        Row("Reset indication didn't", r"(?:efa|infiniband).{0,80}Reset indication didn't turn (?:on|off)", what="nic"),
        Row("AER:", r"AER: (?:Multiple )?Uncorrect(?:ed|able) \((?:Non-)?Fatal\) error.{0,120}", what="pcie"),
        Row("severity=Uncorrect", r"PCIe Bus Error: severity=Uncorrect(?:ed|able) \((?:Non-)?Fatal\).{0,120}", what="pcie"),
        Row("EDAC", r"EDAC MC\d{1,3}: \d{1,6} UE .{0,160}", what="memory"),
        Row("Uncorrected hardware memory error", r"Uncorrected hardware memory error.{0,120}", what="memory"),
        Row("Remounting filesystem read-only", r"\S{1,20} \(.{1,60}\): Remounting filesystem read-only", what="disk"),
        Row("Buffer I/O error", r"Buffer I/O error on dev.{0,120}", what="disk"),
        Row("nvme", r"nvme\S{0,20}: I/O .{0,60}timeout.{0,60}", what="disk"),
        Row("segfault at", r"\S{1,64}\[(?P<pid>\d{1,10})\]: segfault at .{0,200}", what="segfault"),
    )  # fmt: skip

    def text(self, line: Line) -> str:
        """See :class:`RowParser`."""
        return line.raw

    def fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """Time and host as kernel lines tell them."""
        return fields(line, pid=None)
