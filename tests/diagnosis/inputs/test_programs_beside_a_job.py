"""What controllers, runtimes and frameworks print of a job: who is named, what is said, and what a job that is well may print."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import Ruling, read
from builders.logs.lines import caught
from staged import jobs

STEP = "[pod/bert-worker-{rank}/main] 2026-07-02 08:{n:02d}:00,000 INFO [rank{rank}] step={n} loss=1.9\n"


def pods(silent: int | None = None, *, ranks: int = 4, done: bool = False) -> str:
    """The logs of pods with one rank each; all but the silent one time out, unless no rank does."""
    out = [STEP.format(rank=rank, n=n) for n in range(12) for rank in range(ranks)]
    for rank in range(ranks):
        if silent is not None and rank != silent:
            out.append(f"[pod/bert-worker-{rank}/main] {caught(rank, 13)}")
        if done:
            out.append(f"[pod/bert-worker-{rank}/main] 2026-07-02 08:12:30,000 INFO [rank{rank}] Training finished\n")
    return "".join(out)


def headline(ruling: Ruling) -> str:
    return str(ruling.verdict["headline"])


EVICTED = (
    "4m  Warning  Evicted  pod/bert-worker-2  The node was low on resource: ephemeral-storage. Threshold quantity: 8Gi, available: 6Gi. "
    "Container main was using 52Gi, request is 0, has larger consumption of ephemeral-storage.\n"
    "4m  Normal   Killing  pod/bert-worker-2  Stopping container main\n"
)
ON_NODE = "9m Normal Scheduled pod/bert-worker-2 Successfully assigned ml/bert-worker-2 to gpu-31\n"
BOARD = "5m  Warning  GpuXid79NotHealthy  node/gpu-31  GPU has fallen off the bus\n"
RECLAIMED = "24s Warning Evict pod/bert-worker-2 Pod is evicted, because of reclaim\n"


@pytest.mark.parametrize(
    ("events", "cause", "remedy"),
    [
        (EVICTED, "died", "pod-evicted"),
        (RECLAIMED, "died", "preemption-node-failure"),
        (ON_NODE + BOARD, "hardware", "gpu-fell-off-bus"),
    ],
    ids=["evicted", "reclaimed", "board"],
)
def test_an_event_of_kubernetes_names_the_rank_of_its_pod(events: str, cause: str, remedy: str) -> None:
    ruling = read({"kube.log": pods(2), "events.txt": events})
    assert (ruling.cause, ruling.ranks) == (cause, "2"), str(ruling)
    assert ruling.document["remedies"][0]["id"] == remedy


def test_a_pod_that_is_stopped_is_no_job_that_is_canceled() -> None:
    stop = "4m   Normal   Killing  pod/bert-worker-1   Stopping container main\n"
    told = headline(read({"kube.log": pods(), "events.txt": stop}))
    assert "Kubernetes stopped a pod" in told and "cancel" not in told
    assert read({"kube.log": pods(done=True), "events.txt": stop}).cause == "none"


@pytest.mark.parametrize(
    "failed",
    [
        "3m Warning FailedJobs jobset/bert jobset failed due to one or more job failures (first failed job: bert-worker-2)\n",
        "Warning  PodFailed  job/bert  Task bert-worker-2 failed\n",
    ],
    ids=["JobSet", "Volcano"],
)
def test_the_pod_that_a_controller_names_comes_before_those_that_it_stopped(failed: str) -> None:
    ruling = read({"events.txt": failed + "3m Normal Killing pod/bert-worker-0 Stopping container main\n"})
    assert "bert-worker-2" in headline(ruling) and "bert-worker-0" not in headline(ruling)


def test_a_deadline_of_one_remote_call_is_no_limit_of_the_job() -> None:
    call = 'torchft::manager: request failed: status: DeadlineExceeded, message: "Timeout expired"\n'
    assert read({"manager.log": call}).cause != "died"
    assert read({"kube.log": pods(done=True), "manager.log": call}).cause == "none"


MISSING = "Not all ranks joining collective 19 at entry 18\ngroup info: default_pg\ncollective: nccl:all_reduce\nmissing ranks: {6}\n"


def test_the_analyser_of_an_older_release_is_read() -> None:
    ruling = read({"fr.txt": f"{MISSING}input sizes: [[512]]\nexpected ranks: 8\ncollective state: scheduled\n"})
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "6"), str(ruling)
    differ = read({"fr.txt": "Collective 19 at entry 18 errors\nerror message: Culprit rank 6; Error type: X\n"})
    assert "#19" in headline(differ) and differ.ranks == ""


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("  The missing rank: 14\n", "The missing rank: 14"),
        ("  Rank 14 -- GPU 6 managed by process 88123 on node gpu31\n", "rank 14 there is process 88123 on gpu31"),
    ],
)
def test_a_block_of_ras_without_its_head_names_the_rank_of_which_data_is_missing(member: str, said: str) -> None:
    block = f"#0-0 (41c2ab90be77d013) INCOMPLETE\n  Missing communicator data from 1 rank\n{member}"
    ruling = read({"ras.txt": block})
    assert said in headline(ruling) and ruling.cause == "undetermined"


SNIPPETS = (
    "ray.train.WorkerGroupError: Training failed due to worker errors:\n"
    "[Rank 5 Error Snippet]:\n"
    '  File "/srv/fit.py", line 40, in train\n'
    "    batch = shards[rank].pop()\n"
    "IndexError: pop from empty list\n"
)


def test_the_worker_whose_error_ray_train_quotes_is_named() -> None:
    ruling = read({"driver.log": SNIPPETS})
    assert (ruling.cause, ruling.ranks) == ("raised", "5"), str(ruling)


AWAY = "[LightGBM] [Warning] Connecting to rank 3 failed, waiting for {n} milliseconds\n"
CAME = "[LightGBM] [Info] Connected to rank 3\n[LightGBM] [Info] Local rank: 0, total number of machines: 4\n"


def test_a_machine_of_lightgbm_that_never_came_is_named() -> None:
    tries = AWAY.format(n=22714) + AWAY.format(n=29528)
    assert read({"train.log": tries}).ranks == "3"
    assert read({"train.log": tries + CAME}).cause != "init"


NEURON = "2026-Jul-02 08:27:41.0593 15042:15042 ERROR  TDRV:exec_request_process_errors (FATAL-RT-UNDEFINED-STATE) "


@pytest.mark.parametrize(
    ("name", "text", "cause", "said"),
    [
        ("device", f"{NEURON}inference timeout (600000 ms) on Neuron Device 0 NC 0, waiting", "undetermined", "Neuron"),
        ("memory", f"{NEURON}encountered uncorrectable memory error on Neuron Device 6, ", "hardware", "Neuron device"),
        ("map", "init.cu:1037: non-zero status: 3 building transport map failed", "init", "NVSHMEM"),
        ("keys", "[TM][ERROR] [TM][COMM] Wait timeout for key(s): [rank_3 ], elapsed 600 s", "init", "never joined"),
        ("gaudi", "[08:20:11.40][HCL ][error][tid:5A10] Failed to connect to coordinator", "init", ""),
        ("port", "Port 8 device ID 3 got an event from QP 41, Source: TXE, error: retry", "network", "Gaudi 3"),
        ("lighthouse", "lighthouse quorum timeout. error: deadline has elapsed", "undetermined", "quorum"),
        (
            "notice",
            "Notified coordination service that this task will be preempted at 2026-07-02T08",
            "died",
            "preempt",
        ),
    ],
)
def test_a_line_alone_says_what_happened(name: str, text: str, cause: str, said: str) -> None:
    ruling = read({"job.log": f"{text}\n"})
    assert ruling.cause == cause and said.lower() in headline(ruling).lower(), str(ruling)


@pytest.mark.parametrize(
    "text",
    [
        "[TM][ERROR] [TM][COMM] Wait timeout for key(s): [rank_3 ], elapsed 600 s",
        "[E702 08:05:44.118203441 TCPStoreBackend.cpp:633] [c10d] TCPStoreMasterDaemon::run() failed with exception: x",
        "[W702 08:00:44.118203441 TCPStore.cpp:311] [c10d] Starting store with 8192 workers but somaxconn is 4096.",
        "tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=0, retry=3, retryLimit=3, rank=2, size=4, local=[10.4.0.6]:48826, "
        "remote=[10.4.0.2]:9612, error=SO_ERROR: Connection refused, remote=[10.4.0.2]:9612",
        "Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback.",
        "lighthouse quorum timeout. error: deadline has elapsed",
        "init.cu:1037: non-zero status: 3 building transport map failed",
        "Port 8 device ID 3 got an event from QP 41, Source: TXE, error: retry counter exceeded",
        "[08:20:11.40][HCL ][error][tid:5A10] Failed to connect to coordinator",
        "Preemption sync protocol cancelled by notifier: CANCELLED. This is expected during program shutdown.",
        "Notified coordination service that this task will be preempted at 2026-07-02T08:05:11+00:00. absl::Status: OK",
        "(raylet) file_system_monitor.cc:116: /tmp/ray/s is over 95% full, available space: 26 GB; capacity: 763 GB. "
        "Object creation will fail if spilling is required.",
        "🚀 Starting experience making with 512 samples",
        "UserWarning: Forward order differs from that of the first iteration on rank 2. Collectives are unchecked",
    ],
)
def test_a_job_that_goes_on_and_ends_well_is_not_accused(text: str) -> None:
    lines = pods(done=True).splitlines(keepends=True)
    lines.insert(22, f"[pod/bert-worker-2/main] [rank2] {text}\n")
    ruling = read({"kube.log": "".join(lines)})
    assert (ruling.cause, ruling.ranks) == ("none", ""), str(ruling)


@pytest.mark.parametrize("seed", range(50_010, 50_016))
def test_a_run_above_in_the_file_leaves_no_mark_on_clocks_and_ranks(seed: int) -> None:
    """Both runs have two agents of torchrun, whose ends stand ten minutes apart; the second began two hours later."""
    job = jobs.make(seed, scenario="earlier_run_in_the_same_file")
    ruling = read(job.files, job.truth)
    culprits = ",".join(map(str, job.truth["culprit_ranks"]))
    assert (ruling.cause, ruling.ranks) == ("not-arrived", culprits), str(ruling)
    assert "clock of" not in str(ruling.document["coverage"])


@pytest.mark.parametrize("seed", range(50_010, 50_014))
def test_a_healthy_run_beside_a_hung_one_is_no_all_clear(seed: int) -> None:
    ruling = read(jobs.make(seed, scenario="two_jobs_in_a_folder").files)
    assert ruling.cause == "undetermined", str(ruling)
    assert "analyze run_a alone" in ruling.verdict["headline"]
