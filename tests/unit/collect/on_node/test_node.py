"""What is asked of the node itself: RAS, the kernel, reads that hang."""

from __future__ import annotations

import os
import socket
import sys
import threading

import pytest
from builders.live.fake_ranks import Ranks

from nccldoctor.collect.on_node import children, machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_ras_is_asked_by_its_protocol(ranks: Ranks) -> None:
    heard: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                heard.append(line)
                if line.startswith(b"CLIENT"):
                    connection.sendall(b"SERVER PROTOCOL 2\n")
                elif line.startswith(b"VERBOSE"):
                    connection.sendall(b"NCCL version 2.27.3\nrank 1 is dead\n")
                    return
                else:
                    connection.sendall(b"OK\n")

    thread = threading.Thread(target=serve)
    thread.start()
    ranks.start(0, NCCL_RAS_ADDR=f"127.0.0.1:{server.getsockname()[1]}")
    files = ranks.collect().files()
    server.close()
    thread.join()
    assert b"rank 1 is dead" in files["node/ras-0.txt"]
    assert (heard[0], heard[-1]) == (b"CLIENT PROTOCOL 2\n", b"VERBOSE STATUS\n")


def test_a_read_that_hangs_costs_itself_alone() -> None:
    silent, _ = os.pipe()

    def look(item: int) -> int:
        if item == 2:
            os.read(silent, 1)
        return item * 10

    assert list(children.each([1, 2, 3], look, 0.3)) == [(1, 10), (2, None), (3, 30)]


def test_kernel_messages_from_before_the_job_are_left_out() -> None:
    log = b"[   10.500000] Out of memory: Killed process 7 (python)\n[  500.250000] NVRM: Xid (PCI:0000:3a:00): 79\n  continued\n"
    kept = machine.kernel_lines(log, 1_000_400.0, booted=1_000_000.0)
    assert b"Out of memory" not in kept
    assert b"Xid (PCI:0000:3a:00): 79\n  continued\n" in kept
    assert kept.startswith(b"[")
