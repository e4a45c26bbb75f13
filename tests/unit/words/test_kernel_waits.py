"""What a process waits for, by functions of the kernel."""

from __future__ import annotations

from nccldoctor.words.kernel_waits import telling_function, waits_for

RECEIVES = """[<0>] wait_woken+0x89/0x90
[<0>] sk_wait_data+0x172/0x190
[<0>] tcp_recvmsg_locked+0x225/0x9e0
[<0>] entry_SYSCALL_64_after_hwframe+0x76/0x7e
"""
LOCKS = "[<0>] futex_do_wait+0x46/0x90\n[<0>] do_syscall_64+0x71/0x290\n"


def test_the_innermost_function_that_tells_the_wait_is_found_below_one_that_serves_many() -> None:
    found = telling_function(RECEIVES.splitlines())
    assert found == "sk_wait_data"
    assert waits_for(found) == "data from a socket"


def test_a_lock_may_be_any_and_no_stack_tells_nothing() -> None:
    assert [telling_function(stack.splitlines()) for stack in (LOCKS, "", "0\n", "cat: permission denied")] == [
        None
    ] * 4


def test_only_frames_are_functions() -> None:
    lines = (
        "waits in tcp_recvmsg+0x1/0x2",
        "[<zz>] tcp_recvmsg+0x1/0x2",
        "[<0>] tcp_recvmsg",
        "[<0>] tcp recvmsg+0x1/0x2",
    )
    assert [telling_function([line]) for line in lines] == [None] * 4
    assert telling_function(["[<ffff8a>] tcp_recvmsg+0x1/0x2"]) == "tcp_recvmsg"
