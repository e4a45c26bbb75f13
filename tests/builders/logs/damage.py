"""Logs damaged as collectors damage them, with what a reader must still find in them.

``python tests/builders/logs/damage.py [--seeds 0-19] [-v]`` prints how many records survive each kind of damage. Every log is
made from a seed, so that a failure can be repeated.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the folder tests/, also when run as a script

from builders.logs.lines import caught

from nccldoctor.events import Event
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.engine.scan import scan

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """One line of a log: who wrote it, its text without the launcher's prefix, the records in it."""

    rank: int
    text: str
    keys: tuple[Key, ...] = ()


FIELDS = {
    "collective-timeout": ("op", "seq", "numel_in", "numel_out", "timeout_ms", "ran_ms"),
    "work-status": ("failed", "last_enqueued", "last_completed"),
    "dump-signal": ("from_rank", "last_enqueued", "last_completed"),
    "heartbeat-stuck": ("seconds",),
    "ib-error": ("peer", "status", "vendor_err"),
    "socket-error": ("peer", "how"),
    "nccl-error": ("code",),
    "monitored-barrier": ("missing",),
    "store-error": ("operation",),
    "out-of-memory": ("scope",),
}
"""What makes two records of a kind the same, beside who wrote them."""


def key_of(event: Event) -> Key:
    """The fields of an event that damage must neither lose nor change."""
    owner = event.host if event.kind == "ib-error" else event.rank
    return (event.kind, owner, *(str(getattr(event, name)) for name in FIELDS[event.kind]))


def job(rng: random.Random, ranks: int = 6) -> list[Written]:
    """The lines of a job that hangs, in the order of their times, rank after rank in each second."""
    out: list[Written] = []
    for step in range(4):
        out += [Written(r, f"INFO train: step={step} loss=0.{rng.randrange(1000):03d}") for r in range(ranks)]
    for second in range(ranks):
        out += _stalled(rng, second)
        others = [r for r in range(ranks) if r != second]
        out += [Written(r, rng.choice(_CHATTER)) for r in rng.sample(others, 2)]
    return out


_CHATTER = (
    "INFO data: shard 12 of 64 opened, 4096 samples",
    "WARNING train: slow batch, 3.1 s",
    "INFO train: saving metrics to run/metrics.jsonl",
)


def _stalled(rng: random.Random, rank: int) -> list[Written]:
    """The lines of one rank whose watchdog gives up, in the wordings of several releases."""
    seq, more = rng.randrange(2, 90_000), rng.randrange(0, 4)
    op = rng.choice(("ALLREDUCE", "_ALLGATHER_BASE", "REDUCE_SCATTER", "BROADCAST"))
    size, limit = rng.randrange(1, 1 << 30), rng.choice((600_000, 1_800_000))
    ran = limit + rng.randrange(1, 900)
    c10 = f"[rank{rank}]:[E417 03:28:{rank:02d}.{rng.randrange(10**9):09d} ProcessGroupNCCL.cpp"
    group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    timeout = caught(rank, seq, op, numel=size, limit_ms=limit, ran_ms=ran)
    peer = f"10.0.{rng.randrange(250)}.{rng.randrange(250)}"
    nccl = f"node{rank}:{4000 + rank}:{5000 + rank} [{rank}] transport/net_ib.cc:1023 NCCL WARN NET/IB: Got completion from peer"
    status, vendor = rng.choice((4, 9, 12)), rng.choice((129, 136, 249))
    counters = f"last enqueued work: {seq + more}, last completed work: {seq - 1}"
    enqueued = f"Last enqueued NCCL work: {seq + more}, last completed NCCL work: {seq - 1}."
    everything = [
        Written(
            rank, f"{c10}:632] {timeout}",
            (("collective-timeout", rank, op, *map(str, (seq, size, size, limit, ran))),),
        ),
        Written(
            rank, f"{c10}:2268] {group}  failure detected by watchdog at work sequence id: {seq} PG status: {counters}",
            (("work-status", rank, str(seq), str(seq + more), str(seq - 1)),),
        ),
        Written(
            rank,
            f"{c10}:1743] {group} Received a dump signal due to a collective timeout from  rank {rank ^ 1} and we will try our "
            f"best to dump the debug info. {enqueued}This is most likely caused by incorrect usages of collectives",
            (("dump-signal", rank, str(rank ^ 1), str(seq + more), str(seq - 1)),),
        ),
        Written(
            rank,
            f"{c10}:1870] {group} ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring "
            "enqueued collectives. This typically indicates a NCCL/CUDA API hang blocking the watchdog",
            (("heartbeat-stuck", rank, "480"),),
        ),
        Written(
            rank,
            f"{nccl} {peer}<4771> with status={status} opcode=0 len=0 vendor err {vendor} (Send) localGid fe80::{rank + 1:x} "
            f"remoteGidsfe80::{rank + 9:x} hca mlx5_{rank}",
            (("ib-error", f"node{rank}", peer, str(status), str(vendor)),),
        ),
    ]  # fmt: skip
    return sorted(rng.sample(everything, 4), key=everything.index)


# -- what collectors do; each takes the lines of a job and gives the bytes of a log

Damage = Callable[[random.Random, Sequence[Written]], bytes]


def whole(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """No damage: what the others are measured against."""
    return _joined(_prefixed(line) for line in lines)


def cut(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Records cut once at any place, the rest without a prefix, up to three lines of others between the halves."""
    return _joined(_cut(rng, lines, again=False))


def cut_labelled(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """The same below a collector that puts its prefix in front of both halves."""
    return _joined(_cut(rng, lines, again=True))


def cut_crossed(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """The same where what stands between the halves may be records of other ranks, whole ones."""
    return _joined(_cut(rng, lines, again=False, records=True))


def cut_crossed_labelled(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Both: records of others between the halves, and a prefix in front of each."""
    return _joined(_cut(rng, lines, again=True, records=True))


def cut_by_pods(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Cut below ``kubectl logs --prefix --timestamps``: pod and time stand in front of both halves."""
    return _joined(_cut(rng, lines, again=True, label=lambda r: f"[pod/job-{r}/pytorch] 2026-04-17T03:28:{r:02d}.5Z "))


def cut_by_tasks(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Cut below ``srun --label``."""
    return _joined(_cut(rng, lines, again=True, label=lambda r: f"{r}: "))


def cut_by_actors(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Cut below Ray, which names the actor of both halves."""
    return _joined(_cut(rng, lines, again=True, label=lambda r: f"(Worker pid={4000 + r}, ip=10.1.0.{r}) "))


Label = Callable[[int], str]


def _cut(
    rng: random.Random, lines: Sequence[Written], again: bool, records: bool = False, label: Label | None = None
) -> list[str]:
    label = label or (lambda rank: f"[default{rank}]:")
    out: list[str] = []
    todo = list(lines)
    while todo:
        line = todo.pop(0)
        front = label(line.rank)
        text = front + line.text
        if not line.keys or rng.random() < 0.5:
            out.append(text)
            continue
        at = rng.randrange(len(front) + 1, len(text) - 1)  # a launcher writes its own prefix in one piece
        between = [t for t in todo[:12] if t.rank != line.rank and (records or not t.keys)][: rng.randrange(4)]
        out += [text[:at], *(label(t.rank) + t.text for t in between), (front if again else "") + text[at:]]
        todo = [t for t in todo if not any(t is b for b in between)]
    return out


def broken_off(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Cuts the end off records for good, as a collector with a line limit does. The rest must not pass for a whole record."""
    out = []
    for line in lines:
        text = _prefixed(line)
        at = rng.randrange(len(text) // 2, len(text)) if line.keys and rng.random() < 0.5 else len(text)
        out.append(text[:at])
    return _joined(out)


def wrapped(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Wrapped at 80 columns, nothing in front of what continues."""
    return _joined(part for line in lines for part in _pieces(_prefixed(line), 80))


def wrapped_labelled(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Wrapped at 80 columns below the collector: its prefix stands in front of every piece."""
    return _joined(f"[default{line.rank}]:{part}" for line in lines for part in _pieces(line.text, 80))


def wrapped_at_blanks(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Broken by an editor: at blanks, which are lost; now and then with an indent."""
    width, indent = rng.choice((80, 100, 120)), rng.choice(("", "    "))
    fill = textwrap.TextWrapper(width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return _joined(part for line in lines for part in fill.wrap(_prefixed(line)))


def wrapped_in_a_quote(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Wrapped by a terminal, then quoted in an issue."""
    width = rng.choice((60, 80, 100, 132))
    return _joined(f"> {part}" for line in lines for part in _pieces(_prefixed(line), width))


def encoded_utf16(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Saved by an editor as UTF-16, with Windows line ends."""
    return whole(rng, lines).decode().replace("\n", "\r\n").encode(rng.choice(("utf-16", "utf-16-le", "utf-16-be")))


def encoded_bom(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """UTF-8 with a mark in front and Windows line ends, colours as terminals write them."""
    text = "\r\n".join(f"\x1b[31m{_prefixed(line)}\x1b[0m" for line in lines)
    return (text + "\r\n").encode("utf-8-sig")


def encoded_latin(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Read as Latin-1 and saved again: progress bars turn to rubbish, and stand in front of records."""
    bar = "Epoch 0:  12%|█▎        | 10/80 [00:10<01:10,  1.00s/it]"
    rubbish = bar.encode().decode("latin-1")
    text = "".join(f"{rubbish}\r{_prefixed(line)}\n" if line.keys else f"{_prefixed(line)}\n" for line in lines)
    return text.encode("utf-8")


def doubled(rng: random.Random, lines: Sequence[Written]) -> bytes:
    """Two collectors, each with its prefix and its time."""
    out = []
    for line in lines:
        stamp = f"2026-04-17T03:28:{line.rank:02d}.123456789Z"
        out.append(
            rng.choice((
                f"[default{line.rank}]:[default{line.rank}]:{line.text}",
                f"[pod/job-worker-{line.rank}/pytorch] {stamp} {stamp} {line.text}",
                f"{stamp} stderr F [default{line.rank}]:{line.text}",
                f"{line.rank}: {line.rank}: {line.text}",
            ))
        )  # fmt: skip
    return _joined(out)


DAMAGES: dict[str, Damage] = {
    made.__name__: made
    for made in (
        whole, cut, cut_labelled, cut_crossed, cut_crossed_labelled, cut_by_pods, cut_by_tasks, cut_by_actors, broken_off,
        wrapped, wrapped_labelled, wrapped_at_blanks, wrapped_in_a_quote, encoded_utf16, encoded_bom, encoded_latin, doubled
    )
}  # fmt: skip


def _prefixed(line: Written) -> str:
    return f"[default{line.rank}]:{line.text}"


def _pieces(text: str, width: int) -> list[str]:
    return [text[i : i + width] for i in range(0, len(text), width)]


def _joined(lines: object) -> bytes:
    return ("\n".join(lines) + "\n").encode()  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Counts of one damaged log: records lost, records read in part without a mistake, and records invented."""

    wanted: int
    lost: tuple[Key, ...]
    partial: tuple[Key, ...]
    invented: tuple[Key, ...]


def outcome(damage: str, seed: int) -> Outcome:
    """One damaged log, read."""
    rng = random.Random(f"{damage} {seed}")
    lines = job(rng)
    content = DAMAGES[damage](rng, lines)
    events = scan(Source(0, "job.log", SourceKind.LOG, len(content)), io.BytesIO(content)).events
    want = Counter(key for line in lines for key in line.keys)
    got = Counter(key_of(e) for e in events if e.kind in FIELDS)
    lost, other = list((want - got).elements()), list((got - want).elements())
    partial = []
    for key in other:
        whole = next((one for one in lost if one not in partial and _part_of(key, one)), None)
        if whole is not None:
            partial.append(whole)
    invented = [key for key in other if not any(_part_of(key, one) for one in partial)]
    return Outcome(want.total(), tuple(lost), tuple(partial), tuple(invented))


def _part_of(key: Key, whole: Key) -> bool:
    """True when the second record holds every field of the first."""
    return key[0] == whole[0] and all(
        mine in (None, "None", told) for mine, told in zip(key[1:], whole[1:], strict=True)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print for each kind of damage how many records were found, read in part, or invented."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-19")
    parser.add_argument("--only", default="")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args(arguments)
    low, _, high = args.seeds.partition("-")
    for name in DAMAGES:
        if args.only not in name:
            continue
        wanted = lost = partial = invented = 0
        for seed in range(int(low), int(high or low) + 1):
            found = outcome(name, seed)
            wanted, lost = wanted + found.wanted, lost + len(found.lost)
            partial, invented = partial + len(found.partial), invented + len(found.invented)
            for what, keys in (("lost", found.lost), ("invented", found.invented)):
                for key in keys if args.verbose else ():
                    print(f"    {name} seed {seed} {what}: {key}")
        share = f"{wanted - lost:5d} / {wanted:<5d} {100 * (1 - lost / wanted):5.1f} %"
        print(f"{name:22s} found {share}   in part {partial:3d}   invented {invented}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
