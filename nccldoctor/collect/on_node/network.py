"""Asks NCCL's RAS and PyTorch's debug server, where the job has them."""

from __future__ import annotations

import re
import socket
import time
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


class Conversation:
    """A connection that ends after so many seconds, however slowly the other side talks; every method raises OSError then."""

    def __init__(self, host: str, port: int, seconds: float = 12.0) -> None:
        self.until = time.monotonic() + seconds
        self.connection = socket.create_connection((host, port), 3.0)
        self.unread = b""

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    @property
    def is_with_this_machine(self) -> bool:
        """True where both ends have one address."""
        return bool(self.connection.getpeername()[0] == self.connection.getsockname()[0])

    def send(self, line: bytes) -> None:
        """Say something."""
        self._hurry()
        self.connection.sendall(line)

    def block(self) -> bytes:
        """What comes next; b"" at the end."""
        if self.unread:
            block, self.unread = self.unread, b""
            return block
        self._hurry()
        return self.connection.recv(1 << 16)

    def _hurry(self) -> None:
        left = self.until - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self.connection.settimeout(left)

    def one_line(self) -> bytes:
        """The next line, or the first bytes of one that is too long."""
        line = b""
        while b"\n" not in line and len(line) < 1 << 16:
            block = self.block()
            line += block
            if not block:
                break
        line, end, self.unread = line.partition(b"\n")
        return line + end


def ask_ras(host: str, port: int, write: Callable[[bytes], None], /) -> None:
    """The verbose report of RAS, by the protocol of ``ncclras`` (NVIDIA/nccl ``src/ras/client.cc`` 2.24 to 2.30).

    JSON, which lists every rank, comes from 2.28.7 on; an older one refuses the format and reports outliers as text. Raises OSError where
    nothing answers in time.
    """
    with Conversation(host, port) as ras:
        _converse(ras, write)


def ask_own_ras(host: str, port: int, write: Callable[[bytes], None], /) -> None:
    """:func:`ask_ras`, for an address of this machine alone: a variable of a process names it, which may be a stranger's."""
    with Conversation(host, port) as ras:
        if ras.is_with_this_machine:
            _converse(ras, write)


def _converse(ras: Conversation, write: Callable[[bytes], None]) -> None:
    ras.send(b"CLIENT PROTOCOL 2\n")
    if not ras.one_line().upper().startswith(b"SERVER PROTOCOL"):
        return
    ras.send(b"TIMEOUT 5\n")
    if ras.one_line().strip().upper() != b"OK":
        return
    ras.send(b"SET FORMAT json\n")
    ras.one_line()
    ras.send(b"VERBOSE STATUS\n")
    for block in iter(ras.block, b""):
        write(block)


def ask_debug_server(write: Callable[[bytes], None], /) -> None:
    """The page with the recorder dumps of all ranks."""
    with Conversation("localhost", DEBUG_SERVER_PORT) as server:
        server.send(b"GET /fr_trace_json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        if b" 200 " not in server.one_line():
            return
        while server.one_line().strip():
            pass
        for block in iter(server.block, b""):
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
            partial(ask_own_ras, host, port),
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
            answer.lacks(what, answer.why_late("it") if child.late else "it gave no report")

    child = reader(ask, min(TOOL_SECONDS, answer.seconds_left), MOST_REPORT)
    child.then = end
    return child
