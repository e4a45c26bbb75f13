"""Posts to a URL of the user when a job gets stuck or failed, and when it moves again. The URL holds a token, and is never shown."""

from __future__ import annotations

from datetime import UTC, datetime
from http.client import HTTPException
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlsplit

import msgspec

from nccldoctor.live.clock import Clock
from nccldoctor.live.hook import verdict_values
from nccldoctor.live.remarks import RELIEF, stuck_sentence
from nccldoctor.live.watch import Observation, State
from nccldoctor.model.errors import InputError
from nccldoctor.reports.dialects import SLACK
from nccldoctor.version import __version__
from nccldoctor.words.sanitize import line, text

PAUSES_S = (0.0, 2.0, 10.0)
"""Seconds before each try."""

PATIENCE_S = 10.0
"""Seconds that a receiver may be silent."""


class Webhook:
    """The receiver of a watch, and what it knows: that the job is stuck, why, and that it failed.

    Raises :class:`InputError` where ``url`` is none of http or https. ``source`` is what is watched.
    """

    def __init__(self, url: str, source: str, clock: Clock) -> None:
        is_plain = url.startswith(("https://", "http://")) and url.isascii() and url.isprintable() and " " not in url
        try:
            parts = urlsplit(url if is_plain else "")
            self.host = "" if "@" in parts.netloc or parts.port == 0 else parts.hostname
        except ValueError:
            self.host = ""
        if not self.host:
            raise InputError("the URL of --webhook can't be used", "write https://HOST/..., without a user and blanks")
        self._url, self._source, self._clock = url, source, clock
        self._stage = 0

    def news(self, seen: Observation) -> str:
        """What is new after a look: ``stuck`` (and once more when the cause is known), ``failed``, ``moving``, ``ended``, or ""."""
        before = self._stage
        if seen.state is State.STUCK:
            self._stage = max(before, 1 + seen.is_verdict + seen.is_over)
            return ("failed" if seen.is_over else "stuck") if self._stage > before else ""
        if seen.state is State.LOST:
            return ""
        self._stage = 0
        return ("ended" if seen.state is State.ENDED else "moving") if before else ""

    def post(self, event: str, seen: Observation) -> str:
        """Post an event, with at most three tries; why the last one failed, or ""."""
        said = f"{SLACK.code(self._source, 200)}: {SLACK.words(_sentence(seen), 600)}"
        time = datetime.fromtimestamp(seen.at, UTC).isoformat(timespec="seconds")
        values = verdict_values(seen.incident) | {"event": event, "path": self._source, "time": time, "text": said}
        content, problem = msgspec.json.encode({name: text(value) for name, value in values.items()}), ""
        for pause in PAUSES_S:
            if pause:
                self._clock.sleep(pause)
            if not (problem := _sent(self._url, content)):
                break
        return problem


def _sentence(seen: Observation) -> str:
    verdict = seen.incident.verdict
    if seen.is_verdict:
        return f"{verdict.headline} [{verdict.cause}, confidence {verdict.confidence}]"
    return RELIEF.get(seen.state) or stuck_sentence(seen)


def _sent(url: str, content: bytes) -> str:
    """Post once, and follow no redirect: what is posted is for one receiver. Why it failed, or ""."""
    opener = request.OpenerDirector()  # it knows no scheme but these two
    errors = (request.HTTPErrorProcessor, request.HTTPDefaultErrorHandler)
    for handler in (request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, *errors):
        opener.add_handler(handler())
    headers = {"Content-Type": "application/json", "User-Agent": f"nccldoctor/{__version__}"}
    try:
        opener.open(request.Request(url, content, headers), timeout=PATIENCE_S).close()
    except HTTPError as error:
        error.close()
        return line(f"{error.code} {error.reason}", 80)
    except (OSError, HTTPException, ValueError) as error:  # what they say may hold the URL
        reason = getattr(error, "reason", error)
        return getattr(reason, "strerror", None) or type(reason).__name__
    return ""
