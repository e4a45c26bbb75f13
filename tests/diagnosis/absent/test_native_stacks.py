"""Stacks of gdb alone, which hold native frames: they show who waits in the backward pass and who waits for something else."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import Ruling, read

WAITS = """\
#0  __futex_abstimed_wait_common64 (private=0, cancel=true, abstime=0x0) at ./nptl/futex-internal.c:57
#1  0x00007f18340a741d in std::condition_variable::wait(std::unique_lock<std::mutex>&) () from /lib/x86_64-linux-gnu/libstdc++.so.6
#2  0x00007f183abd8713 in c10d::Reducer::finalize_backward() () from /opt/lib/libtorch_cpu.so
#3  0x00007f184980927c in THPEngine_run_backward(_object*, _object*, _object*) () from /opt/lib/libtorch_python.so
"""
RECEIVES = """\
#0  __libc_recv (fd=10, buf=0x7fa57f7c8180, len=256, flags=0) at ../sysdeps/unix/sysv/linux/recv.c:28
#1  0x00007fa5a694f6f8 in sock_recv_impl (data=<synthetic pointer>, s=0x7fa57f7a34c0) at ./Modules/socketmodule.c:3504
#2  0x00007fa5a6f64526 in method_vectorcall_VARARGS (func=0x7fa5a6a19080) at Objects/descrobject.c:330
"""


def stacks(*frames: str) -> Ruling:
    """A gdb stack of each rank's main thread."""
    files: dict[str, str | bytes] = {"logs/env.log": f"export WORLD_SIZE={len(frames)}\n"}
    for rank, shown in enumerate(frames):
        pid = 4100 + rank
        files[f"stacks/rank_{rank}.txt"] = f'Thread 1 (Thread 0x7f184ba2cb80 (LWP {pid}) "python3.11"):\n{shown}'
    return read(files)


def test_a_rank_that_waits_for_a_server_is_the_one_that_its_peers_wait_for() -> None:
    ruling = stacks(WAITS, RECEIVES, WAITS)
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "1"), str(ruling)
    assert "waiting for a remote server" in ruling.verdict["headline"], str(ruling)


@pytest.mark.parametrize("frames", [(WAITS, WAITS, WAITS), (RECEIVES, RECEIVES, RECEIVES)])
def test_ranks_that_all_do_the_same_are_not_told_apart(frames: tuple[str, ...]) -> None:
    assert stacks(*frames).ranks == ""
