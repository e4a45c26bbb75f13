"""Texts that people wrote are told from output of the job by the shape of their lines; names only help."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.logs.lines import watchdog

from nccldoctor.discover.file_types import kind_of
from nccldoctor.discover.provenance import kind_of_text
from nccldoctor.model import SourceKind, SourceRole

ROOT = Path(__file__).resolve().parents[3]
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=81, GPU has fallen off the bus."

CODE = (
    "import torch\nimport torch.distributed as dist\n\n\ndef main():\n    dist.init_process_group('nccl')\n"
    "    for step in range(100):\n        loss = train(step)\n        if loss.isnan():\n"
    "            raise RuntimeError('rank 3: CUDA out of memory')\n    return loss\n"
)
NATIVE = '#include "comm.h"\n\nnamespace nccl {\nstatic int start(int rank) {\n  WARN("Duplicate GPU detected");\n  return rank;\n}\n}\n'
SCRIPT = (
    "#!/bin/bash\n#SBATCH --nodes=2\nset -e\nexport NCCL_DEBUG=INFO\nsrun torchrun --nproc_per_node=8 \\\n  train.py\n"
)
RULES = f'groups:\n- name: gpus\n  rules:\n  - alert: FellOffBus\n    expr: xid == 79\n    annotations:\n      example: "{XID}"\n'
TABLE = "[launcher]\nnodes = 2\nranks = 16\n\n[nccl]\nNCCL_DEBUG = 'WARN'\n"
NOTES = f"# Hang of 12 March\n\nRank 3 was killed, and the others waited for it.\n\n```\n{watchdog(0)}```\n\n- [ ] ask the storage team\n"
PROSE = (
    "We lost the run at night. I think that rank 3 was killed for memory.\n"
    "The node is still in the queue, so we can look at it if you want.\n"
)
CHAT = "[10:32] priya: is rank 3 still on the bus?\n[10:33] tom: no, Xid 79 as in the last run\n[10:33] priya: ok, I will drain it\n"
PASTED = "".join(
    f"Ana Ruiz{gap}9:14 AM\nis anybody else seeing hangs? last week it was\n[rank3]: ValueError: bad sample 12\n"
    f"Bo Lind{gap}9:16 AM\nno, we had Xid 79 on node17\nNCCL WARN NET/IB : Got completion with error 12\nthanks, I will try\n"
    for gap in ("  ", " \u2014 Today at ", " 12/03/2026 ")
)
"""As people copy it from Slack, Discord and Teams: the name and the time stand alone above what was said."""
PATCH = (
    "diff --git a/t.py b/t.py\nindex 0123456..789abcd 100644\n"
    "--- a/t.py\n+++ b/t.py\n@@ -1,2 +1,2 @@\n-timeout = 600\n+timeout = 3600\n"
)
NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": ["raise ValueError()"]}], "nbformat": 4}, indent=1)
DASHBOARD = json.dumps({"panels": [{"title": "Xid 79", "gridPos": {}}], "schemaVersion": 39}, indent=1)
EXPORT = json.dumps([{"type": "message", "user": "U1", "ts": "1.2", "text": "rank 3 died"}], indent=1)
ZERO = json.dumps({"train_batch_size": 8, "zero_optimization": {"stage": 3}, "optimizer": {}}, indent=1)

WRITTEN = {
    "train": (CODE, SourceKind.CODE),
    "src": (NATIVE, SourceKind.CODE),
    "fix": (PATCH, SourceKind.CODE),
    "launch": (SCRIPT, SourceKind.SCRIPT),
    "alerts": (RULES, SourceKind.CONFIG),
    "job": (TABLE, SourceKind.CONFIG),
    "ds": (ZERO, SourceKind.CONFIG),
    "issue": (NOTES, SourceKind.NOTES),
    "letter": (PROSE, SourceKind.NOTES),
    "talk": (CHAT, SourceKind.CHAT),
    "export": (EXPORT, SourceKind.CHAT),
    "pasted": (PASTED, SourceKind.CHAT),
    "analysis": (NOTEBOOK, SourceKind.NOTEBOOK),
    "board": (DASHBOARD, SourceKind.DASHBOARD),
}
"""Content and kind, under names that say nothing."""

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/train.py", line 9, in <module>\n    main()\n'
    '  File "/opt/train.py", line 5, in main\n    import missing_module\n'
    "ModuleNotFoundError: No module named 'missing_module'\n"
)
DESCRIBED = (
    "Name:         job-worker-3\nNamespace:    default\nContainers:\n  pytorch:\n    State:          Terminated\n"
    "      Reason:       OOMKilled\nEvents:\n  Type  Reason  Message\n"
)
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: job-worker-3\n"
    "status:\n  containerStatuses:\n  - lastState:\n      terminated:\n        reason: OOMKilled\n"
)
TRACED = SCRIPT + "+ srun torchrun train.py\n" + "".join(f"step {n} loss 2.0\n" for n in range(20)) + watchdog(3)
STACK = 'Process 81: python train.py\n\nThread 81 (idle): "MainThread"\n    wait (threading.py:320)\n    main (train.py:5)\n'
FRAMES = "Thread 0x00007fb8e9a77b80 (most recent call first):\n" + '  File "/opt/train.py", line 121 in refresh\n' * 5
DICTS = "".join(f"{{'loss': 1.{n}, 'grad_norm': 0.8, 'epoch': 0.{n}}}\n" for n in range(9))
TALKATIVE = (
    "10:32:01 trainer: start of the epoch\n10:32:04 loader: waits for the file\n10:32:05 trainer: end of the epoch\n"
)

PRINTED = {
    "watchdog": watchdog(0),
    "train.py.log": CODE + watchdog(0),
    "rank_3.py": TRACEBACK,
    "worker.err": TRACEBACK,
    "describe.txt": DESCRIBED,
    "pod.yaml": POD,
    "slurm-4477.out": TRACED,
    "slurm-4477": TRACED,
    "stack.txt": STACK,
    "faulthandler.txt": FRAMES,
    "dicts.txt": DICTS,
    "loggers.txt": TALKATIVE,
    "quoted.md": f"> {watchdog(4)}",
    "dmesg.txt": f"[Fri Apr 17 03:20:01 2026] {XID}\n",
    "docker.json": json.dumps({"log": watchdog(0), "stream": "stderr", "time": "2026-04-17T03:28:15.5Z"}) + "\n",
    "state.json": json.dumps({"learning_rate": 0.1, "log_history": [{"step": 5}]}, indent=1),
}
"""Output, and what looks like none."""


def kind(text: str, name: str) -> SourceKind | None:
    head = text.encode()
    return kind_of_text(head, name, is_json=kind_of(head) is SourceKind.JSON)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_person_wrote_is_known_by_its_content(name: str) -> None:
    text, expected = WRITTEN[name]
    assert kind(text, name) is expected
    assert kind(text, f"{name}.txt") is expected
    assert expected.role is not SourceRole.OUTPUT


@pytest.mark.parametrize("name", PRINTED)
def test_what_the_job_printed_stays_output(name: str) -> None:
    assert kind(PRINTED[name], name) is None


@pytest.mark.parametrize(
    ("name", "text"), [("train.py", "x = 1\n"), ("README.md", "rank 3 died\n"), ("a.yaml", "a: 1\n")]
)
def test_a_name_decides_where_the_content_says_little(name: str, text: str) -> None:
    assert kind(text, name) is not None
    assert kind(text, name.partition(".")[0].lower()) is None


def test_a_log_that_is_cut_in_its_first_line_is_output() -> None:
    assert kind("step 5 " + "x" * 100_000, "a.txt") is None
    assert kind("", "a.py") is None
    assert kind_of_text("import os\n".encode("utf-16"), "a.log", is_json=False) is None


def test_no_line_that_a_parser_reads_makes_its_file_a_script_or_a_note() -> None:
    seen = {
        path.stem
        for path in sorted((ROOT / "parsers" / "wordings").rglob("*.toml"))
        for text in texts_of(tomllib.loads(path.read_text(encoding="utf-8")))
        if kind_of(text.encode()) in (SourceKind.LOG, SourceKind.JSON) and kind(text, "f.txt")
    }
    assert seen == {"environment", "pod_nodes"}  # manifests, of which the settings are read


def texts_of(value: Any) -> Iterator[str]:
    """The samples in a file of wordings."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if key == "text" and isinstance(item, str):
            yield item
        elif isinstance(item, dict | list):
            yield from texts_of(item)


@pytest.mark.parametrize(
    ("text", "name", "kind"), [(NOTES, "notes.md", SourceKind.NOTES), (watchdog(0) * 3, "rank_0.log", None)]
)
def test_the_text_inside_a_document_is_what_a_person_or_a_job_wrote(
    text: str, name: str, kind: SourceKind | None
) -> None:
    """A collector or an editor put the whole text into one value."""
    assert kind_of_text(json.dumps({"logs": text}).encode(), name, is_json=True) is kind
