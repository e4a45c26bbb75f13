"""Tools beside the job: who they find slow straggles, and a monitor that saw no step names nobody."""

from __future__ import annotations

from builders.jobs.verdicts import read
from builders.logs.lines import watchdog

SLOW = (
    "[rank0]: 2026-03-02 10:03:00,000 WARNING STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. "
    "Affected ranks: {StragglerId(rank=5, node='n7')}\n"
)
NODE = "[2026-03-02 10:00:00,123] [WARNING] [rdzv_manager.py:854:get_straggler] Straggler: {3: 41.203}.\n"
MONITOR = (
    "[2026-03-02 10:20:0{0},123] [WARNING] [RankMonitorServer77@n0:{0}] [Cycle 0] "
    "Did not get subsequent heartbeat. Waited 900.00 seconds.\n"
)
STEPS = "".join(
    f"[rank{r}]: 2026-03-02 10:0{m}:00,000 INFO step={m * 10} loss=2.31\n" for m in (1, 2) for r in range(8)
)
DONE = "".join(f"[rank{r}]: 2026-03-02 10:09:01,000 INFO training finished\n" for r in range(8))


def test_a_rank_that_a_tool_finds_slow_straggles() -> None:
    ruling = read({"train.log": STEPS + SLOW})
    assert (ruling.cause, ruling.ranks) == ("straggler", "5"), str(ruling)
    assert ruling.verdict["confidence"] == "medium", "one tool alone says so"


def test_a_slow_node_names_no_rank() -> None:
    ruling = read({"master.log": NODE})
    assert (ruling.cause, ruling.ranks) == ("straggler", ""), str(ruling)


def test_a_slow_rank_is_no_cause_of_a_stalled_call_nor_of_a_good_end() -> None:
    stalled = "".join(watchdog(rank, 31, at="E302 10:15:12.518820143") for rank in range(8))
    assert read({"train.log": STEPS + SLOW + stalled}).cause != "straggler"
    assert read({"train.log": STEPS + SLOW + DONE}).cause == "none"


def test_monitors_that_saw_no_step_name_nobody() -> None:
    ruling = read({"monitor.log": "".join(map(MONITOR.format, range(8)))})
    assert (ruling.cause, ruling.blamed) == ("undetermined", set()), str(ruling)
    assert "made no step for 900 s" in ruling.verdict["headline"]


def metrics_page(*boards: int, late: tuple[int, ...] = (), op: str = "AllReduce", kind: str = "collective") -> str:
    """What a node exporter shows of NCCL's Inspector, among its own metrics: kernels of ``late`` boards take a ninth of the time."""
    name = f"nccl_{'p2p' if kind == 'p2p_operation' else kind}_exec_time_microseconds"
    rows = [
        f'{name}{{algo_proto="RING_SIMPLE",{kind}="{op}",comm_name="unknown",gpu="GPU{board}",message_size="{size}",n_nodes="2",'
        f'node="n1",nranks="16",version="v5.1"}} {(9000 + 40 * board) / (9 if board in late else 1)}'
        for size in ("67-68MB", "4-5GB")
        for board in boards
    ]
    own = ["# HELP node_load1 1m load average.", "# TYPE node_load1 gauge", "node_load1 38.4"]
    return "\n".join([f"# HELP {name} Metric read from n1.prom", f"# TYPE {name} untyped", *rows, *own, ""])


def test_a_gpu_with_short_kernels_comes_last_and_names_no_rank() -> None:
    ruling = read({"n1-metrics.txt": metrics_page(*range(8), late=(5,))})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("straggler", "", "low"), str(ruling)
    assert ruling.verdict["headline"].startswith("GPU 5 of n1 is probably a straggler")


def test_pages_of_single_gpus_are_compared() -> None:
    pages = {f"gpu{board}.prom": metrics_page(board, late=(2,)) for board in range(4)}
    assert "GPU 2 of n1" in read({**pages}).verdict["headline"]


def test_kernels_alike_or_short_on_half_the_gpus_or_of_calls_that_need_not_all_tell_nothing() -> None:
    pages = (
        metrics_page(*range(8)),
        metrics_page(*range(8), late=(0, 1, 2, 3)),
        metrics_page(*range(8), late=(0,), op="Broadcast"),
        metrics_page(*range(8), late=(0,), op="Send", kind="p2p_operation"),
    )
    for page in pages:
        ruling = read({"n1-metrics.txt": page})
        assert (ruling.cause, ruling.blamed) == ("undetermined", set()), page
        assert "no line looks like" not in ruling.verdict["headline"]
