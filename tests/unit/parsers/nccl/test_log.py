"""NCCL's own lines, its transports' errors and the communicators they tell of."""

from __future__ import annotations

from datetime import datetime

import pytest
from builders.logs.cpu_limit import bounded_cpu_time
from builders.logs.log_reading import events_of, parser_named, text_around_literals
from hypothesis import given, settings

from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.kernel.driver import board
from nccldoctor.parsers.nccl import log, network, sockets
from nccldoctor.parsers.nccl.prefix import messages

PARSERS: tuple[LineParser, ...] = (
    parser_named("communicator"),
    parser_named("nccl-settings"),
    log.nccl_warn,
    parser_named("nccl-calls-made"),
    network.ib,
    sockets.socket,
)


def test_prefix_of_all_ages():
    body = "10.0.0.10: node10:901144:901380 [0] transport/net_ib.cc:1038 NCCL WARN hello"
    (seen,) = messages(body)
    assert (seen.host, seen.pid, seen.device, seen.file, seen.message) == (
        "node10",
        901144,
        0,
        "transport/net_ib.cc",
        "hello",
    )
    (seen,) = messages("[2026-05-05 06:16:47] n-1:7:-8 [-1] os/linux.cc:5 (ncclFoo) NCCL ATTN slow")
    assert (seen.level, seen.time, seen.device, seen.file) == (
        "ATTN",
        datetime(2026, 5, 5, 6, 16, 47),
        -1,
        "os/linux.cc",
    )


def test_torn_line_of_two_processes():
    text = "a:1:2 [0] NCCL INFO one)a:3:4 [1] NCCL INFO two"
    assert [(m.host, m.pid, m.message) for m in messages(text)] == [("a", 1, "one)"), ("a", 3, "two")]


def test_a_prefix_behind_one_that_was_torn_off_has_its_own_host():
    (message,) = messages("node21:3352:3383node21:3352:3384 [5] NCCL INFO comm 0x55 rank 13")
    assert (message.host, message.pid, message.device) == ("node21", 3352, 5)


def test_rank_of_a_communicator_is_no_global_rank():
    text = "n:1:2 [3] NCCL INFO comm 0xab rank 1 nranks 2 cudaDev 3 busId 5d000 commId 0x77 - Init COMPLETE"
    (event,) = events_of(PARSERS[0], text)
    assert (event.rank, event.group_rank, event.comm_id, event.bus_id) == (None, 1, "0x77", "0000:5d:00")
    (event,) = events_of(PARSERS[0], "[rank9]: " + text)
    assert event.rank == 9


@pytest.mark.parametrize(
    ("number", "address"),
    [
        ("1000", "0000:01:00"),
        ("29000", "0000:29:00"),
        ("a70f0", "0000:a7:0f"),
        ("18001000", "0180:01:00"),
        ("xyz", None),
        ("", None),
    ],
)
def test_bus_id(number, address):
    assert board(number) == address


def test_retries_of_a_refused_connection_are_no_error_but_giving_up_is():
    retry = (
        "n:1:2 [0] NCCL WARN socketPollConnect: connect to 10.0.0.4<44> returned Connection refused, retrying (3/34)"
        " after sleep for 300 msec"
    )
    gone = (
        "n:1:2 [0] NCCL WARN socketPollConnect: connect to 10.0.0.4<44> returned Connection refused, exceeded error"
        " retry count after 34 attempts"
    )
    assert not events_of(PARSERS[5], retry)
    (event,) = events_of(PARSERS[5], gone)
    assert (event.how, event.peer, event.echo) == ("refused", "10.0.0.4", False)


def test_sockets_of_other_programs_do_not_count():
    assert not events_of(PARSERS[5], "urllib3: Call to connect to 10.0.0.4 failed : Connection refused")
    assert not events_of(
        PARSERS[5], "WARNING:data:worker 6 shard_003705.bin retry 1 of 3 after 0.783s (Connection reset by peer)"
    )


def test_warnings_of_disagreement_are_left_to_their_parser():
    text = (
        "n:1:2 [0] NCCL WARN NET/IB : req 0/1 tag 0 peer 10.0.0.6<4> collective mismatch error, local size 331776"
        " remote size 32768"
    )
    assert not any(events_of(parser, text) for parser in PARSERS)


@given(text_around_literals(PARSERS, 200))
@settings(max_examples=300, deadline=None)
def test_never_raises(text):
    for parser in PARSERS:
        events_of(parser, text)


@pytest.mark.parametrize(
    "filler",
    ["a:1:2 [0] NCCL INFO ", "Call to recv from ", "comm 0xa rank 1 nranks 2 ", "[" * 64, "a.", "NET/IB : x:1 "],
)
def test_hostile_line_is_read_quickly(filler):
    text = (filler * (65536 // len(filler)))[:65000] + "NCCL WARN Init COMPLETE Got completion Call to recv"
    with bounded_cpu_time():
        for parser in PARSERS:
            events_of(parser, text)


@pytest.mark.parametrize(
    ("event", "what"),
    [
        ("Got async event : port error", "port"),
        ("mlx5_0:1 Got non-fatal async event: local catastrophic error(8)", "adapter"),
        ("mlx5_0:1 async fatal event on QP (0x7f): local work queue catastrophic error", "async"),
        ("mlx5_0:1 async fatal event on QP (0x7f): local access violation work queue error", "refused"),
        ("Got async event : invalid request local work queue error", "refused"),
        ("mlx5_0:1 Got non-fatal async event: port active(9)", "notice"),
        ("mlx5_0:1 Got non-fatal async event: client reregistration(17)", "notice"),
        ("mlx5_0:1 GID table changed", "notice"),
        ("mlx5_0:1 async fatal event on CQ (0x7f): CQ error", "async"),
        ("speed change detected: 400000 -> 200000 Mbps", "speed"),
        ("speed change detected: 200000 -> 400000 Mbps", "notice"),
    ],
)
def test_only_faults_of_a_port_are_its_faults(event, what):
    (found,) = events_of(PARSERS[4], f"n:1:2 [0] NCCL WARN NET/IB : {event}")
    assert found.what == what
