"""A claim about the end of a log quotes the line that it ends with, and a claim about a lost connection the rank that lost it."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import Ruling, read

LOST = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:6313. "
    "This is typically caused by a remote worker crashing."
)
VAIN = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] "
    "Timed out waiting 45000ms for send operation to complete"
)
KILLED = (
    "W0101 10:10:43.000000 90 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 100 closing signal SIGTERM\n"
    "E0101 10:10:44.000000 90 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 3 "
    "(pid: 103) of binary: /usr/bin/python3\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    "====\ntrain.py FAILED\n----\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2026-01-01_10:10:44\n  host      : node1\n  rank      : 3 (local_rank: 3)\n"
    "  exitcode  : -9 (pid: 103)\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 103\n====\n"
)
RETRY = "2026-01-01 10:10:42,500 [3] WARNING: the upload is behind, retrying\n"


def steps(rank: int, label: str = "") -> str:
    return "".join(f"{label}2026-01-01 10:10:4{n},{rank}00 [{rank}] INFO: iter {n} | loss 1.0\n" for n in range(3))


def failed(rank: int, line: int, error: str) -> str:
    rows = (
        "Traceback (most recent call last):",
        f'  File "/opt/train.py", line {line}, in <module>',
        "    dist.all_reduce(x)",
        error,
    )
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


def torchrun_job(last: str) -> Ruling:
    """Rank 3 of 4 is killed; torchrun keeps a file of each rank and copies every line to its own output."""
    own = {r: steps(r) + ("" if r in (0, 3) else failed(r, 17, LOST)) for r in range(4)}
    own[3] += last
    tee = "".join(steps(r, f"[default{r}]:") for r in range(4))
    files: dict[str, str | bytes] = {f"run_1/attempt_0/{r}/stderr.log": text for r, text in own.items()}
    return read({**files, "torchrun.log": tee + (f"[default3]:{last}" if last else "") + KILLED})


def claims(ruling: Ruling) -> dict[str, str]:
    return {item["says"]: item["where"] for item in ruling.verdict["evidence"]}


@pytest.mark.parametrize("last, line", [("", 3), (RETRY, 4)])
def test_the_log_of_a_killed_rank_ends_with_the_line_that_is_quoted(last: str, line: int) -> None:
    ruling = torchrun_job(last)
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)
    says = "Rank 3's log ends here: no error and no dump follow."
    assert claims(ruling)[says] == f"run_1/attempt_0/3/stderr.log:{line}"


def test_of_a_file_of_many_writers_nobody_says_where_the_log_of_a_rank_ends() -> None:
    tee = "".join(steps(r, f"[rank{r}]: ") for r in range(4))
    tee += f"[rank3]: {RETRY}" + "".join(failed(r, 17, LOST) for r in (1, 2))
    ruling = read({"torchrun.log": tee + KILLED})
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)
    assert "No error and no dump of rank 3 follow this line." in claims(ruling)
    assert not any("ends here" in says for says in claims(ruling))


def test_ranks_that_waited_until_their_limit_explain_the_connection_that_broke() -> None:
    """Nobody died: rank 2 came late, and found the connection closed by a peer that had given up."""
    files: dict[str, str | bytes] = {
        f"ranks/rank_{r}.log": steps(r) + failed(r, line, LOST if r == 2 else VAIN)
        for r, line in enumerate((17, 17, 14, 14))
    }
    states = "JobID|State|ExitCode|NodeList\n4711|FAILED|1:0|gpu-a07\n4711.0|FAILED|1:0|gpu-a07\n"
    for ruling in (read(files), read({**files, "sacct.txt": states})):
        assert ruling.cause == "undetermined", str(ruling)
        assert "closed it" not in ruling.verdict["headline"]
        assert ruling.verdict["headline"].startswith(
            "Ranks 0-1 waited in <module> (train.py:17) and ranks 2-3 in <module> (train.py:14)"
        ), str(ruling)
        assert "Timed out waiting 45000ms" in ruling.verdict["evidence"][0]["quote"]


def test_the_loopback_address_is_no_host_that_closed_a_connection() -> None:
    files: dict[str, str | bytes] = {f"ranks/rank_{r}.log": steps(r) + failed(r, 17, LOST) for r in range(4)}
    ruling = read(files)
    assert "127.0.0.1" not in ruling.verdict["headline"], str(ruling)
