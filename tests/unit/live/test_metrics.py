"""The page of metrics: what it says, that any parser of the text format reads it, and how it is served."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest
from msgspec.structs import replace

import nccldoctor
from nccldoctor.align.divergence.step_counters import Delay, Pace
from nccldoctor.cli import demo
from nccldoctor.incident import Incident
from nccldoctor.live.metrics import MOST_RANKS, metrics_page, metrics_server
from nccldoctor.live.watch import Observation, State, Wishes
from nccldoctor.model.errors import InputError
from nccldoctor.version import __version__

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (\S+)")

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def read(page: bytes) -> Samples:
    """The samples by name and labels, as the text format 0.0.4 has them; anything else fails."""
    text = page.decode()
    assert text.endswith("\n")
    found: Samples = {}
    head: list[str] = []
    for row in text.splitlines():
        if row.startswith("#"):
            _, what, name, _ = row.split(" ", 3)
            head = [name] if what == "HELP" else [*head, row]
            assert what in ("HELP", "TYPE") and head[0] == name not in found
        else:
            sample = SAMPLE.fullmatch(row)
            assert sample, row
            assert head == [sample[1], f"# TYPE {sample[1]} gauge"]
            labels = tuple((name, value) for name, value in re.findall(LABEL, sample[2] or ""))
            assert found.setdefault(sample[1], {}).setdefault(labels, float(sample[7])) == float(sample[7])
    return found


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    folder = tmp_path_factory.mktemp("logs")
    demo.write("late-rank-three-groups", folder)
    return nccldoctor.analyze(folder)


def looked(incident: Incident, pace: Pace, state: State = State.RUNNING, step: int | None = None) -> Samples:
    return read(metrics_page(Observation(1_780_000_000.5, state, incident, pace, step), Wishes(behind=30.0)))


def test_a_page_says_how_the_job_stands(incident: Incident) -> None:
    pace = Pace(quiet=61.5, longest=9.0, behind=(Delay(5, 40.0, 120, 121), Delay(6, 3.0, 120, 121)))
    verdict = (("class", "not-arrived"), ("confidence", "high"), ("ranks", "1"), ("hosts", "node0"))
    assert looked(incident, pace, State.STUCK, 121) == {
        "nccldoctor_build_info": {(("version", __version__),): 1},
        "nccldoctor_last_look_timestamp_seconds": {(): 1_780_000_000.5},
        "nccldoctor_stuck": {(): 1},
        "nccldoctor_without_progress_seconds": {(("of", "step"),): 61.5},
        "nccldoctor_longest_pause_seconds": {(): 9},
        "nccldoctor_last_step": {(): 121},
        "nccldoctor_ranks": {(): 8},
        "nccldoctor_ranks_behind": {(): 1},
        "nccldoctor_rank_behind_seconds": {(("rank", "5"),): 40},
        "nccldoctor_rank_last_step": {(("rank", "5"),): 120},
        "nccldoctor_verdict_info": {verdict: 1},
    }


def test_what_is_not_known_has_no_series(incident: Incident) -> None:
    found = looked(incident, Pace())
    assert math.nan not in {value for series in found.values() for value in series.values()}
    assert found["nccldoctor_stuck"] == {(): 0}
    assert not found.keys() & {
        "nccldoctor_without_progress_seconds",
        "nccldoctor_longest_pause_seconds",
        "nccldoctor_last_step",
        "nccldoctor_rank_behind_seconds",
    }


def test_thousands_of_ranks_are_a_count_and_the_farthest(incident: Incident) -> None:
    late = tuple(Delay(rank, 9000.0 - rank, 7, 9) for rank in range(4096))
    found = looked(incident, Pace(behind=late))
    assert found["nccldoctor_ranks_behind"] == {(): 4096}
    for name in ("nccldoctor_rank_behind_seconds", "nccldoctor_rank_last_step"):
        assert list(found[name]) == [(("rank", str(rank)),) for rank in range(MOST_RANKS)]


def renamed(incident: Incident, host: str) -> Incident:
    rows = tuple(replace(row, host=host) for row in incident.unquoted.ranks)
    return Incident(replace(incident.unquoted, ranks=rows), incident.case)


@pytest.mark.parametrize(
    ("host", "label"),
    [
        ('n"} 1\nnccldoctor_stuck 0\n#', r"n\"} 1 nccldoctor_stuck 0 #"),
        ("a\\", r"a\\"),
        ("n\x1b[31m\u202e", "n␛[31m<U+202E>"),
        ("x" * 9999, "x" * 119 + "…"),
        ("hf_" + "aB3dE5gH7jK9" * 2 + "aB3dE5gH7j", "***"),
    ],
    ids=["quote and line", "backslash", "unseen", "long", "secret"],
)
def test_a_name_from_a_log_stays_in_its_label(host: str, label: str, incident: Incident) -> None:
    found = looked(renamed(incident, host), Pace())
    assert [dict(labels)["hosts"] for labels in found["nccldoctor_verdict_info"]] == [label]
    assert found["nccldoctor_stuck"] == {(): 0}


def scraped(port: int, path: str = "/metrics") -> tuple[Mapping[str, str], bytes]:
    with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.headers, answer.read()


def test_a_scrape_gets_the_newest_page_and_its_type() -> None:
    with metrics_server(":0") as server:
        host, port = server.server_address[:2]
        assert host == "127.0.0.1", "without a host this machine alone may ask"
        assert scraped(port)[1] == b"", "before the first look"
        for page in (b"a 1\n", b"a 2\n"):
            server.page = page
            headers, content = scraped(port, "/metrics?debug=1")
            assert content == page
            assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        with pytest.raises(HTTPError, match="404"):
            scraped(port, "/")
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", port)) != 0


def test_a_client_that_says_nothing_keeps_nobody_waiting(capfd: pytest.CaptureFixture[str]) -> None:
    with metrics_server("127.0.0.1:0") as server:
        silent = [socket.create_connection(server.server_address[:2]) for _ in range(3)]
        server.page = b"a 1\n"
        assert scraped(server.server_address[1])[1] == b"a 1\n"
    for client in silent:
        client.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("9109", "no port"),
        (":99999", "out of range"),
        ("a:b", "integer"),
        ("me@localhost:1", "no port"),
        ("h:1/x", "no port"),
    ],
)
def test_what_is_no_address_is_an_error(address: str, says: str) -> None:
    with pytest.raises(InputError, match=says), metrics_server(address):
        pass


def test_a_port_in_use_is_an_error() -> None:
    with (
        metrics_server(":0") as first,
        pytest.raises(InputError, match="in use"),
        metrics_server(f":{first.server_address[1]}"),
    ):
        pass


def test_a_host_of_version_six_is_taken() -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").is_file():
        pytest.skip("no IPv6 here")
    with metrics_server("[::1]:0") as server:
        assert server.server_address[0] == "::1"
