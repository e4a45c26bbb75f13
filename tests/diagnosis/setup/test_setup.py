"""Communicators, stores and rendezvous that never came up; and jobs that stalled later."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from builders.jobs.verdicts import gave_up, innocent, play, read, step_line
from builders.logs.lines import old_watchdog, watchdog

import nccldoctor
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("scenario", ["silent_start", "no_id"])
def test_who_did_not_join_is_named(scenario: str, seed: int) -> None:
    ruling = play(scenario, seed)
    assert ruling.cause == "init", str(ruling)
    assert ruling.ranks == str(ruling.truth["culprit_ranks"][0]), str(ruling)
    assert ruling.verdict["stalled"] is None or ruling.at[1] is None


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_headline_begins_with_who_did_not_start(seed: int) -> None:
    ruling = play("silent_start", seed)
    words = rf"Rank {ruling.ranks} (?:\(.*?\) )?(?:probably )?never joined the \d+-rank communicator; the other \d+ are stuck in init\."
    assert re.match(words, ruling.verdict["headline"]), str(ruling)


CLIENTS = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. {}/{} clients joined.\n"
GONE = (
    "[rank{r}]:[W505 09:35:10.336386705 TCPStore.cpp:106] [c10d] recvValue failed on SocketImpl(fd=3, addr=[localhost]:41222, "
    "remote=[localhost]:29500): Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?\n"
)
REFUSED = (
    "[rank{r}]: torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
    "(node0, 29500).\n"
)


def store_log(joined: str, others: str) -> str:
    """The store of rank 0 counted ``joined``; one line of each rank of ``others`` shows that it had been connected."""
    here, size = joined.split("/")
    return "[rank0]: " + CLIENTS.format(here, size) + "".join(GONE.format(r=r) for r in Ranks.parse(others))


def test_the_one_rank_that_the_launcher_had_to_close_had_not_joined() -> None:
    logs = {f"out/rank_{r}.log": f"starting, rank {r} of 4 on node01\n" for r in (0, 1, 3)}
    logs["out/rank_0.log"] += CLIENTS.format(3, 4)
    ends = "".join(f"srun: error: node01: task {r}: Exited with exit code 1\n" for r in (0, 1, 3))
    ruling = read({**logs, "slurm-7.err": ends + "srun: error: node01: task 2: Terminated\n"})
    assert (ruling.cause, ruling.ranks) == ("init", "2"), str(ruling)
    assert ruling.verdict["confidence_in"]["ranks"] == "high", "the store, the logs and the launcher agree"
    unread = read({**logs, "slurm-7.err": ends})
    assert unread.ranks == "2" and unread.verdict["confidence_in"]["ranks"] != "low", str(unread)
    crashed = read({**logs, "slurm-7.err": ends.replace("task 3: Exited", "task 2: Exited")})
    assert crashed.verdict["confidence"] != "high", str(crashed)


@pytest.mark.parametrize(
    ("joined", "others", "more", "named"),
    [
        ("7/8", "1-4,6-7", "", "5"),
        ("7/8", "1-4,6-7", "[rank5]: loading the index of the data\n", "5"),
        ("7/8", "1-4,6-7", REFUSED.format(r=5), "5"),
        ("8/16", "1-7", "", "8-15"),
        ("6/8", "1-4,6-7", "", ""),  # two are missing, and one left no line
        ("7/8", "1-4,6", "", ""),  # one is missing, and nothing was read of two
        ("7/8", "", "", ""),
    ],
)
def test_ranks_that_the_store_missed_are_named_where_as_many_are_left(
    joined: str, others: str, more: str, named: str
) -> None:
    ruling = read({"train.log": store_log(joined, others) + more})
    assert (ruling.cause, ruling.ranks) == ("init", named), str(ruling)
    assert ruling.verdict["confidence"] != "high"


LOADING = (
    "Loading checkpoint shards:  67%|######6   | 4/6 [00:18<00:09,  4.57s/it]\n",
    "Map (num_proc=6): 100%|##########| 41207/41207 [00:21<00:00, 1931.77 examples/s]\n",
    "Fetching 12 files: 100%|##########| 12/12 [00:00<00:00, 103.1it/s]\n",
    "model.safetensors:  41%|####1     | 1.20G/2.92G [00:12<00:18, 97.3MB/s]\n",
    "Generating train split: 1200 examples [00:01, 911.20 examples/s]\n",
    "Tokenizing train dataset (num_proc=4): 100%|##########| 9000/9000 [00:03<00:00, 2710.44 examples/s]\n",
    "100%|##########| 2/2 [00:05<00:00,  2.10s/it]\n",
)
TRAINED = "Epoch 0:  12%|#2        | 61/500 [00:20<02:26,  3.00it/s, loss=2.1]\n"
FAILED_STARTS = (
    "process_group/store",
    "process_group/nccl_error",
    "launchers/rendezvous",
    "nccl/sockets",
    "nccl/communicators",
)


def failed_starts(names: tuple[str, ...] = FAILED_STARTS) -> list[str]:
    """The known texts that alone show a start that failed."""
    folder = Path(nccldoctor.__path__[0]) / "parsers" / "wordings"
    rows = (row for name in names for row in tomllib.loads((folder / f"{name}.toml").read_text())["wording"])
    return [row["text"] + "\n" for row in rows if read({"train.log": row["text"] + "\n"}).cause == "init"]


def test_a_start_up_error_stays_one_whatever_bar_of_loading_stands_before_it() -> None:
    texts = failed_starts()
    assert len(texts) > 30
    for number, text in enumerate(texts):
        alone, behind = read({"train.log": text}), read({"train.log": LOADING[number % len(LOADING)] + text})
        assert (behind.cause, behind.ranks, behind.sure) == (alone.cause, alone.ranks, alone.sure), text


def test_a_bar_of_training_shows_that_the_job_came_up() -> None:
    texts = failed_starts(("process_group/store", "launchers/rendezvous"))
    assert not [text for text in texts if read({"train.log": TRAINED + text}).cause == "init"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_count_alone_names_nobody(seed: int) -> None:
    ruling = play("too_few", seed)
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)


@pytest.mark.parametrize("nodes", [1, 2])
def test_silent_start_on_several_hosts(nodes: int) -> None:
    ruling = play("silent_start", 4, nodes=nodes, gpus=4)
    assert ruling.cause == "init"
    innocent(ruling)


@pytest.mark.parametrize("scenario", ["no_data", "stopped", "never_ends"])
def test_a_stall_in_the_first_step_is_no_start_that_failed(scenario: str) -> None:
    ruling = play(scenario, 2, step=1)
    assert ruling.cause != "init", str(ruling)
    innocent(ruling)


def test_communicators_that_came_up_are_no_setup_trouble() -> None:
    ruling = play("no_data", 2, nccl_info=True)
    assert ruling.cause == "not-arrived", str(ruling)


@pytest.mark.parametrize(("ready", "cause"), [((0, 1), "unfinished"), ((0,), "init")])
def test_ranks_that_all_made_their_communicator_came_up(ready: tuple[int, ...], cause: str) -> None:
    line = "lab:55{0}:56{0} [{0}] NCCL INFO ncclCommInitRank comm 0x7{0} rank {0} nranks 2 cudaDev {0} commId 0x19 - Init COMPLETE\n"
    log = "".join([*map(line.format, ready), *(watchdog(rank, 1) for rank in range(2))])
    assert read({"job.out": log}).cause == cause


def test_a_recorded_call_outweighs_a_lost_store() -> None:
    """The store of a job that has run is lost when rank 0 ends: an effect."""
    lost = (
        "[rank{r}]:[W111 10:11:05.000000000 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, "
        "addr=[node0]:5000, remote=[node0]:29500): Connection reset by peer\n"
    )
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, 50) + lost.format(r=r) for r in (0, 1, 2)}
    files["logs/rank_3.log"] = step_line(3, 48, "09:59:59") + lost.format(r=3)
    ruling = read(files)
    assert ruling.cause != "init", str(ruling)


def test_a_process_that_cannot_reach_the_store_is_told_beside_a_lone_waiter(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(old_watchdog(3, 3612, numel=1, ran_ms=1_800_254))
    assert nccldoctor.analyze(tmp_path).verdict.cause is not CauseClass.INIT
    (tmp_path / "b.log").write_text(
        "[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (10.0.0.2, 41908).\n"
    )
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert verdict.cause is CauseClass.INIT
    assert not verdict.ranks


def test_the_root_that_meets_one_rank_twice_is_not_that_rank() -> None:
    said = "Bootstrap Root : rank 3 of 8 ranks has already checked in"
    warned = f"n7:812:999 [0] bootstrap.cc:348 NCCL WARN {said}\n"
    raised = (
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:3690, internal error, NCCL version 2.28.9\n"
        f"[rank0]: ncclInternalError: Internal check failed.\n[rank0]: Last error:\n[rank0]: {said}\n"
    )
    ruling = read({"train.log": warned + raised})
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("init", "", "3"), str(ruling)
    assert "same rank" in ruling.document["remedies"][0]["fix"][0]


IN_USE = (
    "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
)
LISTENS_NOT = "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address.\n"
LOST = (
    "[rank{r}]:[W505 09:35:10.336386705 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=35, addr=[node{n}]:48750, "
    "remote=[node0]:29500): Connection reset by peer\n"
)


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        (IN_USE, "The job never got through init: port 29500 is already in use."),
        (LISTENS_NOT, "The job never got through init: at least one rank never joined, and no log names it."),
        (REFUSED.format(r=3), "The job never got through init: the store at node0:29500 was unreachable."),
        (
            REFUSED.format(r=3).replace("node0", "0.104.99.143"),
            "The job never got through init: the store at 0.104.99.143:29500 was unreachable (not the address of any host; a host name "
            "that is a bare number turns into one).",
        ),
    ],
    ids=["in-use", "not-listening", "not-reached", "no-address"],
)
def test_the_headline_says_what_the_store_lacked(text: str, headline: str) -> None:
    ruling = read({"train.log": text})
    assert (ruling.cause, ruling.ranks, ruling.verdict["headline"]) == ("init", "", headline), str(ruling)


JAX_REFUSED = (
    "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.9:8476: "
    "Failed to connect to remote host: Connection refused\n"
)
NO_NAME = "ValueError: host not found: Name or service not known\n"


@pytest.mark.parametrize("last", [JAX_REFUSED, NO_NAME])
def test_a_coordinator_that_nobody_reaches_is_no_crash_of_the_rank(last: str) -> None:
    """The exception of the rank that could not connect follows from it."""
    trace = 'Traceback (most recent call last):\n  File "/job/train.py", line 12, in <module>\n    start()\n'
    assert read({"rank_1.log": trace + last}).cause == "init"


PLUGIN = "node7:81234:81999 [7] nccl_ofi_net.c:459 NCCL WARN NET/OFI Couldn't open {what}. RC: -22, ERROR: Invalid argument\n"


@pytest.mark.parametrize("what", ["AV", "a domain"])
def test_a_plug_in_that_cannot_be_set_up_lost_no_connection(what: str) -> None:
    assert read({"train.log": PLUGIN.format(what=what)}).cause == "init"


def test_the_command_of_a_store_out_of_reach_holds_its_address() -> None:
    remedy = read({"train.log": REFUSED.format(r=3)}).document["remedies"][0]
    assert remedy["id"] == "firewall-ports" and "nc -vz node0 29500" in remedy["confirm"][0]
    unknown = read({"train.log": REFUSED.format(r=3).replace(" to (node0, 29500)", "")}).document["remedies"][0]
    assert "nc -vz UNREACHED_HOST UNREACHED_PORT" in unknown["confirm"][0]


def test_a_store_that_was_lost_is_named_with_its_address() -> None:
    ruling = read({"train.log": "".join(LOST.format(r=r, n=r // 4) for r in (5, 9))})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert ruling.verdict["headline"].startswith(
        "Ranks 5, 9 lost the store at node0:29500: the process that serves it exited"
    )


def test_a_store_that_leaves_after_the_last_step_is_no_trouble() -> None:
    """Rank 0 serves the store, and ends first in many healthy jobs."""
    end = "".join(f"[rank{r}]: Training finished\n" for r in range(2))
    ruling = read({"train.log": "world_size=2\n" + end + LOST.format(r=1, n=0)})
    assert "lost the store" not in ruling.verdict["headline"], str(ruling)


def test_an_agent_that_lost_its_store_while_it_ran_had_come_up() -> None:
    """The store of a rendezvous is served by an agent: its loss is said as such, with where to look."""
    error = (
        "W0505 09:35:10.336000 901 torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1341] The node 'node1_901_0' has failed to "
        "send a keep-alive heartbeat to the rendezvous 'job' due to an error of type RendezvousConnectionError.\n"
    )
    ruling = read({"agent.log": error})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert ruling.verdict["headline"].startswith("The launcher lost the store of its rendezvous: the agent on")
    other = read({"agent.log": error.replace("RendezvousConnectionError", "RendezvousStateError")})
    assert "lost the store" not in other.verdict["headline"], str(other)


NO_PEER = (
    "node7:{pid}:952 [{dev}] transport/p2p.cc:272 NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'\n"
    "[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: /pytorch/c10d/NCCLUtils.cpp:94, unhandled cuda "
    "error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\n[rank{rank}]: ncclUnhandledCudaError: Call to CUDA function "
    "failed.\n[rank{rank}]: Last error:\n[rank{rank}]: Cuda failure 217 'peer access is not supported between these two devices'\n"
)


def test_gpus_that_cannot_reach_each_other_are_no_fault_of_the_rank_that_says_so() -> None:
    ruling = read({"train.log": NO_PEER.format(pid=17, dev=1, rank=1)})
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)
    assert "access between GPUs" in ruling.verdict["headline"]
    assert ruling.document["remedies"][0]["id"] == "p2p-acs-iommu"


def starts(*ranks: int, **torn: str) -> str:
    """Starts of a communicator of eight ranks behind the labels of ``srun``; ``torn`` replaces the line of a rank."""
    line = "{0}: n{1}:30{0}:40{0} [{2}] NCCL INFO ncclCommInitRank comm 0x5{0}c rank {0} nranks 8 cudaDev {2} commId 0x61b1 - Init START\n"
    boot = "{0}: n{1}:30{0}:30{0} [{2}] NCCL INFO Bootstrap : Using ib0:10.0.3.1{0}<0>\n"
    placed = [(rank, rank // 4, rank % 4) for rank in range(8)]
    begun = (torn.get(f"r{rank}", line.format(rank, node, slot)) for rank, node, slot in placed if rank in ranks)
    timeout = (
        "1: [rank1]: torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//2\n"
    )
    return "".join(boot.format(*one) for one in placed) + "".join(begun) + timeout


@pytest.mark.parametrize(
    "line",
    [
        "5: n1:305:405 [1] NCCL INFO ncclCommInitRank comm 0x55c rank 5 nranks 8 cudaDev 1 commId 0x610x1b1 - Init START\n",
        "5: n1:305:405 [1] NCCL INFO ncclCommInitRank comm 0x5M-lc rank 5 nranks 8 cudaDev 1 commId 0x61b1 - Init START\n",
        "5: n1:305:42 [2] NCCL INFO ncclCommInitRank comm 0x56c rank 6 nranks 8 cudaDev 2 commId 0x61b1 - Init START\n",
        f"5: n1:305:405 [1] NCCL INFO ncclCommInitRank comm 0x5{'9' * 900}c rank 5 nranks 8 cudaDev 1 commId 0x61b1 - Init START\n",
        "5: n1:305:405 [1] NCCL INFO ncclCommInitRank comm 0x55c ra\n",
    ],
    ids=["id", "pointer", "label", "repeated bytes", "cut"],
)
def test_a_torn_line_of_a_start_leaves_its_rank_out_of_the_missing(line: str) -> None:
    whole = read({"slurm-1.out": starts(0, 1, 3, 4, 5, 6, 7)})
    torn = read({"slurm-1.out": starts(0, 1, 3, 4, 5, 6, 7, r5=line)})
    assert (whole.cause, whole.ranks) == (torn.cause, torn.ranks) == ("init", "2"), str(torn)
    assert torn.sure <= whole.sure


def test_a_rank_that_starts_another_communicator_alone_is_named_without_certainty() -> None:
    line = (
        "5: n1:305:405 [1] NCCL INFO ncclCommInitRank comm 0x55c rank 5 nranks 8 cudaDev 1 commId 0x77 - Init START\n"
    )
    ruling = read({"slurm-1.out": starts(*range(8), r5=line)})
    assert (ruling.cause, ruling.ranks) == ("init", "5"), str(ruling)
    assert ruling.verdict["confidence"] in ("medium", "low")
    assert "contradict" in " ".join(ruling.verdict["doubts"])


def completed(begun: str, *ranks: int) -> str:
    lines = [line for line in begun.splitlines(keepends=True) if "Init START" in line]
    return "".join(line.replace("START", "COMPLETE") for line in lines if int(line.partition(":")[0]) in ranks)


def test_ranks_that_did_not_complete_a_communicator_as_others_did_are_suspects() -> None:
    begun = starts(*range(8)).partition("1: [rank1]")[0]
    ruling = read({"slurm-1.out": begun + completed(begun, 0, 2, 4, 6)})
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)
    assert (ruling.verdict["confidence"], ruling.verdict["suspects"]) == ("low", "1,3,5,7")


def test_a_rank_that_went_on_to_another_communicator_completed_the_one_before() -> None:
    begun = starts(*range(8)).partition("1: [rank1]")[0]
    later = "".join(line.replace("0x61b1", "0x99") for line in begun.splitlines(keepends=True) if "Init START" in line)
    ruling = read({"slurm-1.out": begun + completed(begun, 0, 2, 4, 6, 7) + later + completed(later, *range(8))})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)


def test_what_another_process_wrote_into_a_labelled_line_is_not_of_the_label() -> None:
    """The end of a line of task 6 is gone with the label of task 2 behind it: the port is that of task 2."""
    boots = starts().partition("1: [rank1]")[0]
    port = (
        "n0:302:402 [2] transport/net_ib.cc:95 NCCL WARN NET/IB : mlx5_2:1 Got non-fatal async event: port error(10)\n"
    )
    glued = read({"slurm-1.out": f"{boots}6: n1:306:406 [2] NCCL INFO cudaD{port}{old_watchdog(1, seq=4)}"})
    assert (glued.cause, glued.ranks) == ("network", "2"), str(glued)


def test_a_start_that_tore_another_away_leaves_its_rank_unsure() -> None:
    """The end of rank 3's line, all of rank 4's, and the beginning of rank 5's are gone: two ranks have no start."""
    whole = starts(0, 1, 3, 4, 5, 6, 7)
    at, to = whole.index("NCCL INFO ncclCommInitRank comm 0x53c"), whole.index("NCCL INFO ncclCommInitRank comm 0x55c")
    ruling = read({"slurm-1.out": whole[:at] + whole[to:]})
    assert ruling.ranks == "2,4", str(ruling)
    assert ruling.verdict["confidence"] != "high" and ruling.verdict["confidence_in"]["ranks"] != "high", str(ruling)
    assert "contradict" in " ".join(ruling.verdict["doubts"])


@pytest.mark.parametrize(
    ("error", "library"),
    [
        ("x.UnknownError: ncclCommInitRank failed: unhandled system error", "NCCL"),
        (
            "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclCommInitRank(a, b) failed: unhandled system error",
            "NCCL",
        ),
        (
            "2026:01:23-00:02:21:(1225) |CCL_ERROR| exec.cpp:134 start_workers: condition start == success failed",
            "Intel oneCCL",
        ),
        ("/opt/nvshmem/init.cu:1007: non-zero status: 7 nvshmem setup connections failed", "NVSHMEM"),
    ],
)
def test_a_library_that_cannot_set_up_accuses_no_rank_of_its_exception(error: str, library: str) -> None:
    """Every rank that makes the communicator raises: what they lack is the host's or the job's."""
    above = 'Traceback (most recent call last):\n  File "/app/train.py", line 9, in main\n    comm = start()\n'
    ruling = read({f"rank_{r}.log": f"rank {r} of 2\n{above}{error}\n" for r in range(2)})
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)
    assert ruling.verdict["confidence"] != "high"
    headline = ruling.verdict["headline"]
    assert headline.startswith(f"{library} init failed (ranks 0-1): "), str(ruling)
    assert headline.endswith(f"{error.rpartition(': ')[2].removeprefix('7 ')}."), "the cause is whole"


def test_an_exception_of_a_library_in_the_middle_of_a_job_accuses_no_rank() -> None:
    above = 'Traceback (most recent call last):\n  File "/app/train.py", line 9, in main\n    step()\n'
    for error in (
        "RuntimeError: DeepEP error: timeout (combine CPU)",
        "NcclError: NCCL_ERROR_SYSTEM_ERROR: unhandled system error",
    ):
        ruling = read(
            {
                "rank_1.log": f"{step_line(1, 40, '10:00:01')}{above}{error}\n",
                "rank_0.log": step_line(0, 40, "10:00:01"),
            }
        )
        assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)


def test_all_ranks_that_report_the_same_lack_are_named() -> None:
    full = (
        "n0:30{r}:40{r} [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n"
        "n0:30{r}:40{r} [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Zq (size 9637888)\n"
    )
    logs = {f"rank_{r}.log": f"rank {r} of 4\n" + (full.format(r=r) if r in (1, 2) else "") for r in range(4)}
    ruling = read(logs)
    assert (ruling.cause, ruling.ranks) == ("init", "1-2"), str(ruling)
    assert "(ranks 1-2)" in ruling.verdict["headline"], str(ruling)


def test_a_fabric_manager_that_is_not_running_is_no_broken_gpu_of_the_first_rank_that_says_so() -> None:
    error = (
        "[rank{r}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled cuda error, NCCL version 2.26.2\n"
        "[rank{r}]: ncclUnhandledCudaError: Call to CUDA function failed.\n[rank{r}]: Last error:\n"
        "[rank{r}]: Cuda failure 802 'system not yet initialized'\n"
    )
    ruling = read({"job.log": "world_size=4\n" + error.format(r=2) + error.format(r=0)})
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)


def test_a_mesh_of_gloo_that_did_not_come_up_is_no_communicator_of_nccl(tmp_path: Path) -> None:
    """The restarted ranks find addresses of the attempt before in the store; a connection that broke in that attempt is no reason."""
    pair = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc"
    lost = f"[rank1]: RuntimeError: {pair}:553] Connection closed by peer [127.0.0.1]:1455."
    mesh = f"Gloo connectFullMesh failed with {pair}:152] timed out connecting: SO_ERROR: Connection refused"
    lines = [lost, *(f"[rank{rank}]: RuntimeError: {mesh}, remote=[127.0.0.1]:9622" for rank in range(3))]
    (tmp_path / "train.log").write_text("\n".join([*lines, ""]))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert verdict.cause == "init"
    assert verdict.headline == "Gloo init failed (ranks 0-2): Connection refused."
    assert "connectFullMesh" in verdict.evidence[0].quote


VAIN_WAIT = "torch.distributed.DistStoreError: wait timeout after 20000ms, keys: {keys}"


def ended(rank: int, frames: tuple[str, ...], error: str) -> str:
    """The lines of a rank that leaves with a traceback; ``frames`` are outermost first."""
    places = "".join(f"[rank{rank}]:   File {frame}\n" for frame in frames)
    return f"[rank{rank}]: Traceback (most recent call last):\n{places}[rank{rank}]: {error}\n"


@pytest.mark.parametrize(
    ("frames", "keys"),
    [
        (('"/job/train.py", line 70, in <module>', '"/job/train.py", line 49, in save'), "/default_pg/0//ckpt/1"),
        (('"/job/eval.py", line 9, in main',), "dataset/ready"),
    ],
)
def test_a_key_that_the_program_itself_waits_for_is_no_set_up(
    tmp_path: Path, frames: tuple[str, ...], keys: str
) -> None:
    for rank in (0, 2, 3):
        (tmp_path / f"rank_{rank}.log").write_text(ended(rank, frames, VAIN_WAIT.format(keys=keys)))
    (tmp_path / "rank_1.log").write_text("2026-03-04 10:00:00,000 INFO [rank 1] train: world size 4\n")
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert verdict.cause != "init" and "init" not in verdict.headline


def test_a_key_that_torch_waits_for_is_set_up(tmp_path: Path) -> None:
    torch = '"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2169, in _new_process_group_helper'
    for rank in (0, 2, 3):
        text = ended(
            rank, ('"/job/train.py", line 7, in main', torch), VAIN_WAIT.format(keys="/default_pg/0//cpu//0/1")
        )
        (tmp_path / f"rank_{rank}.log").write_text(text)
    (tmp_path / "rank_1.log").write_text("2026-03-04 10:00:00,000 INFO [rank 1] train: world size 4\n")
    incident = nccldoctor.analyze(tmp_path)
    assert incident.verdict.cause == "init"
    assert incident.diagnosis.remedies[0].id != "new-group-not-by-all"


@pytest.mark.parametrize("call", ["barrier", "all_reduce"])
def test_a_job_whose_collective_failed_in_gloo_had_come_up(tmp_path: Path, call: str) -> None:
    """Ranks 0-1 wait for a new group that ranks 2-3 have left; the job itself got through its set-up."""
    torch = '"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line {}, in {}'
    makes = ('"/job/train.py", line 23, in <module>', torch.format(5863, "new_group"))
    waits = ('"/job/train.py", line 27, in <module>', torch.format(5356, call))
    in_vain = (
        "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 18000ms for recv operation"
    )
    for rank in range(4):
        error = VAIN_WAIT.format(keys="/default_pg/0//1//cpu//0/2") if rank < 2 else in_vain
        (tmp_path / f"rank_{rank}.log").write_text(ended(rank, makes if rank < 2 else waits, error))
    incident = nccldoctor.analyze(tmp_path)
    verdict = incident.verdict
    assert (verdict.cause, verdict.confidence) == ("init", "low")
    assert "never got through init" not in verdict.headline
    assert incident.diagnosis.remedies[0].id == "new-group-not-by-all", "the traceback shows where the call was made"
