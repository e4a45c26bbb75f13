"""Jobs on gloo: what waits leaves no number in its complaint, sends are not recorded, and a call that failed counts as done."""

from __future__ import annotations

from io import BytesIO

from builders.jobs.cases import RecordedRank, Team, world
from builders.jobs.verdicts import Ruling, raised, read, torchrun

from nccldoctor.events import ExceptionRaised
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.engine.scan import scan

CLOSED = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:36773. This is "
    "typically caused by a remote worker crashing."
)
VAIN = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 9000ms for recv operation to complete"
LIBRARY = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"


def steps(rank: int, count: int) -> str:
    ready = f"[rank{rank}]: 2026-01-01 10:10:00,000 INFO process groups ready world_size=4\n"
    return ready + "".join(
        f"[rank{rank}]: 2026-01-01 10:10:{n:02d},000 INFO step={n} loss=2.0\n" for n in range(1, count + 1)
    )


def own_dump(rank: int) -> str:
    return f"[rank{rank}]: 2026-01-01 10:10:20,000 INFO flight recorder dump written (no progress, 5606 bytes)\n"


def inside(rank: int, function: str, error: str) -> str:
    """A traceback that ends inside a function of torch.distributed."""
    rows = (
        "Traceback (most recent call last):",
        '  File "/opt/train/train.py", line 61, in step',
        "    exchange(batch)",
        f'  File "{LIBRARY}", line 2500, in {function}',
        "    work.wait()",
        error,
    )
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


def logs(texts: dict[int, str]) -> dict[str, str | bytes]:
    return {f"logs/rank_{rank}.log": text for rank, text in texts.items()}


def recorded(rank: int, *teams: Team) -> RecordedRank:
    return RecordedRank(rank, *(teams or (world(4),)), backend="gloo")


def dumps(*recorded_ranks: RecordedRank) -> dict[str, str | bytes]:
    return {f"dumps/fr_trace_{t.rank}": t.data() for t in recorded_ranks}


# --- lines alone


def test_a_rank_whose_log_stays_empty_is_quiet_like_one_that_writes() -> None:
    """Rank 2 ended by ``os._exit(0)``: torchrun opened its log, and its table leaves it out."""
    texts = {r: steps(r, 3) + inside(r, "all_reduce", f"RuntimeError: {CLOSED}") for r in (0, 1, 3)}
    ruling = read(logs(texts | {2: ""}))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("died", "2", "medium"), str(ruling)


def left_out(rank: int, launcher: str) -> Ruling:
    """Three of four ranks lost connections; nothing but the number of the fourth is read, and the launcher's lines."""
    texts = {r: inside(r, "all_reduce", f"RuntimeError: {CLOSED}") for r in range(4) if r != rank}
    return read({"train.log": "".join(texts.values()), "launcher.log": launcher})


def test_a_rank_that_the_launchers_table_leaves_out_ended_with_0() -> None:
    ruling = left_out(2, torchrun(3, 1, {0: -15, 1: 1}))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence_in"]["ranks"]) == ("died", "2", "high"), str(ruling)
    assert ruling.document["remedies"][0]["id"] == "rank-exited-early", str(ruling)
    assert "lists 3 ranks but not rank 2" in str(ruling.verdict["evidence"])


def test_who_ends_with_0_when_it_is_told_to_stop_is_left_out_as_well() -> None:
    told = "W0101 10:11:01.1 3900 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4002 closing signal SIGTERM\n"
    assert left_out(2, told + torchrun(3, 1, {0: -15, 1: 1})).ranks == ""


def test_the_last_rank_of_a_node_is_left_out_where_the_size_of_the_job_is_known() -> None:
    assert left_out(3, torchrun(2, 1, {0: -15, 1: 1})).ranks == "", "there may be three ranks"
    ready = "[rank0]: 2026-01-01 10:10:00,000 INFO process groups ready world_size=4\n"
    assert left_out(3, ready + torchrun(2, 1, {0: -15, 1: 1})).ranks == "3"


def test_waits_in_vain_are_told_although_the_waiting_ranks_exited() -> None:
    texts = {
        r: steps(r, 3) + (inside(r, "all_reduce", f"RuntimeError: {VAIN}") if r in (1, 2) else "") for r in range(4)
    }
    ruling = read({**logs(texts), "launcher.log": torchrun(1, 1, {2: 1, 0: -15, 3: -15})})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), "half of the ranks are quiet"
    assert ruling.verdict["headline"].startswith("Rank 1 timed out in step (train.py:61) waiting for a peer"), str(
        ruling
    )


def test_two_places_without_a_culprit_are_told() -> None:
    """Rank 1 may have skipped the call of the others, or rank 0 that of their pair: the picture is the same."""
    apart = (
        inside(1, "all_reduce", f"RuntimeError: {CLOSED}")
        .replace("line 61, in step", "line 33, in tp_sum")
        .replace("exchange(batch)", "all_reduce(x, group=tp)")
    )
    texts = {r: steps(r, 3) + (apart if r == 1 else inside(r, "all_reduce", f"RuntimeError: {VAIN}")) for r in range(4)}
    ruling = read(logs(texts))
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert ruling.verdict["headline"].startswith("Ranks 0, 2-3 waited in step and rank 1 in tp_sum")
    says = [one["says"] for one in ruling.verdict["evidence"]]
    assert {"Rank 0 waited at step (train.py:61).", "Rank 1 waited at tp_sum (train.py:33)."} <= {*says}
    assert ruling.verdict["suspects"] == "", "the line does not say that the call needs every rank"
    of_all = {name: str(text).replace("exchange(batch)", "dist.all_reduce(grad)") for name, text in logs(texts).items()}
    assert read({**of_all}).verdict["suspects"] == "1"


def test_tracebacks_that_end_in_one_helper_are_told_apart_by_the_line_that_called_it() -> None:
    def called_from(line: int, rank: int) -> str:
        outer = (
            f'[rank{rank}]:   File "/opt/train/train.py", line {line}, in main\n[rank{rank}]:     reduce_mean(loss)\n'
        )
        text = inside(rank, "all_reduce", f"RuntimeError: {VAIN}").replace("exchange(batch)", "dist.all_reduce(x)")
        head, _, rest = text.partition("\n")
        return f"{head}\n{outer}{rest}"

    ruling = read(logs({r: steps(r, 3) + called_from(272 if r == 1 else 270, r) for r in range(4)}))
    assert "1" in (ruling.ranks, ruling.verdict["suspects"]), str(ruling)
    headline = ruling.verdict["headline"]
    assert "main (train.py:272)" in headline and "main (train.py:270)" in headline, headline


def alone(text: str, error: str = VAIN) -> Ruling:
    """Three of four ranks gave up; ``text`` is what rank 2 wrote behind its steps."""
    texts = {r: steps(r, 5) + raised(r, "RuntimeError", error) for r in (0, 1, 3)}
    return read(logs({**texts, 2: steps(2, 5) + text}))


def test_who_alone_did_not_give_up_but_lives_never_came() -> None:
    ruling = alone(own_dump(2))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("not-arrived", "2", "high"), str(ruling)


def test_without_exit_codes_and_stacks_a_silent_rank_may_be_busy_frozen_or_gone() -> None:
    ruling = alone("")
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "2"), str(ruling)
    assert ruling.verdict["confidence_in"] == {"ranks": "medium", "class": "low"}
    assert ruling.verdict["runner_up"]["class"] == "frozen"


def test_where_the_launcher_recorded_ends_a_silent_rank_without_one_is_likely_frozen() -> None:
    texts = {r: steps(r, 5) + raised(r, "RuntimeError", VAIN) for r in (0, 1, 3)}
    ends = {"torchrun.log": torchrun(0, 1, {1: 1, 3: 1})}
    ruling = read(logs({**texts, 2: steps(2, 5)}) | ends)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("frozen", "2", "medium"), str(ruling)


def test_connections_that_break_first_mean_that_the_silent_rank_is_gone() -> None:
    ruling = alone("", CLOSED)
    assert (ruling.cause, ruling.ranks) == ("died", "2"), str(ruling)


def test_where_all_gave_up_nobody_is_named() -> None:
    ruling = alone(raised(2, "RuntimeError", VAIN))
    assert ruling.ranks == "", str(ruling)


def test_where_half_of_the_job_kept_silent_nobody_is_named() -> None:
    texts = {r: steps(r, 5) + raised(r, "RuntimeError", VAIN) for r in (0, 1)}
    assert read(logs({**texts, 2: steps(2, 5), 3: steps(3, 5)})).ranks == ""


def test_a_log_that_was_not_collected_is_no_silence() -> None:
    assert read(logs({r: steps(r, 5) + raised(r, "RuntimeError", VAIN) for r in (0, 1, 3)})).ranks == ""


# --- waits that nobody recorded


def ring(error: str, function: str = "recv") -> Ruling:
    """0 and 3 wait in the next all-reduce for 1 and 2, who gave up in something that the recorder does not note."""
    recorded_ranks = [recorded(r).calls(6) for r in range(4)]
    for rank in (0, 3):
        recorded_ranks[rank].call(done=False)
    texts = {r: steps(r, 5) + raised(r, "RuntimeError", VAIN) for r in (0, 3)}
    return read(dumps(*recorded_ranks) | logs(texts | {r: steps(r, 5) + inside(r, function, error) for r in (1, 2)}))


def test_ranks_that_wait_themselves_are_not_blamed_for_not_coming() -> None:
    ruling = ring(f"RuntimeError: {VAIN}")
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("unmatched-p2p", "", "1-2"), str(ruling)
    assert ruling.verdict["confidence"] == "low"


def test_without_a_frame_that_tells_what_they_wait_in_the_cause_is_open() -> None:
    ruling = ring(f"RuntimeError: {VAIN}", "wait")
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("undetermined", "", "1-2"), str(ruling)


def test_ranks_that_wait_for_a_new_group_wait_for_those_who_never_made_it() -> None:
    ruling = ring(
        "torch.distributed.DistStoreError: wait timeout after 9000ms, keys: /default_pg/0//1//cpu//0/2", "new_group"
    )
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)
    assert ruling.verdict["suspects"] == "0,3"


def test_lines_alone_tell_of_a_new_group_that_never_came_up() -> None:
    error = "torch.distributed.DistStoreError: wait timeout after 9000ms, keys: /default_pg/0//1//cpu//0/2"
    texts = {r: steps(r, 5) + inside(r, "new_group", error) for r in (0, 1, 3)}
    ruling = read(logs({**texts, 2: steps(2, 5) + raised(2, "RuntimeError", VAIN)}))
    assert (ruling.cause, ruling.ranks) == ("init", "2"), str(ruling)


# --- a call that failed counts as done


def test_members_that_differ_in_their_last_call_disagree_although_it_counts_as_done() -> None:
    recorded_ranks = [recorded(r).calls(6).call(n=40 if r == 3 else 32) for r in range(4)]
    ruling = read(dumps(*recorded_ranks))
    assert (ruling.cause, ruling.ranks, ruling.at) == ("size-mismatch", "3", ("ALLREDUCE", 7)), str(ruling)


def test_lines_without_a_complaint_mean_that_the_last_call_did_not_fail() -> None:
    recorded_ranks = [recorded(r).calls(6).call(n=40 if r == 3 else 32) for r in range(4)]
    assert read(dumps(*recorded_ranks) | logs({r: steps(r, 5) for r in range(4)})).ranks == ""


# --- a circle of two groups


ALL, PAIR = world(4), Team("1", "tp", (0, 1))


def swapped(*lines: int) -> Ruling:
    """Rank 0 enters the pair's call before the world's; the lines are those of user code that issue the two."""
    here = [[{"name": "step", "filename": "/opt/train/train.py", "line": n}] for n in lines]
    recorded_ranks = []
    for rank in range(4):
        own = recorded(rank, ALL, PAIR)
        for step in range(6):
            last = step == 5
            if not (last and rank == 0):
                own.call(team=ALL, done=not last, frames=here[0])
            if rank < 2 and (not last or rank == 0):
                own.call("all_gather", team=PAIR, done=not last, frames=here[1])
        recorded_ranks.append(own)
    return read(dumps(*recorded_ranks))


def test_calls_from_places_of_their_own_tell_a_skip_from_a_swap() -> None:
    ruling = swapped(31, 32)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("missed-call", "0", "high"), str(ruling)


def test_a_loop_over_groups_does_not() -> None:
    ruling = swapped(31, 31)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("order-inversion", "0", "medium"), str(ruling)


# --- lines


def test_the_line_of_code_above_an_exception_is_no_part_of_it() -> None:
    text = inside(2, "recv", f"RuntimeError: {CLOSED}")
    parsed = scan(Source(0, "rank_2.log", SourceKind.LOG, len(text)), BytesIO(text.encode()))
    (error,) = [e for e in parsed.events if isinstance(e, ExceptionRaised)]
    assert (error.type, error.rank, error.origin) == ("RuntimeError", 2, "echo")


def test_connections_that_break_when_others_give_up_and_leave_are_no_death() -> None:
    """Who waited until the limit leaves, and so breaks the connection of a peer that waits for it."""
    recorded_ranks = [recorded(r).calls(3).call(done=False) for r in (0, 1, 3)]
    errors = {0: VAIN, 1: CLOSED, 3: VAIN}
    texts = {r: steps(r, 5) + raised(r, "RuntimeError", e) for r, e in errors.items()}
    ruling = read(dumps(*recorded_ranks) | logs({**texts, 2: steps(2, 5)}))
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "2"), str(ruling)


def test_in_a_merged_log_a_broken_connection_may_stand_before_the_exception_that_broke_it() -> None:
    lost = raised(0, "RuntimeError", CLOSED) + raised(1, "RuntimeError", CLOSED)
    ruling = read({"job.log": lost + raised(2, "ValueError", "no such expert") + raised(3, "RuntimeError", CLOSED)})
    assert (ruling.cause, ruling.ranks) == ("raised", "2"), str(ruling)


def test_a_rank_a_step_ahead_skipped_calls_and_did_not_merely_issue_another_one() -> None:
    recorded_ranks = [recorded(r).calls(6).call("barrier" if r == 2 else "all_reduce", done=False) for r in range(4)]
    texts = {r: steps(r, 6 if r == 2 else 5) + raised(r, "RuntimeError", VAIN) for r in range(4)}
    ruling = read(dumps(*recorded_ranks) | logs(texts))
    assert (ruling.cause, ruling.ranks) == ("missed-call", "2"), str(ruling)
    over = {
        r: steps(r, 5) + ("[rank2]: 2026-01-01 10:10:06,000 INFO epoch 0 done\n" if r == 2 else "") for r in range(4)
    }
    done = read(dumps(*recorded_ranks) | logs({r: text + raised(r, "RuntimeError", VAIN) for r, text in over.items()}))
    assert (done.cause, done.ranks) == ("missed-call", "2"), str(done)
    even = read(dumps(*recorded_ranks) | logs({r: steps(r, 5) + raised(r, "RuntimeError", VAIN) for r in range(4)}))
    assert (even.cause, even.ranks) == ("op-mismatch", "2"), str(even)


def test_a_death_outside_of_what_is_known_to_wait_is_told() -> None:
    """Two dumps of a pair are left, and their call has all members that are known; the kill of another rank explains it."""
    pair = Team("3", "dp", (0, 1))
    recorded_ranks = [
        RecordedRank(r, world(4), pair, backend="gloo").calls(3).call(team=pair, done=False) for r in (0, 1)
    ]
    for one in recorded_ranks:
        one.other(pg_config={"": {"name": "", "desc": "", "ranks": "[]"}})
    ruling = read(
        dumps(*recorded_ranks)
        | logs({r: steps(r, 5) for r in range(4)})
        | {"torchrun.log": torchrun(3, -9, {0: -15, 1: -15, 2: -15})}
    )
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)


AT_STEP = [{"name": "step", "filename": "/opt/train/train.py", "line": 61}]


def gone() -> Ruling:
    """Rank 3 is killed before call 7. The others lose their connections to it, and dump after that."""
    recorded_ranks = [recorded(r).calls(7, frames=AT_STEP) for r in range(3)]
    texts = {r: steps(r, 5) + inside(r, "all_reduce", f"RuntimeError: {CLOSED}") for r in range(3)}
    return read(
        dumps(*recorded_ranks) | logs({**texts, 3: steps(3, 5)}) | {"torchrun.log": torchrun(3, -9, {0: 1, 1: 1, 2: 1})}
    )


def test_a_call_that_raised_did_not_complete_although_it_counts_as_done() -> None:
    ruling = gone()
    assert (ruling.cause, ruling.ranks, ruling.at) == ("died", "3", ("ALLREDUCE", 7)), str(ruling)
    assert ruling.verdict["confidence"] == "high"


def test_an_exception_from_the_same_line_says_nothing_of_a_call_that_others_went_past() -> None:
    """Rank 3 came late, to a call behind those in its dump, and found its peers gone."""
    recorded_ranks = [recorded(r).calls(6, frames=AT_STEP) for r in range(4)]
    for one in recorded_ranks[:3]:
        one.call(done=False, frames=AT_STEP)
    texts = {r: steps(r, 5) + inside(r, "all_reduce", f"RuntimeError: {VAIN if r < 3 else CLOSED}") for r in range(4)}
    ruling = read(dumps(*recorded_ranks) | logs(texts))
    assert (ruling.ranks, ruling.at) == ("3", ("ALLREDUCE", 7)), str(ruling)


# --- what dumps and lines tell together


def stopped(*closed: int, ends: str = "") -> Ruling:
    """Rank 2 left no dump, its log simply ends; the others dumped and gave up, those in ``closed`` because a connection broke.

    ``ends`` is what the launcher wrote.
    """
    recorded_ranks = [recorded(r).calls(3).call(done=False) for r in (0, 1, 3)]
    texts = {
        r: steps(r, 5) + own_dump(r) + raised(r, "RuntimeError", CLOSED if r in closed else VAIN) for r in (0, 1, 3)
    }
    launcher: dict[str, str | bytes] = {"torchrun.log": ends} if ends else {}
    return read(dumps(*recorded_ranks) | logs({**texts, 2: steps(2, 5)}) | launcher)


def test_a_silent_rank_whose_connections_held_until_the_limit_is_frozen() -> None:
    ruling = stopped(ends=torchrun(0, 1, {1: 1, 3: 1}))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("frozen", "2", "high"), str(ruling)


def test_a_script_that_dumps_when_it_fails_says_nothing_of_a_rank_that_did_not_fail() -> None:
    """Gloo has no watchdog that dumps: a rank that is busy leaves no dump either."""
    ruling = stopped()
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence_in"]["class"]) == ("not-arrived", "2", "low")


def test_a_silent_rank_whose_connections_broke_is_gone() -> None:
    ruling = stopped(0, 1, 3)
    assert (ruling.cause, ruling.ranks) == ("died", "2"), str(ruling)


def test_a_monitored_barrier_names_who_did_not_come_although_nothing_in_the_dumps_waits() -> None:
    recorded_ranks = [recorded(r).calls(4) for r in range(4)]
    reached = "reached monitoredBarrier, but received errors while waiting for send/recv from rank 0."
    texts = {r: raised(r, "RuntimeError", f"Rank {r} successfully {reached}") for r in (1, 3)}
    texts[0] = raised(0, "RuntimeError", "[Rank 0]: Ranks 2 failed to pass monitoredBarrier in 7000 ms")
    ruling = read(dumps(*recorded_ranks) | logs({r: steps(r, 5) + texts.get(r, "") for r in range(4)}))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("not-arrived", "2", "high"), str(ruling)


def test_without_the_log_of_rank_0_a_monitored_barrier_names_nobody() -> None:
    reached = "reached monitoredBarrier, but received errors while waiting for send/recv from rank 0."
    ruling = read(logs({1: raised(1, "RuntimeError", f"Rank 1 successfully {reached}")}))
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "rank 0's log names the missing ranks" in ruling.verdict["headline"]


def test_dumps_alone_of_a_job_that_seems_idle_say_little() -> None:
    """A send that hangs is not recorded, and a call that failed counts as done."""
    ruling = read(dumps(*(recorded(r).calls(4) for r in range(4))))
    assert (ruling.cause, ruling.verdict["confidence"]) == ("none", "low"), str(ruling)


def test_calls_of_several_pairs_in_flight_at_once_are_a_snapshot() -> None:
    pairs = Team("1", "tp", (0, 1)), Team("2", "tp", (2, 3))
    recorded_ranks = [recorded(r, world(4), *pairs) for r in range(4)]
    for one in recorded_ranks:
        one.calls(5, team=one.teams[1]).call(team=one.teams[1], done=False)
    ruling = read(dumps(*recorded_ranks))
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), "no log shows that these calls ended"
    one_pair = read(
        dumps(*recorded_ranks[:2], *(recorded(r, world(4), *pairs).calls(5, team=pairs[1]) for r in (2, 3)))
    )
    assert one_pair.cause == "unfinished", str(one_pair)


def uneven(error: str) -> Ruling:
    """Rank 2 sends more in its last all-to-all than anybody ever did; rank 0 aborted."""
    recorded_ranks = [
        recorded(r).calls(5, "all_to_all").call("all_to_all", n=12 if r == 2 else 8).call() for r in (1, 2, 3)
    ]
    texts = {r: steps(r, 5) + raised(r, "RuntimeError", CLOSED) for r in (1, 2, 3)}
    return read(dumps(*recorded_ranks) | logs(texts | {0: steps(0, 5) + error}))


def test_who_moved_another_amount_than_ever_before_is_named_where_a_library_got_a_wrong_size() -> None:
    ruling = uneven(
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /pytorch/"
        "third_party/gloo/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 16 vs 8. Received data size "
        "doesn't match expected size. Is there a distributed collective mismatch in your code?\n"
    )
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("size-mismatch", "2", "medium"), str(ruling)


def test_without_such_a_line_amounts_may_differ() -> None:
    ruling = uneven("")
    assert ruling.cause != "size-mismatch", str(ruling)
    assert "2" not in ruling.ranks


def test_ranks_whose_last_call_failed_are_not_absent_from_the_next_one() -> None:
    """4 to 6 differ in their group's call, which counts as done; rank 1 waits for 5 in another group."""
    low, high = Team("1", "tp", (0, 1, 2, 3)), Team("2", "tp", (4, 5, 6, 7))
    across = [Team(str(3 + r), "dp", (r, r + 4)) for r in range(4)]
    recorded_ranks = []
    for rank in range(7):
        team, pair = (low, high)[rank // 4], across[rank % 4]
        one = recorded(rank, world(8), team, pair)
        for _ in range(4):
            one.call(team=team).call(team=pair)
        one.call(team=team, input_dtypes=["Double" if rank == 4 else "Float"])
        if rank < 4:
            one.call(team=pair, done=rank != 1)
        recorded_ranks.append(one)
    ruling = read(dumps(*recorded_ranks))
    assert (ruling.cause, ruling.ranks) == ("dtype-mismatch", "4"), str(ruling)


def test_a_barrier_at_the_very_end_may_be_what_follows_a_loop_that_was_left() -> None:
    recorded_ranks = [
        RecordedRank(r).calls(6).call("barrier" if r == 2 else "all_reduce", done=False) for r in range(4)
    ]
    ruling = read(dumps(*recorded_ranks))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("op-mismatch", "2", "medium"), str(ruling)
    middle = read(dumps(*(t.call(done=False) for t in recorded_ranks)))
    assert (middle.cause, middle.ranks, middle.verdict["confidence"]) == ("op-mismatch", "2", "high"), str(middle)


# --- jobs that go on, and jobs that only seem to


HANDLED = (
    "[rank2]: 2026-01-01 10:10:03,500 ERROR cache miss, reading from origin\nTraceback (most recent call last):\n"
    '  File "/opt/train/train.py", line 62, in step\n    open(name)\n'
    "FileNotFoundError: [Errno 2] No such file or directory: '/opt/data/cache.idx'\n"
)


def test_an_exception_between_steps_that_go_on_ended_nobody() -> None:
    handled = steps(2, 3) + HANDLED + steps(2, 5).split("\n", 4)[4]
    texts = {r: steps(r, 5) for r in (0, 1, 3)} | {2: handled}
    assert not read(logs(texts)).blamed
    done = {r: f"{text}[rank{r}]: 2026-01-01 10:10:09,000 INFO training finished\n" for r, text in texts.items()}
    assert read(logs(done)).cause == "none"
    left = read(logs(texts | {2: steps(2, 3) + HANDLED}))
    assert (left.cause, left.ranks) == ("raised", "2"), str(left)


def test_a_job_that_dumped_itself_and_made_no_step_since_stands_still() -> None:
    recorded_ranks = [recorded(r).calls(4) for r in range(4)]
    for rank in (0, 1, 3):
        recorded_ranks[rank].call(done=False)
    texts = {r: steps(r, 5) + own_dump(r) for r in range(4)}
    ruling = read(dumps(*recorded_ranks) | logs(texts))
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "2"), str(ruling)
    assert read(logs(texts)).cause == "undetermined"


def test_a_job_that_dumped_itself_and_went_on_does_not() -> None:
    recorded_ranks = [recorded(r).calls(4) for r in range(4)]
    for rank in (0, 1, 3):
        recorded_ranks[rank].call(done=False)
    went_on = {
        r: steps(r, 5) + own_dump(r) + f"[rank{r}]: 2026-01-01 10:10:30,000 INFO step=6 loss=2.0\n" for r in range(4)
    }
    assert read(dumps(*recorded_ranks) | logs(went_on)).cause == "none"


def test_the_last_words_of_a_rank_and_the_connections_that_its_peers_lost_make_it_certain() -> None:
    own = "[rank2]: 2026-01-01 10:10:06,000 ERROR ValueError: no such expert\n" + raised(
        2, "ValueError", "no such expert"
    ).replace("[rank2]: ", "")
    lost = {
        r: f"[rank{r}]: 2026-01-01 10:10:06,100 ERROR RuntimeError: {CLOSED}\n" + raised(r, "RuntimeError", CLOSED)
        for r in (0, 1, 3)
    }
    ruling = read(logs({r: steps(r, 5) + text for r, text in (lost | {2: own}).items()}))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("raised", "2", "high"), str(ruling)
    waited = {r: steps(r, 5) + raised(r, "RuntimeError", VAIN) for r in (0, 1, 3)}
    assert read(logs(waited | {2: steps(2, 5) + own})).sure <= 2


ABORTED = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /pytorch/"
    "third_party/gloo/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 32 vs 8. Received data size "
    "doesn't match expected size. Is there a distributed collective mismatch in your code?\n"
)


def aborted(*without: int, size: int = 4, by: int | None = None) -> Ruling:
    """All dumps that are left agree on the last call, and a library got a size that it did not expect, on rank ``by``."""
    by = without[0] if by is None else by
    recorded_ranks = [recorded(r, world(size)).calls(6) for r in range(size) if r not in without]
    texts = {r: steps(r, 5) + (ABORTED if r == by else raised(r, "RuntimeError", CLOSED)) for r in range(size)}
    return read(dumps(*recorded_ranks) | logs(texts))


def test_where_all_others_agree_the_one_without_a_dump_issued_another_size() -> None:
    ruling = aborted(3)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("size-mismatch", "3", "medium"), str(ruling)


def test_two_that_agree_suffice_where_the_third_itself_got_the_wrong_size() -> None:
    ruling = aborted(2, size=3)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("size-mismatch", "2", "medium"), str(ruling)
    assert aborted(2, size=3, by=0).ranks == ""
    assert aborted(1, size=2).ranks == ""


def test_of_two_without_a_dump_either_may_have() -> None:
    assert aborted(3, 2).ranks == ""


def test_a_dump_right_behind_the_last_step_is_how_a_job_ends() -> None:
    recorded_ranks = [recorded(r).calls(4) for r in range(4)]
    ended = {r: steps(r, 5) + own_dump(r).replace("10:10:20,000", "10:10:05,400") for r in range(4)}
    assert read(dumps(*recorded_ranks) | logs(ended)).cause == "none"


def test_members_of_a_part_that_agree_may_merely_wait_for_the_one_without_a_dump() -> None:
    """Rank 0 aborted over the size of 1 in their pair; the others wait for it in a group of their own and agree there."""
    pair, rest = Team("1", "tp", (0, 1)), Team("2", "dp", (0, 2, 3, 4))
    recorded_ranks = [recorded(r, world(5), pair, rest).calls(4) for r in range(1, 5)]
    for one in recorded_ranks:
        one.call(team=one.teams[1], n=96 if one.rank == 1 else 8)
    texts = {r: raised(r, "RuntimeError", CLOSED) for r in range(1, 5)}
    assert "0" not in read(dumps(*recorded_ranks) | logs(texts | {0: ABORTED})).ranks


def test_calls_that_are_all_done_prove_nothing_beside_logs_without_an_end() -> None:
    """The ranks may stand where no call is recorded: at the store, in a monitored barrier, in their data."""
    recorded_ranks = [recorded(r).calls(4) for r in range(4)]
    assert read(dumps(*recorded_ranks) | logs({r: steps(r, 5) for r in range(4)})).cause == "undetermined"
    done = {r: steps(r, 5) + f"[rank{r}]: 2026-01-01 10:10:06,000 INFO training finished\n" for r in range(4)}
    assert read(dumps(*recorded_ranks) | logs(done)).cause == "none"
