"""What a process waits for, by the kernel's function that it sleeps in (Linux ``/proc/PID/wchan`` and ``/proc/PID/stack``)."""

from __future__ import annotations

from collections.abc import Iterable

_WAITS = (
    ("data from a socket", ("tcp_recvmsg", "udp_recvmsg", "unix_stream_read", "unix_stream_data_wait", "sk_wait_data")),
    ("a connection", ("inet_csk_accept", "inet_csk_wait_for_connect", "inet_stream_connect", "unix_accept")),
    (
        "a file system",
        ("nfs", "rpc_wait", "ceph_", "fuse_", "request_wait_answer", "cl_sync_io", "ll_", "io_schedule", "folio_wait"),
    ),
    ("a file lock", ("flock_lock", "fcntl_setlk", "posix_lock", "locks_lock", "nlmclnt_")),
    ("a pipe", ("pipe_read", "pipe_write", "anon_pipe_read", "anon_pipe_write", "pipe_wait")),
    ("a child process", ("do_wait", "kernel_wait4")),
    ("input from a terminal", ("n_tty_read", "tty_read")),
    ("a timer", ("hrtimer_nanosleep", "do_nanosleep")),
)
"""Beginnings of functions. Those that serve many kinds of waits tell nothing: ``futex_do_wait`` is any lock, ``do_poll`` any file."""


def waits_for(function: str) -> str | None:
    """``data from a socket`` for ``tcp_recvmsg_locked``; None where the function doesn't tell what is waited for."""
    return next((what for what, beginnings in _WAITS if function.startswith(beginnings)), None)


def telling_function(stack: Iterable[str]) -> str | None:
    """The innermost function of a kernel stack that tells what is waited for; None where none does.

    ``stack`` are lines like those of ``/proc/PID/stack``: *sk_wait_data* for a thread that reads from a socket, whose innermost function is
    *wait_woken*.
    """
    return next((function for function in map(_function_of, stack) if waits_for(function)), None)


def _function_of(frame: str) -> str:
    """``sk_wait_data`` for ``[<0>] sk_wait_data+0x172/0x190``; "" for a line that is no frame."""
    address, _, call = frame.partition(">] ")
    function, offset, _ = call.partition("+0x")
    is_frame = address.startswith("[<") and len(address) > 2 and not address[2:].strip("0123456789abcdef")
    return function if is_frame and offset and function.isidentifier() else ""
