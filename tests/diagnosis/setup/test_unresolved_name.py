"""Ranks that cannot look up the name of the store's host, and ranks whose warnings about it were harmless."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import read

LOOKUP = (
    "[W1128 12:58:{second:02d}.727172990 socket.cpp:764] [c10d] The IPv{version} network addresses of (login1, 29500) cannot be "
    "retrieved (gai error: {why}).\n"
)
UNKNOWN = "-2 - Name or service not known"
NO_ANSWER = "-3 - Temporary failure in name resolution"
GIVES_UP = (
    "[rank{r}]: torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to "
    "(login1, 29500).\n"
)
REFUSED = (
    "[W1128 12:59:30.1 socket.cpp:774] [c10d] The client socket has failed to connect to [login1]:29500 (errno: 111 - Connection "
    "refused).\n"
)
PROGRAM = (
    '[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/job/train.py", line 40, in load\n[rank{r}]:     open(path)\n'
    "[rank{r}]: FileNotFoundError: no such file: data.bin\n"
)
STEPS = "".join(f"2026-11-28 12:59:{10 + step},000 INFO rank {{r}} step {step} loss 2.31\n" for step in range(1, 9))
NEVER = "The job never got through init: "


def lookups(version: int = 6, why: str = UNKNOWN) -> str:
    return "".join(LOOKUP.format(second=second, version=version, why=why) for second in (1, 3, 9, 20))


def job(*texts: str) -> dict[str, str]:
    """The logs of ranks on two hosts, each with one of the texts."""
    half = len(texts) // 2
    head = "rank={r} pid={pid} host=vm{host} world_size={size}\n"
    return {
        f"rank_{r}.log": head.format(r=r, pid=4000 + r, host=r // half, size=len(texts)) + text.replace("{r}", str(r))
        for r, text in enumerate(texts)
    }


def test_all_ranks_still_look_up_the_name() -> None:
    """A job that was cancelled meanwhile: a later lookup might have succeeded."""
    ruling = read(job(*[lookups()] * 4))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("init", "", "medium"), str(ruling)
    assert ruling.verdict["headline"] == NEVER + "ranks 0-3 could not resolve the name login1."
    remedy = ruling.document["remedies"][0]
    assert remedy["id"] == "unresolved-name" and "getent hosts login1" in remedy["confirm"][0]
    assert not any("DNS server" in step for step in remedy["fix"])


@pytest.mark.parametrize("version", [4, 6])
def test_ranks_that_gave_up_leave_no_doubt(version: int) -> None:
    ruling = read(job(*[lookups(version, NO_ANSWER) + GIVES_UP] * 4))
    assert (ruling.cause, ruling.verdict["confidence"]) == ("init", "high"), str(ruling)
    assert any("DNS server" in step for step in ruling.document["remedies"][0]["fix"])


def test_only_the_ranks_of_one_host_cannot_resolve_the_name() -> None:
    ruling = read(job("", "", *[lookups() + GIVES_UP] * 2))
    assert (ruling.cause, ruling.ranks) == ("init", "2-3"), str(ruling)
    assert ruling.verdict["headline"] == NEVER + "ranks 2-3 (vm1) could not resolve the name login1."


def test_an_agent_of_torchrun_has_no_rank() -> None:
    end = "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.\n"
    ruling = read({"agent-vm1.log": lookups() + "Traceback (most recent call last):\n" + end})
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)
    assert ruling.verdict["headline"] == NEVER + "a process could not resolve the name login1."


def test_old_versions_print_no_name() -> None:
    trace = 'Traceback (most recent call last):\n  File "/job/train.py", line 12, in <module>\n    start()\n'
    ruling = read({f"rank_{r}.log": trace + "ValueError: host not found: Name or service not known\n" for r in (0, 1)})
    assert ruling.verdict["headline"] == NEVER + "ranks 0-1 could not resolve the host name of the store."


@pytest.mark.parametrize(
    "texts",
    [
        [STEPS] * 4,
        [STEPS + "Training finished\n"] * 4,
        ["", "", PROGRAM, ""],
        [REFUSED * 3 + GIVES_UP] * 4,
        [
            "INFO: Waiting in store based barrier to initialize process group for rank: {r}, key: k:1 (world_size=4, worker_count=3)\n"
        ]
        * 3
        + [""],
    ],
    ids=["trains", "finished", "raised", "refused", "at the barrier"],
)
def test_ranks_that_went_on_are_judged_as_without_the_warnings(texts: list[str]) -> None:
    """An IPv6 lookup that fails is harmless where the IPv4 lookup succeeds."""
    with_warnings, without = read(job(*[lookups() + text for text in texts])), read(job(*texts))
    assert "resolve" not in with_warnings.verdict["headline"], str(with_warnings)
    same = [(ruling.cause, ruling.ranks, ruling.verdict["confidence"]) for ruling in (with_warnings, without)]
    assert same[0] == same[1]
    assert all(remedy["id"] != "unresolved-name" for remedy in with_warnings.document["remedies"])


def test_warnings_of_the_start_are_no_first_alarm() -> None:
    """Steps that follow them don't show that rank 2 still worked when its peers timed out."""
    timeout = (
        "[rank{r}]:[E1128 13:11:01.100000000 ProcessGroupNCCL.cpp:685] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=18, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for "
        "600020 milliseconds before timing out.\n"
    )
    ends = [timeout, timeout, "", timeout]
    rulings = [read(job(*[start + STEPS + end for end in ends])) for start in ("", lookups())]
    assert {(ruling.cause, ruling.ranks) for ruling in rulings} == {("not-arrived", "2")}, str(rulings[1])
