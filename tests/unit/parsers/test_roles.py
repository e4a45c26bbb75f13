"""Whose a message is and what it weighs: by its words first, then by the file that printed it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from nccldoctor import parsers
from nccldoctor.parsers.roles import Role, role_of

TABLE = tomllib.loads((Path(parsers.__file__).parent / "roles.toml").read_text(encoding="utf-8"))


GLOO = "../gloo/transport/tcp/"


@pytest.mark.parametrize(
    ("message", "file", "role"),
    [
        ("nvmlDeviceGetHandleByIndex(6) failed: GPU is lost", "misc/nvmlwrap.cc", "host cause gpu-lost"),
        ("hipIpcGetMemHandle failed : invalid argument", "transport/p2p.cc", "host cause"),
        ("Reduce : invalid root 9 (root should be in the 0..8 range)", "misc/argcheck.cc", "caller cause"),
        ("commReclaim: comm 0x5e rank 3 failed in destroy/abort, error 6", "init.cc", "library consequence tear-down"),
        ("NCCL_NET_MERGE_POLICY: unknown value 'x', defaulting to ALL", "graph/topo.cc", "library notice"),
        ("Socket recv failed while polling for opId=0x7e", "proxy.cc", "peer consequence proxy-lost"),
        ("Request 0x9 completed with error. RC: 113.", "", "fabric cause"),
        ("Couldn't open AV. RC: -22, ERROR: Invalid argument", "", "host cause"),
        (f"[enforce fail at {GLOO}device.cc:84] Unable to find address for: bond4", "", "host cause interface"),
        (f"[{GLOO}pair.cc:534] Connection closed by peer [10.7.0.2]:4111", "", "peer consequence closed"),
        (f"[{GLOO}pair.cc:456] Received data size doesn't match expected size.", "", "ranks cause size-mismatch"),
        ("The server socket has failed to listen on any local network address.", "", "host cause port-taken"),
    ],
)
def test_words_say_whose_it_is(message: str, file: str, role: str) -> None:
    assert role_of(message, file) == Role(*role.split())


def test_the_file_says_it_where_the_words_do_not() -> None:
    assert role_of("List loop at element 3-4", "proxy.cc") == Role("library", "cause")
    assert role_of("odd state 3", "net_ib/p2p.cc") == Role("library", "cause")
    assert role_of("odd state 3", "src/transport/p2p.cc") == Role("host", "cause")  # another file of that name
    assert role_of("odd state 3", "src/os/anything.cc") == Role("host", "cause")  # by its folder


def test_a_text_of_nobody_has_no_role() -> None:
    assert role_of("the shards were written", "train/loop.py") is None


def test_each_row_of_the_table_says_something_that_is_known() -> None:
    whose, weights = {"caller", "library", "host", "peer", "fabric", "ranks"}, {"cause", "consequence", "notice"}
    assert {row["whose"] for row in TABLE["words"]} <= whose
    assert {row["weight"] for row in (*TABLE["words"], *TABLE["files"].values())} <= weights
    assert set(TABLE["files"]) <= whose
    ends = [end for row in TABLE["files"].values() for end in row["ends"]]
    assert len(ends) == len(set(ends))
