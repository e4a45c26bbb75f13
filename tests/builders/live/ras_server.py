"""A RAS service that replays NCCL's client protocol, as ``src/ras/client_support.cc`` of v2.24.3 to v2.30.7 speaks it.

One connection is one report: the client names its protocol, may set a timeout and a format, asks for the status, and reads until the
server closes. Each connection gets the next report; the last one stays.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Report:
    """What RAS knows of one communicator with all ranks of a job, 4 to a node.

    ``calls`` are the AllReduce calls of each rank; a rank in ``dead`` is considered dead, one in ``silent`` did not answer.
    """

    calls: tuple[int, ...]
    dead: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    stamp: str = "2026-01-11 10:05:00"

    def host(self, rank: int) -> str:
        return f"10.0.0.{11 + rank // 4}"

    def pid(self, rank: int) -> int:
        return 7000 + rank

    def as_json(self) -> str:
        ranks, missing = [], []
        for rank, calls in enumerate(self.calls):
            place: dict[str, Any] = {
                "rank": rank, "host": self.host(rank), "pid": self.pid(rank), "cuda_dev": rank % 4, "nvml_dev": rank % 4,
            }  # fmt: skip
            if rank in self.dead or rank in self.silent:
                status = {"unresponsive": True, "considered_dead": rank in self.dead}
                missing.append({**place, "status": status})
                continue
            state = {
                "init_state": 0,
                "async_error": 0,
                "finalize_called": False,
                "destroy_flag": False,
                "abort_flag": False,
            }
            counts = {"Broadcast": 1, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": calls}
            ranks.append({**place, "status": state, "collective_counts": counts})
        communicator = {
            "hash": "0x78db921d1c117b4a", "secondary_hash": "0x1:0x2", "size": len(self.calls), "ranks_count": len(ranks),
            "missing_ranks_count": len(missing), "ranks": ranks, "missing_ranks": missing,
        }  # fmt: skip
        document = {
            "nccl_version": "2.28.9", "cuda_runtime_version": 12090, "cuda_driver_version": 13000, "timestamp": self.stamp,
            "communicators_count": 1, "communicators": [communicator],
            "ras": {"collection_time_sec": 0.004, "timeouts_count": 0},
        }  # fmt: skip
        return json.dumps(document, indent=1) + "\n"

    def as_text(self) -> str:
        size = len(self.calls)
        lost = [*self.dead, *self.silent]
        errors = "INCOMPLETE" if lost else "OK"
        rows = [
            "NCCL version 2.26.2 compiled with CUDA 12.8",
            "CUDA runtime version 12080, driver version 13000",
            "",
            "Job summary",
            "===========",
            "",
            "  Nodes  Processes         GPUs  Processes     GPUs",
            "(total)   per node  per process    (total)  (total)",
            f"{-(-size // 4):7d}  {4:9d}  {1:11d}  {size:9d}  {size:7d}",
            "",
            "Communicators... (0.00s)",
            "=============",
            "",
            "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors",
            "    #  in group  per comm  per node  per comm  in group",
            f"{0:5d}  {1:8d}  {-(-size // 4):8d}  {4:8d}  {size:8d}  {size:8d}   RUNNING  {errors:>8s}",
            "",
        ]
        if lost:
            rows += ["Errors", "======", ""]
        if self.dead:
            rows += ["DEAD", f"  {len(self.dead)} job process is considered dead (unreachable via the RAS network)"]
            rows += [f"  Process {self.pid(r)} on node {self.host(r)} managing GPU {r % 4}" for r in self.dead] + [""]
        if lost:
            rows += ["#0-0 (78db921d1c117b4a) INCOMPLETE", "  Missing communicator data from 1 rank"]
            rows += [f"  The missing rank: {rank}" for rank in lost] + [""]
        return "\n".join(rows) + "\n"


@dataclass
class RasServer:
    """Serves ``reports`` on a free port of localhost. ``knows_json`` is False of NCCL before 2.28.7."""

    reports: Sequence[Report]
    knows_json: bool = True
    heard: list[list[str]] = field(default_factory=list)

    def __enter__(self) -> RasServer:
        served = iter(self._served())

        class Handler(socketserver.StreamRequestHandler):
            def handle(handler) -> None:  # noqa: N805
                self._talk(handler, served)

        self._server = socketserver.ThreadingTCPServer(("localhost", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse connections from now on."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def _served(self) -> Iterable[Report]:
        yield from self.reports
        while True:
            yield self.reports[-1]

    def _talk(self, handler: socketserver.StreamRequestHandler, served: Any) -> None:
        form, said = "text", []
        self.heard.append(said)
        for raw in handler.rfile:
            command = raw.decode().strip()
            said.append(command)
            word = command.lower()
            if word.startswith("client protocol "):
                answer = "SERVER PROTOCOL 2\n"
            elif word.startswith("timeout "):
                answer = "OK\n" if word.split()[1].isdecimal() else f"ERROR: Invalid timeout value {command[8:]}\n"
            elif word.startswith("set format ") and self.knows_json:
                form = word.removeprefix("set format ")
                answer = "OK\n" if form in ("text", "json") else f"ERROR: Invalid format {form}\n"
            elif word in ("status", "verbose status"):
                report = next(served)
                handler.wfile.write((report.as_json() if form == "json" else report.as_text()).encode())
                return
            else:
                answer = f"ERROR: Unknown command {command}\n"
            handler.wfile.write(answer.encode())
