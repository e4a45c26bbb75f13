"""Serves what a watch knows as metrics, in the text format 0.0.4 of Prometheus (``docs/instrumenting/exposition_formats.md``).

A page is made once for each look. A scrape reads the newest whole page, so that neither waits for the other.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from jinja2 import StrictUndefined, Template

from nccldoctor.live.hook import verdict_values
from nccldoctor.live.watch import Observation, State, Wishes
from nccldoctor.model.errors import InputError
from nccldoctor.version import __version__
from nccldoctor.words.sanitize import line

MOST_RANKS = 32
"""Ranks that have series of their own; a job may have thousands."""

LABEL = 200
"""Characters of the value of a label."""


def metrics_page(seen: Observation, wishes: Wishes) -> bytes:
    """The page after a look."""
    source = Path(__file__).with_suffix(".j2").read_text(encoding="utf-8")
    template = Template(source, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_escaped)
    told, is_stuck = verdict_values(seen.incident), seen.state is State.STUCK
    behind = [late for late in seen.pace.behind if late.seconds >= wishes.behind]
    text = template.render(version=__version__, seen=seen, told=told, is_stuck=is_stuck, behind=behind, most=MOST_RANKS)
    return f"{text}\n".encode()


def _escaped(value: object) -> str:
    return line(str(value), LABEL).replace("\\", r"\\").replace('"', r"\"")


class MetricsServer(ThreadingTCPServer):
    """Listens at a host and port; ``page`` is what it answers with."""

    daemon_threads = allow_reuse_address = True
    page = b""  # before the first look

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Scrape)

    def handle_error(self, *_: object) -> None:
        """Say nothing: a scraper that went away is no matter of the watch."""


class _Scrape(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = 10  # seconds; a client that asks nothing is let go
    server_version, sys_version = "nccldoctor", ""

    def do_GET(self) -> None:
        is_known, page = self.path.partition("?")[0] == "/metrics", self.server.page
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.end_headers()
        self.wfile.write(page if is_known else b"the metrics are at /metrics\n")

    def log_message(self, *_: Any) -> None:
        """Say nothing: stderr is for the watch."""


@contextmanager
def metrics_server(address: str) -> Iterator[MetricsServer]:
    """Serve at ``[HOST]:PORT`` inside the block; without a host on localhost alone.

    Raises :class:`InputError` where that is no address, or nobody can listen there.
    """
    try:
        parts = urlsplit(f"//{address}")
        if parts.port is None or parts.netloc != address or "@" in address:
            raise ValueError("it has no port")
        server = MetricsServer(parts.hostname or "localhost", parts.port)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"--metrics {address}: {why}", "write :9109, or 0.0.0.0:9109 for other hosts") from None
    with server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
