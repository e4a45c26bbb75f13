"""The kernel's and the driver's lines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from builders.logs.cpu_limit import bounded_cpu_time
from builders.logs.log_reading import events_of, parser_named, text_around_literals
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.kernel import driver, prefix

XID, SXID = parser_named("xid"), parser_named("sxid")
OOM, STUCK, OTHER = parser_named("oom-kill"), parser_named("stuck-task"), parser_named("kernel-events")
AMD = parser_named("amd-gpu")
PARSERS: tuple[LineParser, ...] = (XID, SXID, OOM, STUCK, OTHER, AMD)


def test_a_burst_is_told_apart():
    text = (
        "[Sun Oct 11 18:01:05 2026] NVRM: Xid (PCI:0000:3a:00): 48, pid=175986, name=python, DBE (double bit"
        " error)\n[Sun Oct 11 18:01:05 2026] NVRM: Xid (PCI:0000:3a:00): 95, pid=175986, name=python, Uncontained: SM"
        " (0x1). RST: Yes\n[Sun Oct 11 18:01:05 2026] NVRM: Xid (PCI:0000:3a:00): 45, pid=175986, name=python, Ch"
        " 00000010"
    )
    events = events_of(XID, text, path="dmesg/gpu-18.dmesg.txt")
    assert [(e.xid, e.weight) for e in events] == [(48, "fault"), (95, "fault"), (45, "consequence")]
    assert {e.time for e in events} == {datetime(2026, 10, 11, 18, 1, 5)}
    assert {e.host for e in events} == {"gpu-18"}


@pytest.mark.parametrize(
    ("front", "time", "host"),
    [
        ("[  812.004123] ", None, None),
        ("<3>[812.0] ", None, None),
        ("kern  :err   : [Sun Mar  8 02:00:03 2026] ", datetime(2026, 3, 8, 2, 0, 3), None),
        ("Mar  8 02:00:03 gpu-4 kernel: ", datetime(1900, 3, 8, 2, 0, 3), "gpu-4"),
        ("Mar 08 02:00:03 gpu-4 kernel: ", datetime(1900, 3, 8, 2, 0, 3), "gpu-4"),
        (
            "2026-03-08T02:00:03,500000+02:00 ",
            datetime(2026, 3, 8, 2, 0, 3, 500000, timezone(timedelta(hours=2))),
            None,
        ),
        ("2026-03-08T02:00:03.5+0000 gpu-4 kernel: ", datetime(2026, 3, 8, 2, 0, 3, 500000, UTC), "gpu-4"),
    ],
)
def test_time_and_host(front, time, host):
    (event,) = events_of(XID, front + "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.")
    assert (event.time, event.host) == (time, host)


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("dmesg/gpu-18.dmesg.txt", "gpu-18"),
        ("dmesg_node3.log", "node3"),
        ("node3/dmesg.txt", "node3"),
        ("logs/dmesg.txt", None),
        ("journalctl-worker001.txt.gz", "worker001"),
        ("node3/rank_5.log", None),
    ],
)
def test_host_in_a_name(path, host):
    assert prefix.host_in_name(path) == host


@pytest.mark.parametrize(
    ("text", "device"), [("0000:05:00", "0000:05:00"), ("00000000:3A:00.0", "0000:3a:00"), ("05:00.0", "0000:05:00")]
)
def test_one_board_one_spelling(text, device):
    assert driver.board(text) == device


def test_amds_driver_names_the_board_and_the_process_far_behind_in_a_line():
    far = (
        f"ring gfx_0 timeout, signaled seq=1, emitted seq=3 {'x' * 2100} amdgpu 0000:c1:00.0: Process python3 pid 4242"
    )
    (event,) = events_of(AMD, far)
    assert (event.device, event.pid) == ("0000:c1:00", 4242)
    beyond = f"{'x' * 2100} ring gfx_0 timeout, signaled seq=1, emitted seq=3"
    assert not events_of(AMD, beyond)


def test_healthy_kernel_logs_say_nothing():
    text = (
        "[Sat Oct 10 03:38:12 2026] pcieport 0000:4c:00.0: AER: Corrected error received: 0000:4d:00.0\n[Sat Oct 10"
        " 04:12:53 2026] perf: interrupt took too long (2512 > 2500), lowering kernel.perf_event_max_sample_rate to"
        " 79500\ndevice ib0 entered promiscuous mode\nmlx5_core 0000:12:00.0: firmware version:"
        " 22.39.1002\nmlx5_cmd_out_err: ACCESS_REG(0x805) op_mod(0x1) failed, status bad parameter(0x3)\nNVRM: loading"
        " NVIDIA UNIX x86_64 Kernel Module  535.129.03\nEDAC MC0: 1 CE memory read error"
    )
    assert not [event for parser in PARSERS for event in events_of(parser, text, path="dmesg.txt")]


@given(text_around_literals(PARSERS, 150), st.text(max_size=150))
@settings(max_examples=300, deadline=None)
def test_never_raises(text, path):
    for parser in PARSERS:
        events_of(parser, text, path=path)


@pytest.mark.parametrize(
    "filler",
    ["NVRM: Xid (PCI:", "mlx5_core ", "oom-kill:constraint=CONSTRAINT_NONE,task=a", "Mar  8 02:00:03 ", "aaaa"],
)
def test_hostile_line_is_read_quickly(filler):
    text = (filler * (65536 // len(filler)))[:65000] + " segfault at NETDEV WATCHDOG AER: blocked for more than"
    with bounded_cpu_time():
        for parser in PARSERS:
            events_of(parser, text)
