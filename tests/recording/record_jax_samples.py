"""Records the samples of JAX: four processes on a CPU, one fault each. Needs ``pip install jax``.

``python tests/recording/record_jax_samples.py`` writes ``sample_logs/jax-*`` anew, all three in two minutes. Without arguments it
starts the processes, with arguments it is one of them.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

SIZE = 4
CASES = {"jax-late-start": 2, "jax-barrier": 1, "jax-died": 3}
"""The case, and the process at fault."""

log = logging.getLogger("train")


def run(case: str, process: int, port: str) -> None:
    """One process of the job."""
    import jax
    import jax.numpy as jnp
    from jax._src import distributed
    from jax.experimental import multihost_utils

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    is_culprit = process == CASES[case]
    if case == "jax-late-start" and is_culprit:
        log.info("loading the dataset")
        time.sleep(45)
    jax.distributed.initialize(
        f"127.0.0.1:{port}", SIZE, process, initialization_timeout=20, heartbeat_timeout_seconds=10
    )
    for step in range(1, 4):
        multihost_utils.process_allgather(jnp.array([float(step)]))
        log.info("process %d: step %d", process, step)
    if case == "jax-barrier":
        if is_culprit:
            log.info("process %d evaluates", process)
            time.sleep(60)
        distributed.global_state.client.wait_at_barrier("checkpoint_saved", 15_000)
    if case == "jax-died" and is_culprit:
        os._exit(7)
    multihost_utils.process_allgather(jnp.array([1.0]))
    log.info("process %d done", process)


def record(case: str, into: Path) -> None:
    """Run one case and keep what its processes wrote, with neutral paths."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, case]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    jobs = [subprocess.Popen([*command, str(process), str(port)], **pipe) for process in range(SIZE)]
    for process, job in enumerate(jobs):
        text, _ = job.communicate(timeout=200)
        (into / f"process{process}.log").write_text(neutral(text), encoding="utf-8")


def neutral(text: str) -> str:
    """The text without the paths of this machine and without the addresses of C++ frames."""
    text = re.sub(r"(?m)^ {4}@ +0x.*\n", "", text)
    text = re.sub(r'"[^"]*/(site-packages/[^"]+)"', r'"/opt/venv/lib/python3.11/\1"', text)
    return text.replace(str(Path(__file__).resolve()), "/opt/train/train.py").replace(__file__, "/opt/train/train.py")


def main() -> None:
    """Record every case."""
    for case in CASES:
        record(case, Path(__file__).parents[2] / "sample_logs" / case)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        main()
