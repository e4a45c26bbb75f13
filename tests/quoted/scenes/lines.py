"""Jobs of which watchdogs, gloo, launchers and progress bars tell, and no recorder."""

from __future__ import annotations

from random import Random

from builders.jobs.verdicts import gave_up, step_line, told_to_dump, torchrun
from builders.logs.lines import caught, old_watchdog
from quoted.jobs import Quoted, scene

VAIN = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 9000ms for recv operation to complete"
WRONG_SIZE = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /pytorch/third_party/gloo/"
    "gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. {got} vs {expected}. Received data size doesn't match expected "
    "size.\n"
)
CLOSED = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:22930: Connection reset by peer"
)
PRINT = "CollectiveFingerPrint(SequenceNumber={seq}, OpType={op}, TensorShape=[{shape}], TensorDtypes=Float, TensorDeviceTypes=cuda)"


def in_vain(rank: int, line: int, code: str, error: str = VAIN, *, step: int = 3, said: str = "") -> str:
    """A step of a rank, and then the traceback of a call in which it lost a peer."""
    rows = (
        "Traceback (most recent call last):",
        '  File "/opt/train/train.py", line 90, in <module>',
        "    main()",
        f'  File "/opt/train/train.py", line {line}, in main',
        f"    {code}",
        '  File "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", line 83, in wrapper',
        "    return func(*args, **kwargs)",
        f"RuntimeError: {error}",
    )
    told = f"[rank{rank}]: 2026-01-01 10:10:{step:02d},000 INFO step={step} loss=2.0\n{said}"
    return told + "".join(f"[rank{rank}]: {row}\n" for row in rows)


def sized(world: int, texts: dict[int, str]) -> dict[str, str | bytes]:
    """A log of each rank, and a file that tells how many there are."""
    return {**{f"logs/rank_{r}.log": text for r, text in texts.items()}, "logs/env.log": f"export WORLD_SIZE={world}\n"}


@scene("signs/traceback_diffs.judge: disagree.apart-in-program")
def barrier_of_one(rng: Random) -> Quoted:
    """gloo: one rank came to a barrier, all others to a reduction."""
    world = rng.choice([4, 6, 8])
    odd, line = rng.randrange(world), rng.randrange(20, 60)
    places = {r: (line + 14, "dist.barrier()") if r == odd else (line, "dist.all_reduce(loss)") for r in range(world)}
    return Quoted("op-mismatch", (odd,), sized(world, {r: in_vain(r, *place) for r, place in places.items()}))


@scene("signs/traceback_diffs.judge_size_complaint: headline")
def sizes_of_two_calls(rng: Random) -> Quoted:
    """gloo: a rank got a message of a wrong size, for it broadcasts where all others reduce."""
    world = rng.choice([4, 6])
    odd = rng.randrange(1, world)
    texts = {r: in_vain(r, 38, "dist.all_reduce(loss)", CLOSED) for r in range(world) if r != odd}
    texts[odd] = in_vain(odd, 44, "dist.broadcast(state, 0)", CLOSED)
    first = min(r for r in range(world) if r != odd)
    texts[first] = texts[first] + WRONG_SIZE.format(got=4 * rng.randrange(200, 2000), expected=4)
    return Quoted("op-mismatch", (odd,), sized(world, texts))


@scene("observations.ObservedStall.conclude_quiet: key", "doubts.only-silence")
def quiet_host(rng: Random) -> Quoted:
    """gloo: all ranks of one host gave up, those of the other print nothing."""
    half, step = rng.choice([2, 4]), rng.randrange(3, 9)
    files: dict[str, str | bytes] = {
        f"node0/rank_{r}.log": in_vain(r, 61, "loss = step(batch)", step=step) for r in range(half)
    }
    files |= {f"node1/rank_{r}.log": step_line(r, step, f"10:10:0{step}") for r in range(half, 2 * half)}
    return Quoted("not-arrived", tuple(range(half, 2 * half)), files)


@scene(
    "rules/disagree/missed_call._left_out_a_batch: disagree.left-out-batch",
    "doubts.next-call-unnamed",
)
def left_out_batch(rng: Random) -> Quoted:
    """gloo: one rank leaves out a batch, and all give up."""
    world = rng.choice([4, 6])
    odd, batch = rng.randrange(world), rng.randrange(9, 90)
    said = f"[rank{odd}]: WARNING skipping batch {batch}: bad sample {batch + 7} in shard-3\n"
    texts = {r: in_vain(r, 61, "loss = step(batch)", step=4, said=said if r == odd else "") for r in range(world)}
    return Quoted("missed-call", (odd,), {f"logs/rank_{r}.log": text for r, text in texts.items()})


@scene("rules/absent/not_arrived._named_by_report: absent.never-reached or absent.never-reached-by-report")
def monitored_barrier(rng: Random) -> Quoted:
    """PyTorch's monitored barrier names who did not come."""
    rank = rng.randrange(1, 8)
    absent = (rank, rank + 1) if rng.random() < 0.5 else (rank,)
    named = f"Ranks {rank}, {rank + 1}" if len(absent) > 1 else f"Ranks {rank}"
    line = f"RuntimeError: [Rank 0]: {named} failed to pass monitoredBarrier in {rng.choice([30, 600])}000 ms\n"
    return Quoted("not-arrived", absent, {"log.txt": "world_size=10\n" + line})


@scene("doubts.most-outside")
def most_are_missing(rng: Random) -> Quoted:
    """PyTorch's analyser lists most members of a group as missing: they may be right and the others wrong."""
    world, seq = rng.choice([6, 8]), rng.randrange(9, 99)
    missing = ", ".join(map(str, range(2, world)))
    text = (
        f"Not all ranks joining collective, sequence number: {seq}\ninternal record id: 41\ngroup info: 0:default_pg\n"
        f"collective: nccl:all_reduce\nmissing ranks: {{{missing}}}\ninput sizes: [[64]]\noutput sizes: [[64]]\nworld size: {world}\n"
        f"expected ranks: {{{', '.join(map(str, range(world)))}}}\ncollective state: scheduled\n"
    )
    return Quoted("not-arrived", (), {"analysis.txt": text})


@scene("signs/watchdog_diffs._from_analyser: disagree.found-by-analyzer")
def analyser_finds_sizes(rng: Random) -> Quoted:
    """PyTorch's analyser finds two sizes in one call; its culprit merely differs from the first rank."""
    seq, size = rng.randrange(9, 99), 2 ** rng.randrange(5, 9)
    text = (
        f"Collective sequence number: {seq} has errors\ninternal record id: {seq - 1}\ngroup info: 2:mesh_dp\ncollective: nccl:all_reduce\n"
        f"input sizes: [[{size}]]\noutput sizes: [[{size}]]\nworld size: 8\nexpected ranks: {{0, 1, 2, 3}}\ncollective state: scheduled\n"
        f"error msg: Culprit rank {rng.randrange(1, 4)}; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[{size}]]' does not "
        f"match found input sizes: '[[{size // 2}]]'\n"
    )
    return Quoted("size-mismatch", (), {"analysis.txt": text})


@scene(
    "signs/watchdog_diffs._from_fingerprints: disagree.out-of-step or disagree.mismatch-in-line",
    "doubts.only-the-library-says",
)
def fingerprints(rng: Random) -> Quoted:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: several ranks report that one rank runs a different operation."""
    world, seq = rng.choice([4, 6]), rng.randrange(3, 90)
    odd = rng.randrange(1, world)
    mine, theirs = (PRINT.format(seq=seq, op=op, shape=8) for op in ("BROADCAST", "ALLREDUCE"))
    line = (
        "[rank{r}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running collective: {theirs}, but Rank "
        "{odd} is running collective: {mine}.Collectives differ in the following aspects:   Op type: ALLREDUCEvs BROADCAST\n"
    )
    others = [r for r in range(world) if r != odd]
    return Quoted(
        "op-mismatch",
        (odd,),
        {"log.txt": "".join(line.format(r=r, odd=odd, mine=mine, theirs=theirs) for r in others)},
    )


@scene("doubts.only-the-library-says")
def cut_fingerprint(rng: Random) -> Quoted:
    """The same line, cut before the difference."""
    seq, first = rng.randrange(3, 90), rng.randrange(3)
    one = f"CollectiveFingerPrint(SequenceNumber={seq}, OpType=BROADCAST, TensorShape=[20, 10], TensorDtypes=Long)"
    line = (
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {first} is running collective: {one}, but Rank {first + 1} is "
        f"running collective: CollectiveFingerPrint(SequenceNumber={seq}, OpType=BROADCAST, TensorShape=[20"
    )
    return Quoted("op-mismatch", (), {"log.txt": line})


@scene("rules/absent/not_arrived._nothing_outstanding: absent.not-in-timed-out-call")
def nothing_outstanding(rng: Random) -> Quoted:
    """The one log that was read is of a rank that another one told to dump, and that has nothing outstanding."""
    rank = rng.randrange(2, 8)
    return Quoted("not-arrived", (rank,), {"log.txt": told_to_dump(rank, rng.randrange(2), rng.randrange(40, 900))})


@scene("rules/absent/not_arrived._at_prompt: absent.at-prompt")
def debugger(rng: Random) -> Quoted:
    """A breakpoint in a log of several ranks: nobody complains yet."""
    world = rng.choice([4, 8])
    rank, last = rng.randrange(world), rng.randrange(3, 9)
    texts = {
        r: "".join(f"[rank{r}]: 2026-01-01 10:10:0{n},000 INFO step={n} loss=2.0\n" for n in range(1, last + 1))
        for r in range(world)
    }
    texts[rank] += (
        f"[rank{rank}]: > /srv/job/train.py(61)main()\n[rank{rank}]: -> loss = step(batch)\n[rank{rank}]: (Pdb) \n"
    )
    return Quoted("not-arrived", (rank,), sized(world, texts))


@scene("rules/disagree/counters_apart._out_of_step: disagree.counted-apart")
def counted_apart(rng: Random) -> Quoted:
    """Two watchdogs of a group: one waits in a gather that the other counts as done."""
    seq = rng.randrange(20, 800)
    lines = []
    for rank, number in ((0, seq), (3, seq + 2)):
        head = f"[rank{rank}]:[E1104 05:06:07.{rank}00000000 ProcessGroupNCCL.cpp"
        lines.append(f"{head}:607] {caught(rank, number, '_ALLGATHER_BASE', numel=64, numel_out=256)}\n")
        lines.append(
            f"{head}:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout) detected by watchdog at "
            f"work: {number}, last enqueued NCCL work: {seq + 9}, last completed NCCL work: {number - 1}.\n"
        )
    return Quoted("missed-call", (), {"log.txt": "".join(lines)})


@scene("rules/absent/died._left_early: key")
def exited_with_0(rng: Random) -> Quoted:
    """Slurm: a rank ended with 0 while all others wait for it."""
    world, seq = 4, rng.randrange(20, 90)
    rank = rng.randrange(1, world)
    logs: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, seq) for r in range(world) if r != rank}
    logs[f"logs/rank_{rank}.log"] = step_line(rank, seq - 2, "09:59:50")
    first, *others = [r for r in range(world) if r != rank]
    logs["launcher.log"] = torchrun(first, -6, {**dict.fromkeys(others, -15), rank: 0})
    return Quoted("died", (rank,), logs)


@scene(
    "rules/inside/network._lost_way_to_peer: inside.way-to-peer-lost",
    "doubts.adapter-path-or-host",
)
def lost_completion(rng: Random) -> Quoted:
    """NCCL: two ranks lose the same peer over InfiniBand; whose fault it is stays open."""
    ranks, peer = sorted(rng.sample(range(8), 2)), rng.randrange(2, 99)
    text = (
        "[rank{r}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or "
        "there was a network error, NCCL version 2.21.5\n[rank{r}]: ncclRemoteError: A call failed possibly due to a network error or a "
        "remote process exiting prematurely.\n[rank{r}]: Last error:\n[rank{r}]: NET/IB : Got completion from peer "
        "10.4.0.{peer}<418{r}> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_2\n"
    )
    return Quoted("network", (), {"log.txt": "".join(text.format(r=r, peer=peer) for r in ranks)})


@scene("rules/slow/straggler._progress_bar_went_on: slow.bar-moved")
def bar_went_on(rng: Random) -> Quoted:
    """Before PyTorch 1.12: ranks without numbers gave up, and the bar of rank 0 moves on."""
    many, at = rng.choice([2, 3, 7]), rng.randrange(20, 26)
    bar = "  Class  Images:  70% {}/32 [01:03<00:27,  2.76s/it]\n"
    gave = "".join(old_watchdog(r, None, "BROADCAST", limit_ms=60_000, ran_ms=66_412) for r in range(1, many + 1))
    return Quoted("straggler", (0,), {"train.log": "".join(map(bar.format, (at, at + 1))) + gave + bar.format(at + 2)})


@scene("doubts.bar-may-mislead")
def bar_of_two(rng: Random) -> Quoted:
    """The same with one rank that gave up."""
    at, bar = rng.randrange(4, 9), "Images     Labels: 45%|####5     | {}/1809 [30:05<29:59,  1.79s/it]\n"
    text = bar.format(at) + old_watchdog(1, None, "BROADCAST", ran_ms=1_809_156) + bar.format(at + 2)
    return Quoted("straggler", (0,), {"log.txt": text})


@scene(
    "rules/slow/straggler._still_preparing_data: slow.still-preparing",
    "doubts.guessed-wait",
)
def still_tokenising(rng: Random) -> Quoted:
    """One process tokenises for half an hour, just the limit after which another one raises."""
    spent, part = rng.choice(["30:06", "10:02", "30:21"]), rng.randrange(40, 90)
    text = (
        f"Tokenizing corpus (num_proc=12):  {part}%|#######   | {part * 1280}/128000 [{spent}<11:20, 50.3 examples/s]\n"
        'Traceback (most recent call last):\n  File "/home/u/train/run.py", line 88, in <module>\n    main()\n'
        '  File "/home/u/train/run.py", line 61, in main\n    with args.main_process_first():\n'
    )
    return Quoted("straggler", (), {"log.txt": text})


def finished(world: int, ranks: range, last: str = "loss=2.0") -> dict[str, str | bytes]:
    """Logs of ranks that train to the end, and a file that tells how many there are."""
    steps = [f"2026-01-01 10:10:{n:02d},000 INFO step={n} {last if n == 8 else 'loss=2.0'}" for n in range(1, 9)]
    end = "2026-01-01 10:10:09,000 INFO training finished"
    return sized(world, {r: "".join(f"[rank{r}]: {line}\n" for line in (*steps, end)) for r in ranks})


@scene("doubts.left-nothing-behind")
def one_log_was_not_read(rng: Random) -> Quoted:
    """All ranks that were read finished; of one there is nothing."""
    world = rng.choice([4, 8])
    return Quoted("none", (), finished(world, range(world - 1)))


@scene("doubts.few-read")
def few_logs_were_read(rng: Random) -> Quoted:
    """The few ranks that were read finished."""
    world = rng.choice([8, 16])
    return Quoted("none", (), finished(world, range(world // 4)))


@scene("doubts.loss-is-nan")
def finished_without_a_loss(rng: Random) -> Quoted:
    """A job that ended well, and whose loss is no number."""
    world, said = rng.choice([2, 4]), rng.choice(["loss is nan", "Loss is nan, stopping training"])
    return Quoted("none", (), finished(world, range(world), said))


@scene("doubts.caught")
def caught_exception(rng: Random) -> Quoted:
    """One rank logs an exception and ends without another word; all others time out."""
    rank, seq = rng.randrange(4), rng.randrange(20, 90)
    files: dict[str, str | bytes] = {f"logs/rank_{r}.log": gave_up(r, seq) for r in range(4) if r != rank}
    rows = (
        "Traceback (most recent call last):",
        '  File "/srv/job/data.py", line 12, in load',
        "    raise",
        "KeyError: 'caption'",
    )
    logged = "".join(f"2026-01-01 10:00:01,{n:03d} ERROR [rank {rank}] {row}\n" for n, row in enumerate(rows))
    files[f"logs/rank_{rank}.log"] = step_line(rank, seq - 2, "09:59:50") + logged
    return Quoted("raised", (rank,), files)


@scene("doubts.no-rank-on")
def board_of_a_strange_host(rng: Random) -> Quoted:
    """The kernel of a host on which no known rank runs reports a lost GPU, and the ranks of another one time out."""
    seq = rng.randrange(20, 90)
    homes = "".join(
        f"w1:9{r}:9{r} [{r}] NCCL INFO comm 0x5581a8fb rank {r} nranks 4 cudaDev {r} busId 1{r}000 commId 0x1 - Init COMPLETE\n"
        for r in range(4)
    )
    kernel = (
        f"Jan 11 10:05:0{rng.randrange(9)} w7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    )
    return Quoted(
        "hardware", (), {"train.log": homes + "".join(gave_up(r, seq) for r in range(4)), "dmesg-w7.txt": kernel}
    )
