"""Everybody is in the call, or the device of one stopped: device-stalled, unfinished, network, hardware."""

from __future__ import annotations

import re

import pytest
from builders.jobs.cases import Log, RecordedRank, Team, facts, said, world
from builders.jobs.verdicts import Ruling, gave_up, innocent, play, read, right, step_line, torchrun
from builders.logs.lines import watchdog
from simulator.jobs import make

from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import IbError
from nccldoctor.model import CauseClass


def everybody_waits(count: int = 4) -> dict[str, str | bytes]:
    return {f"logs/rank_{r}.log": gave_up(r, 50) for r in range(count)}


def kernel(xid: int, text: str, pid: int) -> str:
    return f"[Thu Jan  1 10:00:00 2026] NVRM: Xid (PCI:0000:1b:00): {xid}, pid={pid}, name=python, {text}\n"


# --- device-stalled ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["ddp", "tpdp", "fsdp"])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_completions_stand_still_while_the_host_goes_on(seed: int, layout: str) -> None:
    right(play("device_stopped", seed, layout=layout))


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_lines_alone_show_it_less_surely(seed: int) -> None:
    ruling = play("device_stopped", seed, evidence="log")
    assert ruling.cause == "device-stalled", str(ruling)
    assert ruling.sure <= 2, str(ruling)
    innocent(ruling)


def test_no_device_stops_in_a_call_over_gloo() -> None:
    files = make(2, scenario="device_stopped", evidence="fr").files
    dumps = {name: dump for name, dump in files.items() if isinstance(dump, bytes)}
    over_gloo = {name: dump.replace(b"nccl:", b"gloo:") for name, dump in dumps.items()}
    assert read({**dumps}).cause == "device-stalled"
    assert all(f["class"] != "device-stalled" for f in read({**over_gloo}).document["findings"])


def test_what_all_wait_in_is_no_single_devices_fault() -> None:
    files = {f"logs/rank_{r}.log": gave_up(r, 50, enqueued=53) for r in range(4)}
    assert read(files).cause != "device-stalled"  # type: ignore[arg-type]


@pytest.mark.parametrize("scenario", ["never_ends", "no_data", "one_more", "other_size"])
def test_completions_below_the_peers_are_needed(scenario: str) -> None:
    ruling = play(scenario, 2)
    assert all(f["class"] != "device-stalled" for f in ruling.document["findings"]), str(ruling)


def test_dumps_of_a_healthy_running_job_show_no_stopped_device() -> None:
    for seed in range(3):
        ruling = play("snapshot", seed, evidence="fr", layout="ddp")
        assert not ruling.blamed, str(ruling)


def test_dumps_of_one_running_job_at_different_moments_show_no_stopped_device() -> None:
    found = make(382)
    assert found.truth["scenario"] == "snapshot"
    assert not read(found.files).blamed


def behind(*slow: int) -> Ruling:
    """Dumps of sixteen ranks: each of these stands in a call of its four, which its peers have left for the world's."""
    recorded_ranks = []
    for rank in range(16):
        four = Team(str(1 + rank // 4), "ep", tuple(range(rank // 4 * 4, rank // 4 * 4 + 4)))
        one = RecordedRank(rank, world(16), four).calls(3).calls(3, team=four).call(team=four, done=rank not in slow)
        recorded_ranks.append(one.call("barrier", team=four, done=False) if rank in slow else one.call(done=False))
    return read({f"dumps/nccl_trace_rank_{t.rank}": t.data() for t in recorded_ranks})


def test_two_devices_of_a_larger_job_may_stop_at_once() -> None:
    ruling = behind(3, 9)
    assert (ruling.cause, ruling.ranks) == ("device-stalled", "3,9"), str(ruling)


def dumped(*unfinished: int, elsewhere: int | None = None) -> Ruling:
    """Dumps of six ranks and no log: these have not finished #3, the others wait in #4, which all queued; one more left both."""
    dumps = [
        RecordedRank(r, world(6)).calls(2).call(done=r not in unfinished).call(done=r == elsewhere) for r in range(6)
    ]
    return read({f"dumps/nccl_trace_rank_{one.rank}": one.data() for one in dumps})


def test_a_rank_alone_in_a_call_that_all_others_left_has_a_stopped_device_by_dumps_alone() -> None:
    ruling = dumped(4)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("device-stalled", "4", "low"), str(ruling)
    assert "written a moment too early" in str(ruling.verdict["doubts"])
    assert not dumped(4, 5).blamed
    assert not dumped(4, elsewhere=1).blamed


def test_devices_do_not_stop_by_the_dozen() -> None:
    """Then the dumps show one running job at different moments."""
    assert not behind(2, 3, 6, 7, 10, 11).blamed


# --- unfinished -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", ["fr+log", "fr", "log"])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_all_are_in_and_nobody_is_named(seed: int, evidence: str) -> None:
    # dumps alone may be a snapshot of a running job, and lines alone do not say how many ranks there are
    right(play("never_ends", seed, evidence=evidence), least="high" if evidence == "fr+log" else "medium")


def test_all_watchdogs_of_the_group_gave_up_on_one_call() -> None:
    ruling = read(everybody_waits() | {"logs/launcher.log": torchrun(0, -6, {1: -6, 2: -6, 3: -6})})
    assert (ruling.cause, ruling.ranks, ruling.at) == ("unfinished", "", ("ALLREDUCE", 50)), str(ruling)


def test_lines_alone_do_not_show_that_all_calls_agree() -> None:
    """No line tells a dtype, or in which order the ranks called two groups."""
    ruling = read({f"logs/rank_{r}.log": gave_up(r, 50) for r in range(4)} | {"env.sh": "export WORLD_SIZE=4\n"})
    assert ruling.cause == "unfinished" and ruling.sure <= 2, str(ruling)
    assert "neither the data types nor the order of calls" in str(ruling.verdict["doubts"])


def test_watchdogs_that_gave_up_on_several_calls_do_not_tell_which_came_first() -> None:
    """In a circle of two groups, too, every rank gives up on the call of the whole job."""
    ruling = play("swapped", 2, layout="tpdp", evidence="log", era="2.7")
    assert ruling.sure < 3, str(ruling)
    alone = {f"logs/rank_{r}.log": step_line(r, 49, "10:00:00") + gave_up(r, 50) for r in range(4)}
    two = {k: v + gave_up(0, 51) if k.endswith("_0.log") else v for k, v in alone.items()}
    size = {"env.sh": "export WORLD_SIZE=4\n"}
    assert (read({**alone, **size}).cause, read({**two, **size}).sure) == ("unfinished", 1)


@pytest.mark.parametrize("newest", [1, 2])
def test_a_ring_that_lost_an_open_transfer_leaves_a_doubt(newest: int) -> None:
    """Rank 1 waits to receive from rank 2, which is in no call of the pair; with one entry kept, only its counters tell."""
    pair, both = Team("1", "pp", (1, 2)), Team("2", "dp", (0, 1))
    sender = RecordedRank(2, pair).send(1, pair)
    receiver = RecordedRank(1, pair, both).recv(2, pair).call(team=both).recv(2, pair, done=False)
    counted = {
        str(n): {"last_enqueued_collective": 2, "last_started_collective": -1, "last_completed_collective": 1}
        for n in (0, 1)
    }
    receiver = receiver.call(team=both, done=False).other(pg_status=counted).kept(newest)
    peer = RecordedRank(0, both).calls(1).call(done=False)
    ruling = read({f"fr_trace_{r.rank}": r.data() for r in (peer, receiver, sender)})
    said = "no longer hold an older open call" in str(ruling.verdict["doubts"])
    assert (ruling.cause, said) == (("unfinished", True) if newest == 1 else ("not-arrived", False)), str(ruling)


def test_unfinished_is_proved_by_the_counters_of_the_dumps() -> None:
    """Nobody is named, and no line was cited: the dumps still show that everybody issued the call."""
    ruling = play("never_ends", 2, evidence="fr", layout="ddp")
    assert ruling.cause == "unfinished", str(ruling)
    assert ruling.at is not None
    (exhibit,) = ruling.document["proof"]
    issued, completed = (int(number) for number in re.findall(r"#(\d+)", exhibit["claim"]))
    assert completed == ruling.at[1] - 1 < issued, exhibit
    assert exhibit["claim"] == f"Ranks 0-7 issued #{issued}, and completed #{completed} last.", exhibit


@pytest.mark.parametrize("scenario", ["other_size", "other_dtype", "stopped", "device_stopped", "swapped"])
def test_unfinished_needs_all_inside_and_agreed(scenario: str) -> None:
    layout = "tpdp" if scenario == "swapped" else "ddp"
    assert play(scenario, 2, layout=layout).cause != "unfinished"


def test_one_log_does_not_show_that_all_are_inside() -> None:
    ruling = read({"logs/rank_0.log": gave_up(0, 50)})
    assert ruling.sure <= 1, str(ruling)
    assert not ruling.ranks


# --- network ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_two_ends_of_a_broken_way(seed: int) -> None:
    ruling = play("unreachable", seed, nodes=2, gpus=4)
    assert ruling.cause == "network", str(ruling)
    assert ruling.ranks == ",".join(map(str, ruling.truth["culprit_ranks"])), str(ruling)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_end_whose_port_went_down(seed: int) -> None:
    ruling = play("link_down", seed, nodes=2, gpus=4)
    assert ruling.cause == "network", str(ruling)
    assert ruling.ranks == str(ruling.truth["culprit_ranks"][0]), str(ruling)


@pytest.mark.parametrize("scenario", ["killed", "segfault", "uncaught", "out_of_memory"])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_a_connection_that_a_dying_peer_closed_is_no_network_fault(scenario: str, seed: int) -> None:
    ruling = play(scenario, seed, nodes=2, gpus=4)
    assert ruling.cause != "network", str(ruling)


def test_warnings_of_the_transport_in_a_job_that_ends_well() -> None:
    for seed in range(3):
        assert play("healthy_scary", seed, nodes=2, gpus=4).cause == "none"


def adapter_says(event: str, *more: str) -> Ruling:
    """Four ranks on two hosts wait in one call, and the adapter of rank 2 reports an event."""
    ranks = "".join(
        f"n{r // 2}:{100 + r}:{200 + r} [{r % 2}] NCCL INFO ncclCommInitRank comm 0x55{r} rank {r} nranks 4 cudaDev {r % 2} "
        f"nvmlDev {r % 2} busId {r}000 commId 0x11e35ff62bc85e0d - Init COMPLETE\n"
        for r in range(4)
    )
    warned = "[2026-01-11 10:01:05] n1:102:302 [0] transport/net_ib.cc:180 NCCL WARN NET/IB : mlx5_0:1 "
    lines = (f"{warned}{event}\n", *(line + "\n" for line in more))
    return read({"job.log": ranks + "".join(lines) + "".join(gave_up(r, 91) for r in range(4))})


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("Got async event : port error", "The network port of rank 2"),
        ("async fatal event: local catastrophic error", "The network adapter of rank 2"),
        (
            "async fatal event on QP (0x7f): local work queue catastrophic error",
            "A queue of the network adapter of rank 2",
        ),
        ("async fatal event on CQ (0x7f): CQ error", "A queue of the network adapter of rank 2"),
    ],
)
def test_an_event_of_the_adapter_says_what_failed(event: str, words: str) -> None:
    ruling = adapter_says(event)
    assert (ruling.cause, ruling.ranks, ruling.sure) == ("network", "2", 3), str(ruling)
    assert ruling.verdict["headline"].startswith(words), str(ruling)
    assert event.partition(": ")[2] in ruling.verdict["headline"], str(ruling)


@pytest.mark.parametrize("event", ["local access violation work queue error", "invalid request local work queue error"])
def test_a_refused_request_of_the_other_end_is_no_failed_port(event: str) -> None:
    alone = adapter_says(f"async fatal event on QP (0x7f): {event}")
    assert alone.cause == "network" and alone.sure <= 2, str(alone)
    assert "port" not in alone.verdict["headline"] and event in alone.verdict["headline"], str(alone)
    asked = "n0:100:300 [0] transport/net_ib.cc:2451 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<38081> with status=10"
    both = adapter_says(f"async fatal event on QP (0x7f): {event}", asked + " opcode=0 len=0 vendor err 136 (Send)")
    assert (both.cause, both.ranks) == ("network", "0,2") and both.sure <= 2, str(both)


@pytest.mark.parametrize("call", ["ibv_dereg_mr", "ibv_destroy_qp", "ibv_get_async_event"])
def test_a_tear_down_that_failed_is_no_failed_connection(call: str) -> None:
    warned = f"n1:102:302 [0] misc/ibvwrap.cc:190 NCCL WARN Call to {call} failed with error Invalid argument"
    quiet = "Got async event : GID table changed"
    assert (torn := adapter_says(quiet, warned)).cause != "network" and not torn.blamed, str(torn)
    assert adapter_says(quiet, warned.replace(call, "ibv_reg_mr")).cause == "network"


# --- hardware ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
@pytest.mark.parametrize("scenario", ["board_link", "off_the_bus", "memory_error"])
def test_a_device_error_of_a_rank(scenario: str, seed: int) -> None:
    ruling = play(scenario, seed)
    assert ruling.cause == "hardware", str(ruling)
    assert ruling.ranks == str(ruling.truth["culprit_ranks"][0]), str(ruling)


def test_a_headline_says_each_thing_once() -> None:
    fell = play("off_the_bus", 1).verdict
    assert "failed: Xid 79, GPU has fallen off the bus" in fell["headline"]
    assert "pid=" not in fell["headline"] and ".;" not in fell["headline"]
    port = play("link_down", 2, nodes=2, gpus=4).verdict
    assert port["headline"].count("port error") == 1, port["headline"]
    says = [item["says"] for verdict in (fell, port) for item in verdict["evidence"]]
    assert any("timed out in " in text for text in says)
    assert not any(text.endswith(" it") for text in says), says


def test_the_only_rank_of_a_host_with_a_broken_board_that_did_not_give_up() -> None:
    def pods(silent: set[int]) -> str:
        steps = [(r, step_line(r, 7, "09:59:00").replace("01-01", "01-11")) for r in range(8)]
        ends = [(r, gave_up(r, 50)) for r in range(8) if r not in silent]
        return "".join(f"[pod/n{r // 4}/main] {line}\n" for r, text in steps + ends for line in text.splitlines())

    fell = kernel(79, "GPU has fallen off the bus.", 99).replace("Thu Jan  1", "Sun Jan 11")
    for silent, named, suspects in (({6}, "6", ""), ({5, 6}, "", "4-7")):
        ruling = read({"kube.log": pods(silent), "n1.dmesg.txt": fell})
        assert ruling.cause == "hardware", str(ruling)
        assert (ruling.ranks, ruling.verdict["suspects"]) == (named, suspects), str(ruling)


@pytest.mark.parametrize(
    ("xid", "text"),
    [(13, "Graphics SM Warp Exception on (GPC 0, TPC 0): Out Of Range Address"), (31, "MMU Fault: ENGINE GRAPHICS")],
)
def test_what_a_faulty_program_causes_is_no_hardware_error(xid: int, text: str) -> None:
    files = everybody_waits() | {"dmesg.txt": kernel(xid, text, 4003)}
    assert read(files).cause != "hardware"


def test_out_of_memory_is_no_hardware_error() -> None:
    assert play("out_of_memory", 2).cause == "died"


def test_without_the_kernels_word_a_board_is_not_blamed() -> None:
    """The same fault, and no kernel log was kept."""
    ruling = play("off_the_bus", 2, dmesg=False)
    assert ruling.cause != "hardware", str(ruling)


def test_a_rank_that_only_went_on_is_not_in_these_classes() -> None:
    files: dict[str, str | bytes] = {
        f"logs/rank_{r}.log": "".join(step_line(r, s, f"09:00:{s:02d}") for s in range(1, 30)) for r in range(4)
    }
    ruling = read(files)
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)


def test_silence_about_the_network_rules_nothing_out_where_nobody_knows_why() -> None:
    ruling = read(everybody_waits())
    assert ruling.cause == "unfinished", str(ruling)
    rows = {row["hypothesis"]: row["ruled_out"] for row in ruling.document["ruled_out"]}
    assert rows["network"] is False


def test_ranks_that_were_not_heard_of_are_not_waited_for_where_a_link_failed() -> None:
    port = said(IbError, rank=0, host="n0", what="port", hca="mlx5_0", second=5)
    found = facts(*(RecordedRank(r).calls(5).call(done=False) for r in (0, 1)), logs=(Log("rank_0.log", [port]),))
    verdict = diagnose(found).findings[0]
    assert (verdict.cause, str(verdict.ranks)) == (CauseClass.NETWORK, "0")
    assert [(str(link.waiting), str(link.for_)) for link in verdict.chain] == [("1", "")]


def test_a_silent_system_processor_is_a_fault_of_its_board() -> None:
    said = "NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 712 heartbeat 17 timeout 5200"
    silent = f"Jul  3 11:29:00 gpu-7 kernel: {said}\n"
    ruling = read({"kern.log": silent * 2})
    assert (ruling.cause, ruling.ranks) == ("hardware", ""), str(ruling)
    assert (
        ruling.verdict["headline"]
        == "A GPU on gpu-7 probably failed: the system processor (GSP) of GPU6 does not answer."
    )
    remedy = ruling.document["remedies"][0]
    assert remedy["id"] == "gsp-timeout" and ruling.document["action"]["cordon"] == ["gpu-7"]
    assert "Drain gpu-7" in remedy["fix"][0]


@pytest.mark.parametrize(("pg", "uid", "desc"), [(0, "0", "default_pg"), (1, "5", "fsdp"), (3, "9", "")])
def test_all_ranks_with_equal_counters_are_in_the_call_of_any_group(pg: int, uid: str, desc: str) -> None:
    """Four logs of eight ranks each: a group in which all ranks of the job wait has no other member."""
    group = f"PG ID {pg} PG GUID {uid}({desc})" if desc else f"PG ID {pg} PG GUID {uid}"
    files = {
        f"node_{node}.log": "".join(
            gave_up(r, 500).replace("PG ID 0 PG GUID 0(default_pg)", group) for r in range(8 * node, 8 * node + 8)
        )
        for node in range(4)
    }
    ruling = read({**files})
    assert (ruling.cause, ruling.verdict["confidence"]) == ("unfinished", "medium"), str(ruling)
    assert "All 32 ranks entered" in ruling.verdict["headline"]


# ---- what the journals of hosts tell of a gloo job

_CLOSED = (
    '[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/opt/train/train.py", line 88, in main\n'
    "[rank{r}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection reset by peer [10.0.0.2]:18842\n"
)


def _gloo_job(journals: dict[str, str], complaining: str) -> dict[str, str | bytes]:
    """Four ranks on two hosts, which printed their last step at 03:00:30, and the journals of the hosts."""
    out: dict[str, str | bytes] = {f"{host}/journal.log": f"Feb  2 {text}" for host, text in journals.items()}
    for rank in range(4):
        step = f"[rank{rank}]: 2026-02-02 03:00:30,600 INFO node{rank // 2} trainer step 103/500 loss 3.0\n"
        out[f"node{rank // 2}/rank_{rank}.log"] = step + (_CLOSED.format(r=rank) if str(rank) in complaining else "")
    return out


def test_a_link_that_went_down_on_both_hosts_is_the_cause() -> None:
    down = "03:00:33 {h} kernel: mlx5_core 0000:31:00.0 eth2: Link down\n"
    ruling = read(_gloo_job({h: down.format(h=h) for h in ("node0", "node1")}, "0123"))
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("network", "", "0-3")
    assert ruling.verdict["headline"].startswith("The network port of node0 and node1 probably failed")


@pytest.mark.parametrize(
    ("text", "is_cause"),
    [
        ("03:00:31 node1 systemd-logind[812]: System is powering down.\n", True),
        ("03:00:31 node1 systemd-logind[812]: The system will reboot now!\n", True),
        ("02:40:00 node1 systemd-logind[812]: The system will reboot now!\n", False),  # before the job
    ],
)
def test_a_host_that_is_switched_off_takes_its_ranks(text: str, is_cause: bool) -> None:
    ruling = read(_gloo_job({"node1": text}, "01"))
    assert (ruling.cause, ruling.ranks) == ("died", "2-3")
    assert ("node failure" in ruling.verdict["headline"]) == is_cause


def test_a_queue_pair_that_was_never_set_up_explains_the_first_call() -> None:
    """Ray names the host by its address, NCCL by its name: one process, and one end."""
    actor, warn = "(EngineActor pid=1112, ip=10.3.0.7) ", "n7:1112:13532 [0] ibvwrap.c:160 NCCL WARN "
    failed = "Call to ibv_modify_qp failed with error Connection timed out\n"
    logs = f"{actor}{warn}{failed}{actor}Last error:\n{actor}{failed}" + watchdog(0, 1, "BROADCAST")
    ruling = read({"driver.log": logs})
    assert (ruling.cause, ruling.ranks) == ("network", ""), str(ruling)
    assert "n7" in str(ruling) and "10.3.0.7" not in str(ruling)
