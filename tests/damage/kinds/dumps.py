"""Recorder dumps that are cut, mangled, or hold values that no release writes."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from damage.kinds.registry import (
    Files,
    NotApplicable,
    dumps,
    entries_of,
    load,
    of_dump_bytes,
    of_dump_values,
    of_files,
    with_entries,
    without,
)

BYTES, VALUES, FETCHED = "dump bytes", "dump values", "dump fetched"


@of_dump_bytes(BYTES, one_too=True)
def dump_truncated(rng: random.Random, content: bytes) -> bytes:
    """Cut at any byte of the second half."""
    return content[: rng.randrange(len(content) // 2, len(content))]


@of_dump_bytes(BYTES)
def dump_truncated_early(rng: random.Random, content: bytes) -> bytes:
    """Cut at any byte of the first half."""
    return content[: rng.randrange(1, len(content) // 2)]


@of_dump_bytes(BYTES)
def dump_head_lost(rng: random.Random, content: bytes) -> bytes:
    """The first bytes are gone."""
    return content[rng.randrange(1, len(content) // 2) :]


@of_dump_bytes(BYTES, one_too=True)
def dump_in_ascii_mode(rng: random.Random, content: bytes) -> bytes:
    """Line ends became those of Windows, as FTP in ASCII mode writes."""
    return content.replace(b"\n", b"\r\n")


@of_dump_bytes(BYTES, one_too=True)
def dump_bits_flipped(rng: random.Random, content: bytes) -> bytes:
    """One byte in two thousand has another bit."""
    out = bytearray(content)
    for _ in range(max(1, len(out) // 2000)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


@of_dump_bytes(BYTES)
def dump_zeros_behind(rng: random.Random, content: bytes) -> bytes:
    """NULs stand behind the dump."""
    return content + bytes(4096)


@of_dump_bytes(BYTES, one_too=True)
def dump_tail_zeroed(rng: random.Random, content: bytes) -> bytes:
    """The last third is NULs: the size was written, the data was not."""
    keep = len(content) * 2 // 3
    return content[:keep] + bytes(len(content) - keep)


@of_dump_bytes(BYTES)
def dump_as_utf_8(rng: random.Random, content: bytes) -> bytes:
    """Sent through a terminal: bytes became characters."""
    return content.decode("latin-1").encode()


@of_dump_bytes(BYTES)
def dump_in_base64(rng: random.Random, content: bytes) -> bytes:
    """Base64."""
    return base64.encodebytes(content)


@of_dump_bytes(BYTES)
def dump_twice(rng: random.Random, content: bytes) -> bytes:
    """The dump stands twice in its file."""
    return content * 2


def _as_json(files: Files, write: Any) -> Files:
    if not dumps(files):
        raise NotApplicable
    out = dict(files)
    for path in dumps(files):
        out[path] = write(json.dumps(load(files[path])))
    return out


@of_files(FETCHED)
def dumps_as_json(rng: random.Random, files: Files) -> Files:
    """Dumps as JSON, as the debug server gives them."""
    return _as_json(files, lambda text: text.encode())


@of_files(FETCHED)
def dumps_as_pretty_json(rng: random.Random, files: Files) -> Files:
    """Dumps as JSON over many lines."""
    return _as_json(files, lambda text: json.dumps(json.loads(text), indent=2).encode())


@of_files(FETCHED)
def dumps_by_kubectl(rng: random.Random, files: Files) -> Files:
    """Dumps as JSON below a sentence of ``kubectl exec``."""
    return _as_json(files, lambda text: f'Defaulted container "pytorch" out of: pytorch, init (init)\n{text}'.encode())


@of_files(FETCHED)
def dumps_by_curl(rng: random.Random, files: Files) -> Files:
    """Dumps as JSON below the head of an HTTP answer."""
    return _as_json(files, lambda text: f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{text}".encode())


@of_files(FETCHED)
def dumps_by_powershell(rng: random.Random, files: Files) -> Files:
    """Dumps as JSON in UTF-16."""
    return _as_json(files, lambda text: text.encode("utf-16"))


@of_files(FETCHED)
def json_dumps_cut(rng: random.Random, files: Files) -> Files:
    """Dumps as JSON, cut in their second half."""
    return _as_json(files, lambda text: text[: rng.randrange(len(text) // 2, len(text))].encode())


@of_files(FETCHED)
def dumps_in_one_file(rng: random.Random, files: Files) -> Files:
    """All dumps as JSON, one in a line, in one file."""
    if not dumps(files):
        raise NotApplicable
    out = without(files, dumps(files))
    out["all_dumps.json"] = "\n".join(json.dumps(load(files[path])) for path in dumps(files)).encode()
    return out


@of_files(FETCHED)
def dumps_with_their_rank(rng: random.Random, files: Files) -> Files:
    """Each dump as JSON beside the rank of its name."""
    if not dumps(files):
        raise NotApplicable
    out = dict(files)
    for path in dumps(files):
        digits = "".join(c if c.isdigit() else " " for c in path).split()
        out[path] = json.dumps({"rank": int(digits[-1]) if digits else None, "dump": load(files[path])}).encode()
    return out


@of_dump_values(VALUES, one_too=True)
def unknown_states(rng: random.Random, dump: Any) -> Any:
    """States have a name that no release writes."""
    for entry in entries_of(dump):
        entry["state"] = "exploded"
    return dump


@of_dump_values(VALUES, one_too=True)
def some_states_unknown(rng: random.Random, dump: Any) -> Any:
    """One state in five has a name that no release writes."""
    for entry in entries_of(dump):
        entry["state"] = "exploded" if rng.random() < 0.2 else entry.get("state")
    return dump


def _with(dump: Any, name: str, values: tuple[Any, ...], rng: random.Random, share: float = 0.3) -> Any:
    for entry in entries_of(dump):
        for key in (name, name.replace("collective_", "p2p_")) if name in entry else ():
            entry[key] = rng.choice(values) if rng.random() < share else entry.get(key)
    return dump


@of_dump_values(VALUES, one_too=True)
def negative_numbers(rng: random.Random, dump: Any) -> Any:
    """Sequence numbers are negative."""
    return _with(dump, "collective_seq_id", (-1, -5, -(2**31)), rng)


@of_dump_values(VALUES, one_too=True)
def numbers_that_are_truths(rng: random.Random, dump: Any) -> Any:
    """Sequence numbers are ``True`` and ``False``."""
    return _with(dump, "collective_seq_id", (True, False), rng)


@of_dump_values(VALUES, one_too=True)
def huge_numbers(rng: random.Random, dump: Any) -> Any:
    """Sequence numbers are beyond 64 bits."""
    return _with(dump, "collective_seq_id", (2**63, 2**70, 10**40), rng)


@of_dump_values(VALUES)
def numbers_as_texts(rng: random.Random, dump: Any) -> Any:
    """Sequence numbers are texts."""
    for entry in entries_of(dump):
        if "collective_seq_id" in entry:
            entry["collective_seq_id"] = str(entry["collective_seq_id"])
    return dump


@of_dump_values(VALUES, one_too=True)
def entries_out_of_order(rng: random.Random, dump: Any) -> Any:
    """Entries stand in any order."""
    rng.shuffle(dump if isinstance(dump, list) else dump.get("entries", []))
    return dump


@of_dump_values(VALUES, one_too=True)
def newest_entries_lost(rng: random.Random, dump: Any) -> Any:
    """The newest third of the entries is gone."""
    entries = entries_of(dump)
    return with_entries(dump, entries[: len(entries) * 2 // 3])


@of_dump_values(VALUES, one_too=True)
def oldest_entries_lost(rng: random.Random, dump: Any) -> Any:
    """Only the newest entries are left, as in a short ring."""
    entries = entries_of(dump)
    return with_entries(dump, entries[-max(3, len(entries) // 5) :])


@of_dump_values(VALUES, one_too=True)
def entries_dropped(rng: random.Random, dump: Any) -> Any:
    """One entry in six is gone."""
    return with_entries(dump, [entry for entry in entries_of(dump) if rng.random() > 1 / 6])


@of_dump_values(VALUES)
def entries_twice(rng: random.Random, dump: Any) -> Any:
    """One entry in six stands twice."""
    return with_entries(dump, [e for entry in entries_of(dump) for e in [entry] * (2 if rng.random() < 1 / 6 else 1)])


@of_dump_values(VALUES)
def no_entries(rng: random.Random, dump: Any) -> Any:
    """Dumps hold no entry."""
    return with_entries(dump, [])


@of_dump_values(VALUES, one_too=True)
def a_field_lost(rng: random.Random, dump: Any) -> Any:
    """One field is missing in every entry."""
    entries = entries_of(dump)
    name = rng.choice(sorted(entries[0])) if entries else ""
    for entry in entries:
        entry.pop(name, None)
    return dump


@of_dump_values(VALUES)
def fields_lost(rng: random.Random, dump: Any) -> Any:
    """Fields are missing here and there."""
    for entry in entries_of(dump):
        if rng.random() < 0.3:
            entry.pop(rng.choice(sorted(entry)), None)
    return dump


@of_dump_values(VALUES, one_too=True)
def nothing_in_fields(rng: random.Random, dump: Any) -> Any:
    """Values are ``None`` here and there."""
    for entry in entries_of(dump):
        if entry and rng.random() < 0.3:
            entry[rng.choice(sorted(entry))] = None
    return dump


@of_dump_values(VALUES)
def other_types_in_fields(rng: random.Random, dump: Any) -> Any:
    """Values are texts, lists and tables where others belong."""
    for entry in entries_of(dump):
        if entry and rng.random() < 0.2:
            entry[rng.choice(sorted(entry))] = rng.choice(("x", [1, [2]], {"a": 1}, 1.5, -7))
    return dump


@of_dump_values(VALUES)
def no_group_members(rng: random.Random, dump: Any) -> Any:
    """``pg_config`` is missing."""
    return {key: value for key, value in dump.items() if key != "pg_config"} if isinstance(dump, dict) else dump


@of_dump_values(VALUES)
def no_counters(rng: random.Random, dump: Any) -> Any:
    """``pg_status`` is missing."""
    return {key: value for key, value in dump.items() if key != "pg_status"} if isinstance(dump, dict) else dump


@of_dump_values(VALUES, one_too=True)
def fewer_group_members(rng: random.Random, dump: Any) -> Any:
    """The lists of members lack their last one."""
    for config in dump.get("pg_config", {}).values() if isinstance(dump, dict) else ():
        ranks = json.loads(config.get("ranks") or "[]") if isinstance(config.get("ranks"), str) else []
        config["ranks"] = json.dumps(ranks[:-1]) if len(ranks) > 1 else config.get("ranks")
    return dump


@of_dump_values(VALUES)
def list_of_entries(rng: random.Random, dump: Any) -> Any:
    """The list of entries alone, as releases up to 2.2 wrote it."""
    return entries_of(dump)


@of_dump_values(VALUES)
def entries_without_group(rng: random.Random, dump: Any) -> Any:
    """No entry says of which group it is."""
    for entry in entries_of(dump):
        entry.pop("pg_id", None)
        entry.pop("process_group", None)
    return dump


@of_dump_values(VALUES)
def list_without_group_id(rng: random.Random, dump: Any) -> Any:
    """The list of entries alone, without the numbers of groups."""
    for entry in entries_of(dump):
        entry.pop("pg_id", None)
    return entries_of(dump)


@of_dump_values(VALUES)
def no_frames(rng: random.Random, dump: Any) -> Any:
    """No entry has a stack."""
    for entry in entries_of(dump):
        entry["frames"] = []
    return dump


TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")


def _with_times(dump: Any, change: Any) -> Any:
    for entry in entries_of(dump):
        for name in TIMES:
            if isinstance(entry.get(name), int):
                entry[name] = change(entry[name])
    return dump


@of_dump_values(VALUES)
def no_times(rng: random.Random, dump: Any) -> Any:
    """All times are zero."""
    return _with_times(dump, lambda at: 0)


@of_dump_values(VALUES)
def times_in_milliseconds(rng: random.Random, dump: Any) -> Any:
    """Times are in milliseconds."""
    return _with_times(dump, lambda at: at // 1_000_000)


@of_dump_values(VALUES, one_too=True)
def dump_an_hour_apart(rng: random.Random, dump: Any) -> Any:
    """The clock of the dump is an hour ahead or behind."""
    by = rng.choice((-3600, 3600)) * 10**9
    return _with_times(dump, lambda at: at + by)


@of_dump_values(VALUES)
def dumps_seconds_apart(rng: random.Random, dump: Any) -> Any:
    """Each dump has a clock of its own, up to forty seconds from the others."""
    by = rng.randrange(-40, 41) * 10**9
    return _with_times(dump, lambda at: at + by)
