"""Calls that other programs than PyTorch's recorder record, as its JSON dumps hold them.

TorchComms' ClogHook logs the enqueue, start and end of each call of a process, one line each (meta-pytorch/torchcomms
``comms/torchcomms/hooks/clog``, format 1). NCCL's example profiler writes the newest calls of a communicator as a Chrome trace when that
closes (NVIDIA/nccl ``plugins/profiler/example``, 2.23 to 2.30). Runs in the sandboxed child:
see :mod:`nccldoctor.parsers.flight_recorder.values`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import pairwise
from typing import Any

from nccldoctor.parsers.flight_recorder.dump import Dump, read_dump
from nccldoctor.parsers.flight_recorder.values import integer
from nccldoctor.parsers.json_stream import objects
from nccldoctor.patterns import lazy

MOST_CALLS, POOL = 20_000, 8
"""The newest calls of a log that are kept; those that the profiler keeps open by default, and it drops what comes beside them."""

_CLOG = lazy(rb"(?:\xef\xbb\xbf)?V\|\d{1,4}\|base_timestamp=\d{1,11}(?:\.\d{1,9})?\r?\n")
_PROFILE = lazy(rb"(?:\xef\xbb\xbf)?\s{0,99}\[\s{0,99}\{\s{0,9}\"name\"")
_WHOLE = lazy(r"\|\+\d{1,12}\.\d{3}\Z")
_HUMP = lazy(r"(?<=[a-z])(?=[A-Z])")
_TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
_P2P = ("send", "recv", "batch_op_issue")
_CUT = "truncated: its end is cut off, and the newest calls are lost"
_HIDDEN = "left out: which call a rank waits in isn't known inside a CUDA graph or a batch of transfers"

_Entry = dict[str, Any]


def is_other_recorder(head: bytes) -> bool:
    """True for the first bytes of a file that is read here."""
    is_trace = _PROFILE.match(head) is not None and b'"CommHash"' in head and b'"SeqNum"' in head
    return is_trace or _CLOG.match(head) is not None


def read_other_recorder(data: bytes) -> Dump | None:
    """The dump that the bytes of a file amount to; None for other files. Raises what :func:`read_dump` does."""
    if not is_other_recorder(data[: 64 << 10]):
        return None
    text, log = data.decode("utf-8", "backslashreplace").removeprefix("\ufeff"), _Clog()
    entries, rank, problem = (log.read_lines if text.startswith("V|") else _profile)(text)
    dump = read_dump({"entries": entries, "pg_config": log.config}, "json", len(data))
    dump.rank, dump.problem = rank, problem or dump.problem
    return dump


class _Clog:
    """What the lines of a ClogHook said so far.

    A line of an event names the signature of its call alone, so starts and ends are those of the oldest such call without one.
    A call is its signature, its two numbers, and when it was enqueued, started and ended. Lost lines show in the hook's own numbers.
    """

    def __init__(self) -> None:
        self.own: dict[str, tuple[int, int]] = {}
        self.config: dict[str, dict[str, Any]] = {}
        self.signatures: dict[str, tuple[str, str, tuple[Any, Any], str]] = {}
        self.counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.calls: deque[list[Any]] = deque(maxlen=MOST_CALLS)
        self.waiting: dict[tuple[str, str], deque[list[Any]]] = defaultdict(lambda: deque(maxlen=MOST_CALLS))
        self.numbers: list[int] = []

    def read_lines(self, text: str) -> tuple[list[_Entry], int | None, str]:
        """The calls, whose they are, and why there are none or not all. Other lines are passed over."""
        head, *lines = text.splitlines()
        base, is_damaged, made = float(head.rpartition("=")[2]), False, 0
        for line in lines:
            what, *fields = line.split("|")
            try:
                if fields[0] in ("S", "E"):
                    self.waiting[what, fields[0]].popleft()[3 + (fields[0] == "E")] = base + float(fields[1])
                elif fields[0] == "Q":
                    made += 1
                    self._enqueue(what, int(fields[1].removeprefix("work_id=")), base + float(fields[2]))
                elif what[0] == "G" and fields[1] == "Q":
                    self.numbers.append(int(fields[2].removeprefix("work_id=")))
                else:
                    self._take(what, fields, dict(field.split("=", 1) for field in fields if "=" in field))
            except (KeyError, ValueError, IndexError):
                is_damaged |= fields[:1] == ["Q"]
        is_damaged |= bool(self.numbers) and len({*self.numbers}) != max(self.numbers) - min(self.numbers) + 1
        worlds = [world for world, _ in self.own.values()]
        ranks = {rank for world, rank in self.own.values() if world == max(worlds)}
        rank = min(ranks) if len(ranks) == 1 else None
        if is_damaged or not (text.endswith("\n") or _WHOLE.search(text)):
            return [], rank, "damaged: some of its lines are lost" if is_damaged else _CUT
        has_states = any(call[3] or call[4] for call in self.calls)  # else the hook was told to log no starts and ends
        if "\nG" in text or (has_states and any(call[0][1] == _P2P[2] and not call[4] for call in self.calls)):
            return [], rank, _HIDDEN
        entries = [self._entry_of(call, made - len(self.calls) + n, has_states) for n, call in enumerate(self.calls)]
        return entries, rank, ""

    def _take(self, what: str, fields: list[str], named: dict[str, str]) -> None:
        if what == "new_comm":
            rank, world = int(named["rank"]), int(named["world_size"])
            if 0 <= rank < world <= 1 << 17:
                self.own[named["comm"]] = world, rank
                self.config[named["comm"]] = {"ranks": list(range(world))}
        elif what == "split":
            ranks = [int(rank) for rank in named["ranks"].split(",")]
            if self.own[named["parent"]][1] in ranks:
                self.config[named["child"]] = {"ranks": ranks}
        elif fields[0] == "sig":
            op, comm, name = fields[1], named["comm"], "gather" if fields[1] == "gather_single" else fields[1]
            if op in ("send", "recv") and comm in self.config:  # the recorder names both ends, inside their group
                own = self.config[comm]["ranks"].index(max(self.own.values())[1])
                name = f"{op} {own}{'->' if op == 'send' else '<-'}{int(named['peer'])}"
            counts = [named.get(key, "") for key in ("in_count", "out_count")]
            sizes = [[[int(n)]] if n.isdecimal() and len(n) < 19 else [] for n in counts]
            shape = ([], []) if "_v" in op else (sizes[0], [] if op.startswith("gather") else sizes[1])
            self.signatures[what] = comm, name, shape, named.get("dtype", "")

    def _enqueue(self, what: str, number: int, at: float) -> None:
        comm, name, _, _ = signature = self.signatures[what]
        self.counts[comm][name.startswith(_P2P)] += 1
        call = [signature, tuple(self.counts[comm]), at, 0.0, 0.0]
        self.numbers.append(number)
        self.calls.append(call)
        self.waiting[what, "S"].append(call)
        self.waiting[what, "E"].append(call)

    def _entry_of(self, call: list[Any], number: int, has_states: bool) -> _Entry:
        (comm, name, shape, dtype), (seq, p2p), *times = call
        state = ("completed" if times[2] else "started" if times[1] else "scheduled") if has_states else None
        told = dict(zip(_TIMES, (int(at * 1e9) if 0 < at < 1e10 else None for at in times), strict=True))
        told |= {"is_p2p": name.startswith(_P2P), "p2p_seq_id": p2p}
        return _entry(number, comm, seq, name, shape, dtype, state) | told


def _entry(
    number: int, group: str, seq: int, name: str, sizes: tuple[Any, Any], dtype: str, state: str | None
) -> _Entry:
    """An entry as PyTorch's recorder writes it."""
    return {
        "record_id": number,
        "process_group": [group, ""],
        "collective_seq_id": seq,
        "profiling_name": name,
        "is_p2p": False,
        "input_sizes": sizes[0],
        "output_sizes": sizes[1],
        "input_dtypes": [dtype] if dtype not in ("", "other") else [],
        "state": state,
        "retired": state == "completed" if state is not None else None,
    }


def _profile(text: str) -> tuple[list[_Entry], int | None, str]:
    """The calls of NCCL's example profiler, whose they are, and why there are none.

    Each function of NCCL counts its calls by itself, so each is a group of its own. An end that is missing, or before its begin,
    is none: the profiler writes what an older call left there. Where numbers are missing it dropped calls, and which it dropped last
    is not known.
    """
    begun, ended, numbers = dict[object, _Entry](), dict[object, Any](), defaultdict[str, list[int]](list)
    problem = ""
    try:
        for _, item in objects(text):
            if item.get("cat") == "COLL" and type(item.get("id")) is int:
                if item.get("ph") == "e":
                    ended[item["id"]] = item.get("ts")
                elif item.get("ph") == "b" and _is_call(item):
                    begun[item["id"]] = item
    except (ValueError, RecursionError):
        problem = _CUT
    calls = sorted(begun.items(), key=lambda call: (call[1]["args"]["SeqNum"], call[1]["ts"]))
    is_open = {number for number, call in calls if not _is_time(ended.get(number)) or ended[number] < call["ts"]}
    newest = max((call["ts"] for _, call in calls), default=0)
    at_once = sum(number not in is_open and ended[number] >= newest for number, _ in calls)
    for _, call in calls:
        numbers[call["name"]].append(call["args"]["SeqNum"])
    has_holes = any(after - before > 1 for own in numbers.values() for before, after in pairwise(own))
    if has_holes or (at_once >= POOL and not is_open):
        problem = problem or "incomplete: the profiler drops calls while too many are open"
    first = int(any(own[0] > 1 for own in numbers.values()))
    entries = [_profiled(call, first + n, is_open=number in is_open) for n, (number, call) in enumerate(calls)]
    ranks = {call["args"]["Rank"] for _, call in calls}
    return [] if problem else entries, min(ranks) if len(ranks) == 1 else None, problem


def _is_call(item: _Entry) -> bool:
    args = item.get("args")
    if type(args) is not dict or type(item.get("name")) is not str or not _is_time(item.get("ts")):
        return False
    limits = {"SeqNum": 1 << 62, "CommHash": 1 << 64, "Rank": 1 << 17}
    return all(type(args.get(key)) is int and 0 <= args[key] < most for key, most in limits.items())


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e18


def _profiled(call: _Entry, number: int, *, is_open: bool) -> _Entry:
    args, name = call["args"], call["name"][:60]
    count, dtype = integer(args.get("Count")), str(args.get("Datatype", "")).removeprefix("nccl").lower()
    group, op = f"{args['CommHash']:x}/{name}", f"nccl:{_HUMP.sub('_', name).lower()}"
    sizes: tuple[Any, Any] = ([[count]] if count is not None else [], [])
    return _entry(number, group, args["SeqNum"], op, sizes, dtype, "started" if is_open else "completed")
