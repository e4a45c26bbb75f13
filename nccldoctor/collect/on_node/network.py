"""Asks NCCL's RAS and PyTorch's debug server, where the job has them."""

from __future__ import annotations

import re
import socket
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from nccldoctor.collect.on_node.children import MOST_REPORT, TOOL_SECONDS, Child, Work, reader, run_all
from nccldoctor.collect.on_node.proc_files import proc_text
from nccldoctor.collect.on_node.process_tree import ProcessTree
from nccldoctor.collect.on_node.tar_answer import TarAnswer
from nccldoctor.collect.on_node.variables import number_in

DEBUG_SERVER_PORT = 25999
"""The port of ``torch.distributed.debug.start_debug_server`` on rank 0 (pytorch ``torch/distributed/debug/__init__.py`` 2.10)."""


def listening_ports(pid: int) -> set[int]:
    """TCP ports on which anything in the network of a process listens."""
    rows = re.findall(
        r"^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F:]+ 0A",
        proc_text(f"/proc/{pid}/net/tcp", 8 << 20) + proc_text(f"/proc/{pid}/net/tcp6", 8 << 20),
        re.MULTILINE,
    )
    return {int(port, 16) for port in rows}


def ras_addresses(tree: ProcessTree) -> list[tuple[str, int]]:
    """Where NCCL's RAS listens: NCCL_RAS_ADDR, else localhost:28028, where something listens."""
    out: OrderedDict[tuple[str, int], None] = OrderedDict()
    for rank in tree.ranks:
        host, _, number = rank.env.get("NCCL_RAS_ADDR", "localhost:28028").rpartition(":")
        host, port = host.strip("[]"), number_in(number)
        if port is not None and rank.env.get("NCCL_RAS_ENABLE") != "0" and port in listening_ports(rank.pid):
            out["localhost" if host in ("", "0.0.0.0", "::") else host, port] = None
    return list(out)[:8]


def ask_ras(host: str, port: int, write: Callable[[bytes], None], /) -> None:
    """The verbose report of RAS, by the protocol of ``ncclras`` (NVIDIA/nccl ``src/ras/client.cc`` 2.24 to 2.30).

    JSON, which lists every rank, comes from 2.28.7 on; an older one refuses the format and reports outliers as text.
    """
    with socket.create_connection((host, port), 3.0) as connection:
        connection.settimeout(12.0)
        stream = connection.makefile("rb")
        connection.sendall(b"CLIENT PROTOCOL 2\n")
        if not stream.readline(1024).upper().startswith(b"SERVER PROTOCOL"):
            return
        connection.sendall(b"TIMEOUT 5\n")
        if stream.readline(1024).strip().upper() != b"OK":
            return
        connection.sendall(b"SET FORMAT json\n")
        stream.readline(1024)
        connection.sendall(b"VERBOSE STATUS\n")
        for line in stream:
            write(line)


def ask_debug_server(write: Callable[[bytes], None], /) -> None:
    """The page with the recorder dumps of all ranks."""
    with socket.create_connection(("localhost", DEBUG_SERVER_PORT), 3.0) as connection:
        connection.settimeout(12.0)
        connection.sendall(b"GET /fr_trace_json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        stream = connection.makefile("rb")
        if b" 200 " not in stream.readline(1024):
            return
        while stream.readline(65536) not in (b"\r\n", b"\n", b""):
            pass
        for block in iter(lambda: stream.read(1 << 16), b""):
            write(block)


def add_network_reports(answer: TarAnswer, tree: ProcessTree) -> None:
    """RAS and PyTorch's debug server, where the job has them."""
    addresses = ras_addresses(tree)
    starters = [
        partial(
            _start_question,
            answer,
            f"node/ras-{number}.txt",
            "ras",
            f"RAS at {host}:{port}",
            partial(ask_ras, host, port),
        )
        for number, (host, port) in enumerate(addresses)
    ]
    if not addresses and tree.ranks:
        answer.lacks("RAS report", "nothing listens where NCCL's RAS does (NCCL 2.24 or newer, NCCL_RAS_ENABLE)")
    if any(DEBUG_SERVER_PORT in listening_ports(rank.pid) for rank in tree.ranks if rank.rank == 0):
        path = "node/debug_server_fr_trace_json.html"
        starters.append(partial(_start_question, answer, path, "dump", "PyTorch's debug server", ask_debug_server))
    run_all(starters)


def _start_question(answer: TarAnswer, path: str, kind: str, what: str, ask: Work) -> Child:
    """A child that asks, and whose answer becomes a file."""

    def end(child: Child) -> None:
        if child.data:
            answer.add(path, kind, bytes(child.data))
        if child.late or not child.data:
            answer.lacks(what, "it did not answer in time" if child.late else "it gave no report")

    child = reader(ask, min(TOOL_SECONDS, answer.seconds_left), MOST_REPORT)
    child.then = end
    return child
