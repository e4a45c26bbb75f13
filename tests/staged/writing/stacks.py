"""What py-spy shows of a rank: where its main thread stands."""

from __future__ import annotations

from staged.plan import Plan
from staged.play import Played, Scene
from staged.writing.c10d import stands_in

_REDUCES = ["all_reduce (torch/distributed/distributed_c10d.py:2810)", "wrapper (torch/distributed/c10d_logger.py:81)"]
PLACES = {
    "loader": [
        "wait (threading.py:331)",
        "get (queue.py:180)",
        "_try_get_data (torch/utils/data/dataloader.py:1243)",
        "_next_data (torch/utils/data/dataloader.py:1448)",
        "__next__ (torch/utils/data/dataloader.py:708)",
    ],
    "checkpoint": [
        "write (torch/serialization.py:772)",
        "save (torch/serialization.py:852)",
        "store_state (main.py:166)",
    ],
    "evaluate": ["overlap (metrics.py:31)", "score (metrics.py:58)", "validate (main.py:181)"],
    "prompt": ["input (main.py:120)", "confirm (main.py:121)"],
    "download": [
        "read (ssl.py:1167)",
        "readinto (socket.py:708)",
        "getresponse (http/client.py:1395)",
        "fetch (data/remote.py:45)",
    ],
    "lock": ["acquire (filelock/_api.py:344)", "prepare (data/cache.py:22)"],
    "driver": ["synchronize (torch/cuda/__init__.py:985)"],
    "lingers": ["_shutdown (threading.py:1568)"],
    "mean of the loss": [*_REDUCES, "mean_loss (main.py:231)"],
    "agrees on a step": [*_REDUCES, "agree (main.py:52)", "end_step (main.py:196)"],
    "agrees on an epoch": [*_REDUCES, "agree (main.py:52)", "end_epoch (main.py:209)"],
}
COMPUTE = ("forward (model/blocks.py:212)", "backward (torch/_tensor.py:581)", "attention (model/blocks.py:80)")


def stack(plan: Plan, played: Played, scene: Scene, rank: int, moving: int | None) -> str:
    """One process; ``moving`` is None where the job stands, else the number of the look."""
    rows, state = _main(plan, played, scene, rank, moving)
    head = f"Process {plan.pid(rank)}: /opt/conda/bin/python3.11 -u main.py --config base.yaml\n"
    head += "Python v3.11.9 (/opt/conda/bin/python3.11)\n"
    frames = [*rows, "fit (main.py:274)", "<module> (main.py:310)"]
    thread = f'Thread {plan.pid(rank)} ({state}): "MainThread"\n' + "".join(f"    {row}\n" for row in frames)
    helper = f'Thread {plan.pid(rank) + 60} (idle): "Thread-2 (_watch)"\n    wait (threading.py:331)\n    run (tqdm/_monitor.py:60)\n'
    return f"{head}\n{thread}{helper}"


def _main(plan: Plan, played: Played, scene: Scene, rank: int, moving: int | None) -> tuple[list[str], str]:
    if rank in scene.doing:
        return PLACES[scene.doing[rank]], "idle"
    if moving is not None:
        return [COMPUTE[(moving + rank * 2) % len(COMPUTE)]], "active+gil"
    work = stands_in(played.works[rank])
    if work is None:
        return ["synchronize (torch/cuda/__init__.py:985)"], "idle"
    if plan.seed % 2:
        return ["synchronize (torch/cuda/__init__.py:985)", f"finish_step (main.py:{work.call.site[1] + 40})"], "idle"
    wrapper = "wrapper (torch/distributed/c10d_logger.py:81)"
    name, line = work.call.site
    return [f"{work.call.op} (torch/distributed/distributed_c10d.py:2810)", wrapper, f"{name} (main.py:{line})"], "idle"
