"""The logs of a Ray session: files are named by the ids of workers and by pids, and one table says which is which rank."""

from __future__ import annotations

from pathlib import Path

import nccldoctor
from nccldoctor import pipeline

TABLE = "(TorchTrainer pid=2345) Started distributed worker processes: \n" + "".join(
    f"(TorchTrainer pid=2345) - (ip=10.0.0.{1 + rank // 2}, pid={500 + rank}) world_rank={rank}, local_rank={rank % 2}, node_rank=0\n"
    for rank in range(4)
)


def session(folder: Path) -> Path:
    """Ranks 0-2 fail in a call that rank 3 left by an exception, each in a file of its own."""
    logs = folder / "session_latest" / "logs"
    logs.mkdir(parents=True)
    (logs / "job-driver-raysubmit_x.log").write_text(TABLE)
    for rank in range(4):
        stem = f"worker-{rank:056x}-01000000-{500 + rank}"
        (logs / f"{stem}.out").write_text(
            f":job_id:01000000\n:actor_name:RayTrainWorker\n2026-05-01 10:00:0{rank} INFO step 7\n"
        )
        text = 'Traceback (most recent call last):\n  File "train.py", line 40, in load_batch\nFileNotFoundError: shard_7.idx\n'
        (logs / f"{stem}.err").write_text(text if rank == 3 else "")
    (logs / "raylet.out").write_text("[2026-05-01 09:59:00,000 I 77 77] (raylet) main.cc:1: started\n")
    return folder


def test_each_file_gets_its_rank_by_the_table(tmp_path: Path) -> None:
    case = pipeline.read([session(tmp_path)])
    ranks = {s.path.rpartition("-")[2]: s.rank for s in case.sources if "worker-" in s.path}
    assert ranks == {f"{500 + rank}.{end}": rank for rank in range(4) for end in ("out", "err")}
    assert {case.rank_pid[rank] for rank in range(4)} == {500, 501, 502, 503}


def test_the_rank_that_crashed_is_named(tmp_path: Path) -> None:
    verdict = nccldoctor.analyze(session(tmp_path)).verdict
    assert (verdict.cause, str(verdict.ranks)) == ("raised", "3")
