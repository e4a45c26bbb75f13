"""Dumps of gloo alone: a call that failed counts as done, sends leave no record, and a snapshot of a running job is no stall."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from builders.jobs.cases import START, RecordedRank, Team, world
from builders.jobs.verdicts import Ruling, raised, read

FOUR = world(4)
VAIN = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 9000ms for recv operation to complete"


def recorded(rank: int, *teams: Team) -> RecordedRank:
    return RecordedRank(rank, *(teams or (FOUR,)), backend="gloo")


def nameless(one: RecordedRank) -> RecordedRank:
    """As torch writes it on gloo: the configuration says nothing."""
    return one.other(pg_config={"": {"name": "", "desc": "", "ranks": "[]"}})


def dumped(recorded_ranks: Iterable[RecordedRank]) -> Ruling:
    return read({f"fr_trace_{t.rank}": t.data() for t in recorded_ranks})


def logged(recorded_ranks: Iterable[RecordedRank], texts: dict[int, str]) -> Ruling:
    logs: dict[str, str | bytes] = {f"logs/rank_{r}.log": text for r, text in texts.items()}
    return read({f"fr_trace_{t.rank}": t.data() for t in recorded_ranks} | logs)


def step(rank: int, number: int, second: int) -> str:
    return f"[rank{rank}]: 2026-01-01 10:10:{second:02d},000 INFO step={number} loss=2.0\n"


# ---- who lost a peer ended in a call that counts as done


def test_all_that_dumped_ended_in_one_call_so_the_one_without_a_dump_is_missed() -> None:
    ruling = dumped(recorded(r).calls(6) for r in range(3))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("frozen", "3", "low"), str(ruling)
    assert ruling.at == ("ALLREDUCE", 6)


def test_ranks_that_stand_in_different_calls_move() -> None:
    ruling = dumped(recorded(r).calls(6 + r) for r in range(3))
    assert not ruling.blamed, str(ruling)
    assert ruling.cause == "undetermined", "rank 3 left no dump: nothing shows that it is well"


def test_a_last_call_of_its_own_kind_is_the_end_of_a_job() -> None:
    ruling = dumped(recorded(r).calls(6).call("barrier", n=1) for r in range(3))
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    whole = dumped(recorded(r).calls(6).call("barrier", n=1) for r in range(4))
    assert (whole.cause, whole.verdict["confidence"]) == ("none", "low"), str(whole)


def test_half_of_the_dumps_tell_nothing_of_the_other_half() -> None:
    assert dumped(recorded(r).calls(6) for r in range(2)).ranks == ""


def test_a_receiver_that_got_more_than_it_expected_is_gone_and_not_to_blame() -> None:
    recorded_ranks = [recorded(r).calls(5).call("all_to_all", n=12 if r == 1 else 8).call() for r in range(3)]
    assert dumped(recorded_ranks).ranks == ""


def test_a_call_that_a_member_never_issued_cannot_have_ended() -> None:
    """Rank 2 left; 3 lost it in their pair, and 1 waits for 3, which is no less a victim."""
    pairs, rows = [Team("1", "tp", (0, 1)), Team("2", "tp", (2, 3))], [Team("3", "dp", (0, 2)), Team("4", "dp", (1, 3))]
    recorded_ranks = []
    for rank in range(4):
        pair, row = pairs[rank // 2], rows[rank % 2]
        one = recorded(rank, FOUR, pair, row)
        for _ in range(4):
            one.call(team=pair).call(team=row)
        if rank != 2:
            one.call(team=pair)
        if rank < 2:
            one.call(team=row, done=False)
        recorded_ranks.append(one)
    ruling = dumped(recorded_ranks)
    assert ruling.ranks == "2", str(ruling)


def test_who_ended_beside_a_rank_without_a_dump_is_not_named() -> None:
    """Two of four dumps of a group are missing; the others wait for those two that ended in its last call."""
    low, high = Team("1", "ep", (0, 1, 2, 3)), Team("2", "ep", (4, 5, 6, 7))
    recorded_ranks = []
    for rank in (0, 1, 2, 3, 5, 7):
        mine = low if rank < 4 else high
        one = recorded(rank, world(8), mine)
        for _ in range(3):
            one.calls(2, team=mine).call()
        one.calls(2, team=mine)
        recorded_ranks.append(one.call(done=False) if rank < 4 else one)
    ruling = dumped(recorded_ranks)
    assert not ruling.blamed & {5, 7}, str(ruling)


# ---- sends leave no record


@pytest.mark.parametrize("jitter", [0, 6])
def test_of_stages_that_wait_for_each_other_the_silent_one_came_first_in_its_own_order(jitter: int) -> None:
    """Two stages of two pairs. Rank 6 is gone; 2 and 3 wait for a gradient that no recorder notes.

    The clock does not tell which call of rank 6 comes first: ranks of other pairs come to theirs when they like.
    """
    pairs = [Team(str(i + 1), "tp", (2 * i, 2 * i + 1)) for i in range(4)]
    rows = [Team(str(i + 5), "dp", m) for i, m in enumerate([(0, 2), (1, 3), (4, 6), (5, 7)])]
    recorded_ranks = []
    for rank in (0, 1, 2, 3, 4, 5, 7):
        pair = pairs[rank // 2]
        row = next(t for t in rows if rank in t.members)
        one = recorded(rank, world(8), pair, row)
        front = rank < 4

        def at(offset: float, now: int, rank: int = rank) -> dict[str, int]:
            return {"time_created_ns": int((START + 20 * now + offset) * 1e9) + rank}

        for now in range(4):
            early = jitter if rank in (4, 5) and now % 2 else 0
            one.call(team=pair, n=16, **at(1 if front else 7 - early, now))
            one.call(team=pair, n=24, **at(12 if front else 8 - early, now))
            one.call(team=row, n=64, **at(13 - early, now)).call(n=1, **at(15, now))
        one.call(team=pair, n=16, **at(1 if front else 7, 4))
        if rank in (0, 1, 4, 5):
            one.call(team=pair, n=24, **at(12 if front else 8, 4))
            one.call(team=row, n=64, done=rank == 4, **at(13, 4))
        recorded_ranks.append(one)
    ruling = dumped(recorded_ranks)
    assert (ruling.ranks, ruling.verdict["confidence"]) == ("6", "low"), str(ruling)


def test_half_of_a_group_is_not_blamed_where_only_dumps_of_gloo_speak() -> None:
    ruling = dumped(recorded(r).calls(4) if r < 2 else recorded(r).calls(4).call(done=False) for r in range(4))
    assert (ruling.ranks, ruling.verdict["suspects"], ruling.verdict["confidence"]) == ("", "0-1", "low"), str(ruling)


def test_a_rank_beyond_the_last_one_heard_fills_a_pair() -> None:
    """Seven of eight dumps, and no word of how many there are: the fourth pair lacks its second member."""
    pairs = [Team(str(i + 1), "tp", (2 * i, 2 * i + 1)) for i in range(4)]
    recorded_ranks = []
    for rank in range(7):
        one = nameless(recorded(rank, world(8), pairs[rank // 2]))
        for _ in range(4):
            one.call(team=pairs[rank // 2]).call()
        one.call(team=pairs[rank // 2], done=rank != 6)
        recorded_ranks.append(one.call(done=False) if rank != 6 else one)
    ruling = dumped(recorded_ranks)
    assert (ruling.ranks, ruling.document["job"]["world_size"]) == ("7", 8), str(ruling)


# ---- dumps that somebody took by hand


def apart() -> list[RecordedRank]:
    """Two groups without common members, and in each of them one rank that the others wait for."""
    halves = Team("1", "shard", (0, 1, 2, 3)), Team("2", "shard", (4, 5, 6, 7))
    return [recorded(r, world(8), halves[r // 4]).calls(6 + (r % 4 != 3), team=halves[r // 4]) for r in range(8)]


def test_standstills_that_have_nothing_in_common_are_calls_in_flight() -> None:
    recorded_ranks = apart()
    for one in recorded_ranks:
        if one.rank % 4 != 3:
            one.entries[-1]["retired"] = False
    ruling = dumped(recorded_ranks)
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), "open calls, and no log that shows an end"


def late() -> list[RecordedRank]:
    """Rank 2 of four is missing from the last call."""
    return [recorded(r).calls(4) if r == 2 else recorded(r).calls(4).call(done=False) for r in range(4)]


def test_quiet_logs_do_not_make_a_job_that_stands_a_running_one() -> None:
    ruling = logged(late(), {r: step(r, 3, 1) for r in range(4)})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("not-arrived", "2", "low"), str(ruling)


def test_a_bar_that_reached_its_end_does() -> None:
    bar = " 97%|█████████▋| 39/40 [00:08<00:00, 33.33it/s]\r100%|██████████| 40/40 [00:09<00:00, 33.33it/s]\n"
    assert logged(late(), {0: "epoch 0: loss 2.1\n" + bar}).cause == "none"


def test_a_full_bar_of_something_that_nobody_names_does_not() -> None:
    bar = "100%|██████████| 2/2 [00:05<00:00,  2.10s/it]\n"
    assert logged(late(), {0: bar}).ranks == "2"


def test_a_step_of_a_rank_inside_the_call_does() -> None:
    when = START + 90  # in the middle of a quarter of an hour, whatever the zone
    stamp = f"2026-05-28 {when // 3600 % 24:02d}:{when // 60 % 60:02d}:{when % 60:02d}"
    assert logged(late(), {0: f"[rank0]: {stamp},000 INFO step=9 loss=2.0\n"}).cause == "none"


# ---- some dumps and all logs


def test_who_alone_did_not_give_up_is_named_although_most_dumps_are_lost() -> None:
    halves = Team("1", "ep", (0, 1, 2, 3)), Team("2", "ep", (4, 5, 6, 7))
    recorded_ranks = []
    for rank in (0, 4):
        one = nameless(recorded(rank, world(8), halves[rank // 4])).calls(4, team=halves[rank // 4])
        recorded_ranks.append(one.call(done=False) if rank == 0 else one.call(team=halves[1], done=False))
    texts = {r: step(r, 3, 1) + raised(r, "RuntimeError", VAIN) for r in range(8)}
    texts[5] = step(5, 3, 1) + "2026-01-01 10:10:02,000 WARNING [rank 5] retrying in 60 s\n"
    ruling = logged(recorded_ranks, texts)
    assert ruling.ranks == "5", str(ruling)


# ---- a run of calls skipped, and an error that every rank repeats


def test_a_whole_run_of_calls_left_out_is_a_skip_and_no_other_order() -> None:
    """Rank 1 goes to the loss from its usual place without the three exchanges before it."""
    lines = {
        name: [(name, "/opt/train/train.py", at)] for at, name in enumerate(("route", "there", "back", "loss"), 30)
    }
    group = Team("1", "ep", (0, 1, 2, 3))
    recorded_ranks = []
    for rank in range(4):
        one = recorded(rank, FOUR, group)
        for now in range(5):
            for name in ("route", "there", "back") if now < 4 or rank != 1 else ():
                frames = [{"name": n, "filename": f, "line": at} for n, f, at in lines[name]]
                one.call("all_to_all", group, frames=frames, done=now < 4)
                if now == 4:
                    break
            else:
                frames = [{"name": n, "filename": f, "line": at} for n, f, at in lines["loss"]]
                one.call(frames=frames, done=now < 4)
        recorded_ranks.append(one)
    ruling = dumped(recorded_ranks)
    assert (ruling.cause, ruling.ranks, ruling.at[1]) == ("missed-call", "1", 13), str(ruling)


def test_a_checkpoint_that_failed_on_one_rank_is_raised_on_all_and_its_own() -> None:
    def told(rank: int) -> str:
        rows = (
            "Traceback (most recent call last):",
            '  File "/opt/train/train.py", line 42, in save',
            "    dcp.save(state, storage_writer=writer)",
            "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([2])",
            "Traceback (most recent call last): (RANK 2)",
            '  File "/opt/train/train.py", line 34, in write_data',
            "    raise OSError(28, path)",
            "OSError: [Errno 28] No space left on device: 'ckpt/__2_0.distcp'",
        )
        return step(rank, 3, 1) + "".join(f"[rank{rank}]: {row}\n" for row in rows)

    ruling = read({f"logs/rank_{r}.log": told(r) for r in range(4)})
    assert (ruling.cause, ruling.ranks) == ("raised", "2"), str(ruling)


def test_logs_that_just_stop_are_no_sign_of_health() -> None:
    texts: dict[str, str | bytes] = {
        f"logs/rank_{r}.log": "".join(step(r, n, n) for n in range(1, 5)) for r in range(4)
    }
    assert read(texts).cause == "undetermined", "a job that stands leaves the same lines"
    done = {path: f"{text!s}2026-01-01 10:10:09,000 INFO training finished\n" for path, text in texts.items()}
    assert read({**done}).verdict["confidence"] != "low"


# ---- lines alone


def gave_up(rank: int, said: str = "") -> str:
    return step(rank, 4, 5) + said + raised(rank, "RuntimeError", VAIN)


def test_the_one_rank_that_left_out_a_batch_is_a_call_behind() -> None:
    left_out = "[rank2]: WARNING skipping batch 17: bad sample 90 in shard-3\n"
    texts = {r: gave_up(r, left_out if r == 2 else "") for r in range(4)}
    ruling = logged([], texts)
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("missed-call", "2", "medium"), str(ruling)
    both = logged([], texts | {1: gave_up(1, left_out.replace("rank2", "rank1"))})
    assert not both.blamed, "two ranks left out a batch"
    after = logged([], {r: gave_up(r) + (left_out if r == 2 else "") for r in range(4)})
    assert not after.blamed, "it followed the stall"


def test_the_ranks_of_one_quiet_host_are_named_though_they_are_half_of_the_job() -> None:
    quiet = {f"node1/rank_{r}.log": step(r, 4, 5) for r in (2, 3)}
    ruling = read({f"node0/rank_{r}.log": gave_up(r) for r in (0, 1)} | quiet)
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "2-3"), str(ruling)
    mixed = {f"node{r % 2}/rank_{r}.log": gave_up(r) if r < 2 else step(r, 4, 5) for r in range(4)}
    assert not read(mixed).blamed, "each host has a rank that gave up"


# ---- a wait whose limit is over closes the other waits of its own process


@pytest.mark.parametrize(("silent", "closed"), [(1, 3), (0, 2), (3, 0)])
def test_a_closed_pair_is_a_wait_until_the_limit_and_no_lost_peer(silent: int, closed: int) -> None:
    """``Application timeout caused pair closure``: another wait of the same process timed out (gloo ``unbound_buffer.cc``)."""
    start = "".join(f"[rank{r}]: 2026-01-01 10:10:01,000 INFO world_size=4 rank={r}\n" for r in range(4))
    steps = "".join(step(r, number, 2 + number) for number in range(4) for r in range(4))
    texts = {r: "Application timeout caused pair closure" if r == closed else VAIN for r in range(4) if r != silent}
    order = [closed, *(r for r in texts if r != closed)]
    errors = "".join(raised(r, "RuntimeError", texts[r]) for r in order)
    ruling = read({"train.log": start + steps + errors})
    assert ruling.ranks == str(silent), str(ruling)
    assert ruling.cause in ("not-arrived", "frozen"), str(ruling)
