"""Texts as collectors and exports of log stores hand them out."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from datetime import UTC, datetime

from damage.kinds.registry import NotApplicable, of_texts

COLLECTOR = "collector"

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)|[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)\.")


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "replace").rstrip("\n").split("\n")


def _time_in(line: str, year: str) -> datetime | None:
    hit = _TIME.search(line)
    if hit is None:
        return None
    day, clock, month, number, glog = hit.groups()
    try:
        return datetime.fromisoformat(f"{day} {clock}" if day else f"{year}-{month}-{number} {glog}").replace(
            tzinfo=UTC
        )
    except ValueError:
        return None


MOST_UNTIMED = 3
"""Lines behind the last time of a text: a collector would have written them later, and nobody knows when."""


def _timed(text: bytes) -> list[tuple[datetime, str]]:
    """The lines with the times at which they were written: their own, else that of the line before."""
    lines = _lines(text)
    year = next((hit[1][:4] for line in lines if (hit := _TIME.search(line)) and hit[1]), None)
    if year is None:
        raise NotApplicable  # a time that the collector makes up would tell another story
    own = [_time_in(line, year) for line in lines]
    if not any(own[-1 - MOST_UNTIMED :]):
        raise NotApplicable
    at = next(time for time in own if time)
    out = []
    for line, time in zip(lines, own, strict=True):
        at = max(at, time or at)
        out.append((at, line))
    return out


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000000000Z")


def _short(at: datetime) -> str:
    return at.strftime("%b %d %H:%M:%S")


def _ns(at: datetime) -> int:
    return int(at.timestamp()) * 10**9


def _joined(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


@of_texts(COLLECTOR)
def docker_json(rng: random.Random, text: bytes) -> bytes:
    """Docker's ``json-file`` driver."""
    rows = _timed(text)
    return _joined([json.dumps({"log": line + "\n", "stream": "stderr", "time": _iso(at)}) for at, line in rows])


@of_texts(COLLECTOR)
def docker_json_in_parts(rng: random.Random, text: bytes) -> bytes:
    """Docker's ``json-file`` driver, long lines in parts of 200 bytes (really 16 kB)."""
    out = []
    for at, line in _timed(text):
        whole = line + "\n"
        parts = [whole[place : place + 200] for place in range(0, len(whole), 200)]
        out += [json.dumps({"log": part, "stream": "stderr", "time": _iso(at)}) for part in parts]
    return _joined(out)


@of_texts(COLLECTOR)
def container_runtime(rng: random.Random, text: bytes) -> bytes:
    """The files of a container runtime: time, stream, and whether the line is whole."""
    return _joined([f"{_iso(at)} stderr F {line}" for at, line in _timed(text)])


@of_texts(COLLECTOR)
def container_runtime_in_parts(rng: random.Random, text: bytes) -> bytes:
    """The files of a container runtime, long lines in parts of 200 bytes (really 16 kB)."""
    out = []
    for at, line in _timed(text):
        parts = [line[place : place + 200] for place in range(0, max(1, len(line)), 200)]
        out += [f"{_iso(at)} stderr {'F' if part is parts[-1] else 'P'} {part}" for part in parts]
    return _joined(out)


@of_texts(COLLECTOR)
def loki_lines(rng: random.Random, text: bytes) -> bytes:
    """``logcli --output jsonl``."""
    rows = _timed(text)
    return _joined([json.dumps({"labels": {"app": "train"}, "line": line, "timestamp": _iso(at)}) for at, line in rows])


@of_texts(COLLECTOR)
def loki_answer(rng: random.Random, text: bytes) -> bytes:
    """The answer of Loki's ``query_range``, the newest line first."""
    values = [[str(_ns(at)), line] for at, line in _timed(text)]
    stream = {"stream": {"app": "train"}, "values": values[::-1]}
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": [stream]}}).encode()


@of_texts(COLLECTOR)
def grafana_export(rng: random.Random, text: bytes) -> bytes:
    """Grafana's download of log lines as a table of CSV."""
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["Time", "Line", "tsNs"])
    table.writerows([_iso(at), line, _ns(at)] for at, line in _timed(text))
    return out.getvalue().encode()


@of_texts(COLLECTOR)
def cloud_logging(rng: random.Random, text: bytes) -> bytes:
    """``gcloud logging read --format json``: a list over many lines, the newest first."""
    rows = [
        {
            "insertId": f"{_ns(at):x}",
            "resource": {"type": "k8s_container", "labels": {"pod_name": "train-0"}},
            "severity": "ERROR",
            "textPayload": line,
            "timestamp": _iso(at),
        }
        for at, line in _timed(text)
    ]
    return json.dumps(rows[::-1], indent=2).encode()


@of_texts(COLLECTOR)
def cloudwatch(rng: random.Random, text: bytes) -> bytes:
    """``aws logs get-log-events``: one document with a list of events."""
    rows = [
        {"timestamp": _ns(at) // 10**6, "message": line, "ingestionTime": _ns(at) // 10**6} for at, line in _timed(text)
    ]
    return json.dumps({"events": rows, "nextForwardToken": "f/1"}, indent=4).encode()


@of_texts(COLLECTOR)
def journal_json(rng: random.Random, text: bytes) -> bytes:
    """``journalctl -o json``."""
    return _joined(
        [
            json.dumps(
                {
                    "MESSAGE": line,
                    "_HOSTNAME": "localhost",
                    "__REALTIME_TIMESTAMP": str(_ns(at) // 1000),
                }
            )
            for at, line in _timed(text)
        ]
    )


@of_texts(COLLECTOR)
def journal_short(rng: random.Random, text: bytes) -> bytes:
    """``journalctl``: time, host and unit in front."""
    return _joined([f"{_short(at)} localhost train: {line}" for at, line in _timed(text)])


@of_texts(COLLECTOR)
def syslog(rng: random.Random, text: bytes) -> bytes:
    """Syslog as RFC 5424 writes it."""
    return _joined([f"<11>1 {_iso(at)} localhost train - - - {line}" for at, line in _timed(text)])


@of_texts(COLLECTOR)
def kubectl_prefix(rng: random.Random, text: bytes) -> bytes:
    """``kubectl logs --prefix --timestamps``."""
    return _joined([f"[pod/train-0/pytorch] {_iso(at)} {line}" for at, line in _timed(text)])


@of_texts(COLLECTOR)
def stern(rng: random.Random, text: bytes) -> bytes:
    """``stern``: pod and container in front."""
    return _joined([f"train-0 pytorch {line}" for line in _lines(text)])


@of_texts(COLLECTOR)
def compose(rng: random.Random, text: bytes) -> bytes:
    """``docker compose logs``."""
    return _joined([f"train-1  | {line}" for line in _lines(text)])


@of_texts(COLLECTOR)
def fluentd(rng: random.Random, text: bytes) -> bytes:
    """Fluentd's files: time, tag and a JSON record."""
    return _joined([f"{_iso(at)[:19]}+00:00\tkube.train\t{json.dumps({'message': line})}" for at, line in _timed(text)])


@of_texts(COLLECTOR)
def elastic(rng: random.Random, text: bytes) -> bytes:
    """Documents of an Elasticsearch export, one in a line."""
    return _joined(
        [
            json.dumps(
                {
                    "_index": "logs",
                    "_source": {"@timestamp": _iso(at), "message": line, "kubernetes": {"pod": {"name": "train-0"}}},
                }
            )
            for at, line in _timed(text)
        ]
    )


@of_texts(COLLECTOR)
def docker_in_syslog(rng: random.Random, text: bytes) -> bytes:
    """Two collectors, one around the other."""
    rows = _timed(text)
    return _joined(
        [
            f"{_short(at)} localhost dockerd: {json.dumps({'log': line, 'stream': 'stderr', 'time': _iso(at)})}"
            for at, line in rows
        ]
    )


@of_texts(COLLECTOR)
def workflow_times(rng: random.Random, text: bytes) -> bytes:
    """Times of a CI runner in front."""
    return _joined([f"{_iso(at)} {line}" for at, line in _timed(text)])
