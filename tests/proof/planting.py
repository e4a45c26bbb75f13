"""Plants every secret of :mod:`builders.logs.planted_secrets` in the files of a job, where logs, dumps, settings and names hold one."""

from __future__ import annotations

import json
import pickle
import random
import re
from typing import Any

from builders.logs.planted_secrets import LINES, PEM, TOKENS
from damage.kinds.registry import Files, NotApplicable, dumps, entries_of, load, texts

_TOKENS = tuple(TOKENS.values())
_BEGINS_A_RECORD = re.compile(rb"(?:\[|<\d|\S{0,30} ?\d{2}:\d{2}:\d{2})").match
_TEXTS = 8
"""Logs that get secrets between their lines."""


def planted(files: Files, seed: str) -> Files:
    """The files with secrets in messages, between lines, in dumps, and in files beside them. Same seed, same bytes."""
    rng = random.Random(f"secrets of {seed}")
    out = dict(files)
    folder, function = rng.sample(_TOKENS, 2)
    for path in dumps(files):
        out[path] = _in_dump(files[path], folder, function)
    return with_secrets_beside(_in_texts(rng, out), seed)


def with_secrets_beside(files: Files, seed: str) -> Files:
    """The files, and others with secrets: two settings, an environment, a log, and a log named by a secret."""
    rng = random.Random(f"secrets beside {seed}")
    lines = [*LINES]
    rng.shuffle(lines)
    return files | {
        "job.yaml": "".join(f"env{at}:\n  - {line}\n" for at, line in enumerate(lines)).encode(),
        "launch.sh": (
            "#!/bin/bash\nset -e\n" + "".join(f"export A{n}_TOKEN={t}\n" for n, t in enumerate(_TOKENS))
        ).encode(),
        "environment.txt": ("".join(f"V{n}={t}\n" for n, t in enumerate(_TOKENS)) + f"KEY_PEM={PEM}\n").encode(),
        "setup.log": "".join(f"2026-11-20 09:00:{at:02} {line}\n" for at, line in enumerate(lines)).encode(),
        f"{rng.choice(_TOKENS)}.log": f"2026-11-20 09:00:00 {lines[0]}\n".encode(),
    }


def _in_texts(rng: random.Random, files: Files) -> Files:
    """Some logs with secrets behind messages of errors, and on lines of their own: of a table or a stack only behind its end."""
    chosen = texts(files)
    rng.shuffle(chosen)
    lines = iter([*LINES, *PEM.splitlines()] * _TEXTS)
    out = dict(files)
    for path in chosen[:_TEXTS]:
        rows = files[path].split(b"\n")
        for at in [at for at, row in enumerate(rows) if b"Error: " in row][:3]:
            rows[at] += b" " + next(lines).encode()
        is_log = 2 * sum(map(bool, map(_BEGINS_A_RECORD, rows))) > len(rows)
        for _ in range(3):
            rows.insert(rng.randrange(len(rows)) if is_log else len(rows), next(lines).encode())
        out[path] = b"\n".join(rows)
    return out


def _in_dump(content: bytes, folder: str, function: str) -> bytes:
    """A dump whose frames lie in this folder and are functions of this name; one that is cut off stays as it is."""
    try:
        dump = load(content)
    except NotApplicable:
        return content
    for entry in entries_of(dump):
        entry["frames"] = [_renamed(frame, folder, function) for frame in entry.get("frames") or ()]
    return pickle.dumps(dump, protocol=2) if content[:1] == b"\x80" else json.dumps(dump).encode()


def _renamed(frame: Any, folder: str, function: str) -> Any:
    if not isinstance(frame, dict):
        return frame
    place, _, file = str(frame.get("filename", "")).rpartition("/")
    return frame | {"filename": f"{place}/{folder}/{file}", "name": f"{frame.get('name', '')}_{function}"}
