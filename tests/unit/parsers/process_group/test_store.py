"""The store and the rendezvous: who waits, for what, and how many are missing."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events_of, parser_named
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import Note, RendezvousError, StoreError

RENDEZVOUS, STORE = parser_named("rendezvous"), parser_named("store-errors")


def found(text: str) -> list[StoreError]:
    return [e for e in events_of(STORE, text) if isinstance(e, StoreError)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0, /x",
            ("wait", "/default_pg/0//cuda//0", None),
        ),
        ("RuntimeError: Socket Timeout", ("wait", None, None)),
        ("RuntimeError: Timeout waiting for key: default_pg/0/0 after 1800000 ms", ("wait", "default_pg/0/0", None)),
        (
            "[c10d] waitForInput: poll for socket SocketImpl(fd=3, addr=[a]:1, remote=[b]:2) returned 0, likely",
            ("wait", None, None),
        ),
        ("Timed out after 61 seconds waiting for clients. 6/8 clients joined.", ("clients-missing", None, 2)),
        (
            "The client socket has timed out after 900000ms while trying to connect to (node0, 29500).",
            ("connect", None, None),
        ),
        (
            "[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (172",
            ("connect", None, None),
        ),
        ("The client socket has failed to connect to any network address of (node0, 29500).", ("connect", None, None)),
        (
            "The IPv4 network addresses of (node0, 29500) cannot be retrieved (gai error: -3 - Temporary failure)",
            ("resolve", None, None),
        ),
        (
            "TCP client failed to connect/validate to host node0:29500 - timed out (try=31, timeout=300000ms): x",
            ("connect", None, None),
        ),
        (
            "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false",
            ("set-up", None, None),
        ),
        (
            "[c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
            ("port-in-use", None, None),
        ),
        ("[c10d] sendBytes failed on SocketImpl(fd=3): Broken pipe", ("send", None, None)),
        ("[c10d] recvValueWithTimeout failed on SocketImpl(fd=3): Connection reset by peer", ("recv", None, None)),
        ("torch.distributed.DistNetworkError: failed to recv, got 0 bytes", ("recv", None, None)),
    ],
)
def test_operations(text: str, expected: tuple[object, ...]) -> None:
    assert [(e.operation, e.key, e.missing) for e in found(text)] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "TCP client failed to connect/validate to host node0:29500 - retrying (try=0, timeout=300000ms, delay=1ms): x",
        "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 97 - Address family "
        "not supported by protocol).",
        "a result cannot be retrieved from the cache",
        "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.",
    ],
)
def test_what_settles_itself_is_no_error(text: str) -> None:
    assert found(text) == []


def test_unique_id_of_all_eras() -> None:
    tail = "but store->get('0') got error: Socket Timeout. This may indicate a crash"
    head = "is setting up NCCL communicator and {} ncclUniqueId from {} "
    (event,) = found(f"RuntimeError: [1] {head.format('retreiving', '[0]')}via c10d key-value store by key '0', {tail}")
    assert (event.operation, event.group_rank, event.peer, event.key) == ("unique-id", 1, 0, "0")
    (event,) = found(f"[5] {head.format('retrieving', '[2]')}via c10d key-value store by key '2:5', {tail}")
    assert (event.group_rank, event.peer, event.key) == (5, 2, "2:5")
    (event,) = found(
        f"[300] {head.format('retrieving', 'roots')}via TCPStore by key '[\"UniqueNCCLID:0\"]', but got error: x"
    )
    assert (event.group_rank, event.peer, event.key) == (300, None, '["UniqueNCCLID:0"]')


def test_unique_id_wrapped_by_a_terminal() -> None:
    (event,) = found(
        "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from "
        "[0] via c1\n"
        "0d key-value store by key '0', but store->get('0') got error: wait timeout after 1800000ms, keys: "
        "/default_pg/0//cuda//0    \n"
        "[rank3]: Exception raised from doWait at /pytorch/torch/csrc/distributed/c10d/TCPStore.cpp:597 (most "
        "recent call first):\n"
    )
    assert (event.group_rank, event.key) == (3, "/default_pg/0//cuda//0")


def test_store_barrier_counts_the_missing_and_its_rank_is_global() -> None:
    for text in (
        "Timed out initializing process group in store based barrier on rank: 3, for key: "
        "store_based_barrier_key:1 (world_size=8, worker_count=6, timeout=0:30:00)",
        "Timed out initializing process group in store based barrier on rank 3, for key: store_based_barrier_key:1 "
        "(world_size=8, num_workers_joined=6, timeout=0:30:00 error=x)",
    ):
        (event,) = found(text)
        assert (event.operation, event.rank, event.missing, event.key) == ("barrier", 3, 2, "store_based_barrier_key:1")
    (note,) = events_of(
        STORE,
        "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
        "(world_size=2, worker_count=1, timeout=0:30:00)",
    )
    assert isinstance(note, Note)
    assert (note.what, note.rank) == ("store-barrier-waiting", 0)


def rendezvous(text: str) -> list[tuple[str, str | None]]:
    return [(e.message, e.node) for e in events_of(RENDEZVOUS, text) if isinstance(e, RendezvousError)]


def test_rendezvous() -> None:
    assert len(rendezvous("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")) == 1
    assert rendezvous("    except RendezvousTimeoutError:\n    raise RendezvousClosedError()") == []
    ((message, node),) = rendezvous(
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection has failed."
    )
    assert (message, node) == ("RendezvousConnectionError: The connection has failed.", None)
    text = "As part of the sync operation the node(s) 'a_1_0', 'b_2_0' have been removed from the rendezvous 'job'"
    assert [node for _, node in rendezvous(text)] == ["a_1_0", "b_2_0"]
    assert rendezvous("can't complete rendezvous: not enough participants")[0][1] is None


@given(
    st.lists(
        st.one_of(st.sampled_from([*STORE.literals, *RENDEZVOUS.literals]), st.text(max_size=30)),
        max_size=8,
    )
)
@settings(max_examples=40, deadline=None)
def test_never_raises(pieces: list[str]) -> None:
    events_of(STORE, "".join(pieces))
    events_of(RENDEZVOUS, "".join(pieces))
