"""Memory, storage, links and stuck tasks in the kernel log.

Sources: Linux ``mm/oom_kill.c``, ``kernel/hung_task.c``, ``kernel/watchdog.c``, ``net/sunrpc/clnt.c``,
``drivers/net/ethernet/mellanox/mlx5``, ``drivers/pci/pcie/aer.c``; matchers of leptonai/gpud and NVIDIA/NVSentinel.
Corrected PCIe and memory errors are part of a healthy node's life and are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from nccldoctor.events import Event, KernelEvent, OutOfMemory
from nccldoctor.parsers.base import Line, LineParser, Sample, line_parser
from nccldoctor.parsers.kernel.prefix import fields

_NOT_TELLING = {
    "schedule",
    "__schedule",
    "io_schedule",
    "schedule_timeout",
    "schedule_preempt_disabled",
    "out_of_line_wait_on_bit",
}
"""Frames on top of every blocked task's stack."""


@cache
def _killed() -> re.Pattern[str]:
    return re.compile(r"Killed process (?P<pid>\d{1,10}) \((?P<comm>[^)]{1,64})\)")


@cache
def _constraint() -> re.Pattern[str]:
    return re.compile(
        r"oom-kill:constraint=(?P<why>CONSTRAINT_\w{1,20}),.{0,2000}?,task=(?P<comm>[^,]{1,64}),pid=(?P<pid>\d{1,10})"
    )


@line_parser
class OomKillParser(LineParser):
    """The kernel killed a process because memory ran out: of a container (``CONSTRAINT_MEMCG``) or of the node."""

    literals = ("Killed process ", "oom-kill:constraint=")
    samples = (
        Sample(
            "[812.1]"
            " oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_7,mems_allowed=0-1,"
            "oom_memcg=/slurm/job_7,"
            "task_memcg=/slurm/job_7/step_0,task=python,pid=4711,uid=1000\n[812.1]"
            " Memory cgroup out of memory: Killed process 4711 (python) total-vm:91kB, anon-rss:90kB",
            ({"kind": "out-of-memory", "scope": "host", "process": "python", "pid": 4711},),
            "Linux mm/oom_kill.c, 5.0 and later",
        ),
        Sample(
            "Mar  8 02:00:03 gpu-4 kernel: Out of memory: Kill process 88 (pt_main_thread) score 900 or sacrifice"
            " child\nMar  8 02:00:03 gpu-4 kernel: Killed process 88 (pt_main_thread) total-vm:91kB, anon-rss:90kB,"
            " file-rss:0kB",
            ({"kind": "out-of-memory", "process": "pt_main_thread", "pid": 88, "host": "gpu-4"},),
            "Linux mm/oom_kill.c, 4.14",
        ),
        Sample(
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/user.slice,"
            "task=pt_data_worker,pid=9,uid=0",
            ({"kind": "out-of-memory", "process": "pt_data_worker", "pid": 9},),
            "Linux mm/oom_kill.c, 5.0 and later",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One event for each process; of the two lines about one, the later speaks."""
        if hit := _killed().search(line.raw):
            yield OutOfMemory(**fields(line, pid=int(hit["pid"])), scope="host", process=hit["comm"])
        elif hit := _constraint().search(line.raw):
            again = f"Killed process {hit['pid']} ("
            if not any(again in below.raw for below in line.following(5)):
                yield OutOfMemory(**fields(line, pid=int(hit["pid"])), scope="host", process=hit["comm"])


@cache
def _blocked() -> re.Pattern[str]:
    return re.compile(
        r"INFO: task (?P<task>\S{1,64}):(?P<pid>\d{1,10}) blocked for more than (?P<s>\d{1,6}) seconds"
        r"|(?P<sleeper>\btask:(?P<task3>\S{1,64}) {1,20}state:D\b.{0,80}?pid: ?(?P<pid3>\d{1,10}))"
        r"|BUG: soft lockup - CPU#\d{1,5} stuck for (?P<s2>\d{1,6})s! \[(?P<task2>[^\]:]{1,64}):(?P<pid2>\d{1,10})\]"
    )


@cache
def _kernel_frame() -> re.Pattern[str]:
    return re.compile(r"(?:^|[\s\]])(?:\? )?(?P<name>[A-Za-z_][\w.]{1,80})\+0x[0-9a-f]{1,6}/0x[0-9a-f]{1,6}")


@line_parser
class StuckTaskParser(LineParser):
    """Tasks in uninterruptible sleep, and CPUs that never came back; ``detail`` ends in what the stack says."""

    literals = ("blocked for more than", "soft lockup", "state:D")
    samples = (
        Sample(
            "[99.1] INFO: task python:4711 blocked for more than 120 seconds.\n[99.1]       Not tainted 5.15.0\n[99.1]"
            " Call Trace:\n[99.1]  __schedule+0x2cd/0x890\n[99.1]  schedule+0x69/0x110\n[99.1] "
            " nfs_wait_bit_killable+0x1d/0x60 [nfs]\n[99.1]  nfs_wb_all+0x11/0x80 [nfs]",
            (
                {
                    "kind": "kernel",
                    "what": "blocked-task",
                    "pid": 4711,
                    "detail": "python blocked for 120 s in nfs_wait_bit_killable < nfs_wb_all",
                },
            ),
            "Linux kernel/hung_task.c",
        ),
        Sample(
            "watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [pt_main_thread:88]",
            ({"kind": "kernel", "what": "soft-lockup", "pid": 88, "detail": "pt_main_thread on a CPU stuck for 26 s"},),
            "Linux kernel/watchdog.c",
        ),
        Sample(
            "[7.0] sysrq: Show Blocked State\n[7.0] task:python          state:D stack:    0 pid: 4711 ppid:     1\n"
            "[7.0] Call Trace:\n[7.0]  schedule+0x69/0x110\n[7.0]  nfs_wb_all+0x11/0x80 [nfs]",
            (
                {
                    "kind": "kernel",
                    "what": "blocked-task",
                    "pid": 4711,
                    "detail": "python in uninterruptible sleep in nfs_wb_all",
                },
            ),
            "Linux kernel/sched/core.c, 5.15 (sysrq w)",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One event for each report."""
        if hit := _blocked().search(line.raw):
            if hit["sleeper"] and any("blocked for more than" in above.raw for above in line.preceding(4)):
                return  # the head of that report's stack
            pid, within = int(hit["pid"] or hit["pid2"] or hit["pid3"]), _within(line)
            if hit["sleeper"]:
                what, detail = "blocked-task", f"{hit['task3']} in uninterruptible sleep{within}"
            elif hit["task"]:
                what, detail = "blocked-task", f"{hit['task']} blocked for {hit['s']} s{within}"
            else:
                what, detail = "soft-lockup", f"{hit['task2']} on a CPU stuck for {hit['s2']} s{within}"
            yield KernelEvent(**fields(line, pid=pid), what=what, detail=detail)


def _within(line: Line) -> str:
    names: list[str] = []
    for below in line.following(25):
        if _blocked().search(below.raw):
            break
        frame = _kernel_frame().search(below.raw)
        if frame and frame["name"] not in _NOT_TELLING:
            names.append(frame["name"])
        if len(names) == 4:
            break
    return f" in {' < '.join(names)}" if names else ""


_ROWS: tuple[tuple[str, str, str], ...] = (
    ("panic", "Kernel panic", r"Kernel panic - not syncing.{0,200}"),
    ("nfs", "nfs:", r"nfs: server \S{1,120} (?:not responding.{0,40}|OK)"),
    ("nfs", "nfs4_reclaim_open_state", r"nfs4_reclaim_open_state: Lock reclaim failed!?"),
    ("lustre", "LustreError", r"LustreError: .{0,200}"),
    ("lustre", "Lustre:", r"Lustre: .{0,160}?Connection to \S{1,120} .{0,60}was lost.{0,120}"),
    ("link-down", "Link down", r"(?:mlx5_core|mlx4_core|bnxt_en|ice|irdma|efa|qede|hfi1)\b.{0,120}Link down"),
    ("link-up", "Link up", r"(?:mlx5_core|mlx4_core|bnxt_en|ice|irdma|efa|qede|hfi1)\b.{0,120}Link up"),
    ("link-down", "Link is Down", r"\S{1,40}: (?:NIC )?Link is Down"),
    ("link-up", "Link is Up", r"\S{1,40}: (?:NIC )?Link is Up"),
    ("link-down", "link status definitely down", r"bond\S{0,20}:? .{0,80}link status definitely down.{0,80}"),
    ("link-down", "Cable unplugged", r"(?:mlx5_core \S{1,40} )?Port module event.{0,60}Cable unplugged"),
    ("link-up", "Cable plugged", r"(?:mlx5_core \S{1,40} )?Port module event.{0,60}Cable plugged"),
    ("link-down", "Port module event[error]", r"(?:mlx5_core \S{1,40} )?Port module event\[error\].{0,120}"),
    ("nic", "mlx5_core", r"mlx5_core.{0,200}?(?:health compromised.{0,80}|unrecoverable hardware error.{0,80}"
                         r"|Will cause a leak of a command resource"
                         r"|Fatal error.{0,80}detected|insufficient power.{0,80}|firmware internal error.{0,80})"),
    ("nic", "NETDEV WATCHDOG", r"(?:mlx5_core \S{1,40} \S{1,40}: )?NETDEV WATCHDOG: .{0,120}transmit queue \d{1,5} timed out.{0,40}"),
    ("nic", "timeout detected", r"mlx5_core.{0,120}TX timeout detected.{0,40}"),
    ("nic", "RX timeout on channel", r"mlx5_core.{0,120}RX timeout on channel.{0,60}"),
    ("peermem", "nv_get_p2p_free_callback", r"nvidia-peermem nv_get_p2p_free_callback.{0,160}"),
    ("oom-invoked", "invoked oom-killer", r"\S{1,64} invoked oom-killer: .{0,120}"),
    ("nic", "admin cmd", r"(?:efa|infiniband).{0,80}The device (?:didn't|did not) send any completion for.{0,80}"),
    ("nic", "Admin queue is closed", r"(?:efa|infiniband).{0,80}Admin queue is closed"),
    ("nic", "Reset indication didn't", r"(?:efa|infiniband).{0,80}Reset indication didn't turn (?:on|off)"),
    ("pcie", "AER:", r"AER: (?:Multiple )?Uncorrect(?:ed|able) \((?:Non-)?Fatal\) error.{0,120}"),
    ("pcie", "severity=Uncorrect", r"PCIe Bus Error: severity=Uncorrect(?:ed|able) \((?:Non-)?Fatal\).{0,120}"),
    ("memory", "EDAC", r"EDAC MC\d{1,3}: \d{1,6} UE .{0,160}"),
    ("memory", "Uncorrected hardware memory error", r"Uncorrected hardware memory error.{0,120}"),
    ("disk", "Remounting filesystem read-only", r"\S{1,20} \(.{1,60}\): Remounting filesystem read-only"),
    ("disk", "Buffer I/O error", r"Buffer I/O error on dev.{0,120}"),
    ("disk", "nvme", r"nvme\S{0,20}: I/O .{0,60}timeout.{0,60}"),
    ("segfault", "segfault at", r"\S{1,64}\[(?P<pid>\d{1,10})\]: segfault at .{0,200}"),
)  # fmt: skip
"""Kind of event, the literal that offers the line, and the words that make it so."""


@cache
def _compiled() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((what, literal, re.compile(pattern)) for what, literal, pattern in _ROWS)


@line_parser
class KernelEventParser(LineParser):
    """Links, adapters, slots, file systems and the end of the kernel."""

    literals = tuple(dict.fromkeys(literal for _, literal, _ in _ROWS))
    samples = (
        Sample(
            "[5.0] mlx5_core 0000:12:00.0 eth2: Link down\n[9.0] mlx5_core 0000:12:00.0 eth2: Link up",
            (
                {"kind": "kernel", "what": "link-down", "detail": "mlx5_core 0000:12:00.0 eth2: Link down"},
                {"kind": "kernel", "what": "link-up"},
            ),
            "Linux drivers/net/ethernet/mellanox/mlx5/core/en_main.c",
        ),
        Sample(
            "[5.0] nfs: server filer1 not responding, still trying",
            ({"kind": "kernel", "what": "nfs", "detail": "nfs: server filer1 not responding, still trying"},),
            "Linux fs/nfs",
        ),
        Sample(
            "pcieport 0000:4c:00.0: AER: Corrected error received: 0000:4d:00.0\n"
            "pcieport 0000:4c:00.0: AER: Uncorrected (Fatal) error received: 0000:4d:00.0",
            ({"kind": "kernel", "what": "pcie"},),
            "Linux drivers/pci/pcie/aer.c",
        ),
        Sample(
            "pt_main_thread[4711]: segfault at 0 ip 00007f sp 00007f error 4 in libnccl.so.2[7f0000+100]",
            ({"kind": "kernel", "what": "segfault", "pid": 4711},),
            "Linux arch/x86/mm/fault.c",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """At most one event for a line: the first row that fits."""
        for what, literal, pattern in _compiled():
            if literal in line.raw and (hit := pattern.search(line.raw)):
                pid = hit.groupdict().get("pid")
                yield KernelEvent(**fields(line, pid=int(pid) if pid else None), what=what, detail=hit[0].strip()[:300])
                return
