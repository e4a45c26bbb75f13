"""A receiver of posts on a free port of this machine; it keeps what it is sent, and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Receiver(HTTPServer):
    """Answers each request with the next of ``statuses``; the last one stays. ``location`` is where a redirect points."""

    def __init__(self, statuses: Sequence[int] = (200,), location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses, self.location = list(statuses), location
        self.asked: list[tuple[str, str, Any]] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/services/T0/{TOKEN}"

    @property
    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.asked]

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


TOKEN = "Xq7vTokenOfTheReceiver"
"""What nobody may print of the URL."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.command, self.headers["Content-Type"], json.loads(content)))
        self._answer()

    def do_GET(self) -> None:
        self.server.asked.append((self.command, "", None))
        self._answer()

    def _answer(self) -> None:
        statuses = self.server.statuses
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass
