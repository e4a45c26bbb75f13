"""A kernel log without any trouble is a kernel log all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccldoctor
from nccldoctor.parsers.kernel.prefix import is_kernel_log, is_rest_of_kernel_log

HEALTHY = {
    "dmesg -T": "[Tue Dec  2 01:29:45 2025] systemd[1]: Started Session 7 of user root.\n"
    "[Tue Dec  2 03:36:04 2025] perf: interrupt took too long (2512 > 2500), lowering the rate\n",
    "dmesg": "[    0.000000] Linux version 6.8.0-45-generic (buildd@lcy02): 1\n[   12.345678] mlx5_core 0000:18:00.0: Port module event\n",
    "journalctl -k": "Dec 02 01:29:45 node3 kernel: usb 1-1: new high-speed USB device number 2\n"
    "Dec 02 01:29:46 node3 kernel: EXT4-fs (sda1): mounted filesystem\n",
}
OTHERS = {
    "a training log": "[Tue Dec  2 01:29:45 2025] step 3 loss 2.11\n[Tue Dec  2 01:29:46 2025] step 4 loss 2.10\n",
    "one line": "[Tue Dec  2 01:29:45 2025] systemd[1]: Started Session 7 of user root.\n",
    "a mixed log": HEALTHY["dmesg"] + "Traceback (most recent call last):\n",
    "nothing": "",
}


@pytest.mark.parametrize("text", HEALTHY.values(), ids=HEALTHY)
def test_the_stamps_and_subsystems_of_a_kernel_are_known(text: str) -> None:
    assert is_kernel_log(text.encode())


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_logs_are_none(text: str) -> None:
    assert not is_kernel_log(text.encode())


def test_a_clean_kernel_log_of_each_host_rules_out_what_it_would_show() -> None:
    """Both hosts of the bundled job left a kernel log; that of worker000 is clean."""
    found = nccldoctor.analyze(Path(__file__).parents[4] / "sample_logs" / "hardware").diagnosis
    says = {item.text: item for item in found.ruled_out}
    assert (says["out of memory"].met, says["out of memory"].says) == (False, "no OOM kill in 2 kernel logs")
    assert not any("worker000" in problem for row in found.coverage for problem in row.problems)


REST = "name=<unknown>, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("path", "text", "is_rest"),
    [
        ("dmesg/worker-21.txt", REST, True),
        ("node3.dmesg", REST, True),
        ("train.log", REST, False),
        ("dmesg.txt", "dmesg: read kernel buffer failed: Operation not permitted\n", False),
        ("dmesg.txt", "$ dmesg -T\n[Tue Dec  2 01:29:45 2025] systemd[1]: Started x.\n" * 2, False),
        ("dmesg.txt", "usb 1-1: new device\nsystemd[1]: Started x.\n", False),
        ("dmesg.txt", "2026-10-11T18:01:05,123456+02:00 x started\n", False),
        ("dmesg.txt", "\n", False),
    ],
)
def test_lines_without_beginnings_are_the_rest_of_a_kernel_log(path: str, text: str, is_rest: bool) -> None:
    assert is_rest_of_kernel_log(path, text) is is_rest
