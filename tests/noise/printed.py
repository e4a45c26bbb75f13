"""Files that other programs wrote: metrics, tables, builds, services, other jobs, models. None tells what this job did."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib

from builders.files.packing import as_bytes, zip_of
from noise.written import CODE, EXIT, KILLED, TRACEBACK, WATCHDOG, XID

_SMI = (
    "Fri Apr 17 03:20:01 2026\n+-----------------------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |\n"
    "|-----------------------------------------+------------------------+----------------------+\n"
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    2 |\n"
    "| N/A   32C    P0             61W /  400W |       4MiB /  81920MiB |    100%      Default |\n"
    "+-----------------------------------------+------------------------+----------------------+\n"
    "| Processes:                                                                              |\n"
    "|    0   N/A  N/A      4711      C   python3                                       600MiB |\n"
)
_SMI_Q = (
    "==============NVSMI LOG==============\n\nTimestamp                                 : Fri Apr 17 03:20:01 2026\nDriver Version                            : 560.35.03\n"
    "Attached GPUs                             : 1\nGPU 00000000:07:00.0\n    Product Name                          : NVIDIA A100\n    ECC Errors\n"
    "        Volatile\n            SRAM Uncorrectable            : 12\n    Remapped Rows\n        Pending                           : Yes\n"
)
_SYSLOG = "".join(
    f"Apr 17 03:{minute:02}:01 db-01 {said}\n"
    for minute, said in enumerate(
        (
            "systemd[1]: Starting postgresql.service - PostgreSQL RDBMS...",
            "postgres[991]: LOG:  database system is ready to accept connections",
            "postgres[1002]: FATAL:  terminating connection due to administrator command",
            "nginx[77]: worker process 812 exited on signal 9",
            "systemd[1]: nginx.service: Main process exited, code=killed, status=9/KILL",
            "systemd[1]: nginx.service: Failed with result 'signal'.",
            "CRON[1311]: (root) CMD (run-parts /etc/cron.hourly)",
            "sshd[1400]: Connection closed by 10.0.0.9 port 41230",
        )
    )
)
_BUILD = (
    "[1/4] Building CXX object src/watchdog.cpp.o\n[2/4] Building CUDA object src/norm.cu.o\nFAILED: src/norm.cu.o\n"
    '/opt/train/src/kernels/norm.cu(12): error: identifier "rank" is undefined\nninja: build stopped: subcommand failed.\n'
    'Traceback (most recent call last):\n  File "setup.py", line 12, in <module>\n    build()\n'
    "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1.\n"
)
_PYTEST = (
    "============================= test session starts ==============================\nplatform linux -- Python 3.11.9, pytest-8.3.2\n"
    "collected 3 items\n\ntests/test_train.py .F.                                                    [100%]\n\n"
    "=================================== FAILURES ===================================\n____________________________ test_rank_3_is_named ______________________________\n\n"
    "    def test_rank_3_is_named():\n>       trainer.step(None)\nE       RuntimeError: CUDA error: out of memory\n\ntrain.py:11: RuntimeError\n"
    "----------------------------- Captured stderr call -----------------------------\n[rank3]: RuntimeError: CUDA error: out of memory\n"
    "=========================== short test summary info ============================\n"
    "FAILED tests/test_train.py::test_rank_3_is_named - RuntimeError: CUDA error: out of memory\n========================= 1 failed, 2 passed in 3.21s ==========================\n"
)
_GIT = (
    "commit 8a1f0c2d9e7b6a5f4c3d2e1f0a9b8c7d6e5f4a3b\nAuthor: Priya <priya@corp.example.com>\nDate:   Fri Apr 17 03:20:01 2026 +0000\n\n"
    f"    Retry when rank 3 raises RuntimeError: CUDA error: out of memory\n\n    {EXIT}\n\n"
    "commit 1b2c3d4e5f60718293a4b5c6d7e8f90112233445\nAuthor: Tom <tom@corp.example.com>\nDate:   Thu Apr 16 12:00:00 2026 +0000\n\n    Raise the timeout\n"
)


_FORUM = """Question

I train a model of seven billion parameters on two nodes, and it worked for a week.
Since yesterday it hangs after some hundred steps, and I do not know what I changed.
All of the processes are still there when I look, and the GPUs are busy to one hundred percent.
I have read the manual and I asked a colleague, but we did not find the reason for it.
The last line that I see in the log of the job is this one:

"""
_ANSWER = """Answer

You have to look at the other ranks, since the one that times out is the one that waits.
If one of them was in the data loader at that time, then it is the one that you want.
You can also set the environment variable for the flight recorder and run it again.
We had the same problem in our cluster, and it was a full disk on one of the nodes.
Let me know if that helps you, and please post the stacks of all the processes.
"""


def _record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", zlib.crc32(length)) + payload + struct.pack("<I", zlib.crc32(payload))


def _zip(members: dict[str, str]) -> bytes:
    return zip_of(as_bytes(members), zipfile.ZIP_STORED)


METRICS = {
    "metrics/metrics.csv": "step,time,loss,lr,rank\n"
    + "".join(f"{n},{1768650000 + n},{9 / (n + 1):.4f},0.0003,{n % 8}\n" for n in range(40)),
    "metrics/metrics.jsonl": "".join(
        json.dumps({"step": n, "loss": 9 / (n + 1), "tokens": 4096 * n}) + "\n" for n in range(40)
    ),
    "metrics/node_exporter.prom": f'# HELP xid_total {XID}\n# TYPE xid_total counter\nxid_total{{gpu="0",host="login01"}} 79\nnode_vmstat_oom_kill 3\nprocess_exit_code{{rank="3"}} 137\n',
    "metrics/dcgm.csv": "timestamp,host,gpu,xid,ecc_dbe,util\n2026-04-17 03:20:01,login01,0,79,1,100\n2026-04-17 03:20:11,login01,0,0,0,100\n",
    "tensorboard/events.out.tfevents.1768650170.node-7.811.0": _record(
        b"\x09\x00\x00\x00\xc0\x55\x5a\xda\x41\x1a\rbrain.Event:2"
    )
    + _record(b"\x10\x03\x2a\x10\n\x0e\n\x04loss\x15\x00\x00\x80\x3f" + EXIT.encode()) * 9,
    "wandb/wandb-summary.json": json.dumps({"_runtime": 311, "_step": 40, "loss": 0.2, "rank": 3, "exitcode": 137}),
    "wandb/wandb-metadata.json": json.dumps(
        {"os": "Linux", "python": "3.11.9", "host": "login01", "program": "train.py", "gpu": "A100", "state": "failed"},
        indent=2,
    ),
    "junit.xml": '<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite name="pytest" errors="0" failures="1">\n<testcase classname="tests.test_train" name="test_rank_3">\n'
    f'<failure message="RuntimeError: CUDA error: out of memory">{TRACEBACK}</failure>\n</testcase></testsuite></testsuites>\n',
}

MACHINES = {
    "login01/nvidia-smi.txt": _SMI,
    "login01/nvidia-smi-q.txt": _SMI_Q,
    "login01/topology.txt": "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV12\tSYS\t0-31\nGPU1\tNV12\t X \tPXB\t0-31\nNIC0\tSYS\tPXB\t X \n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes\n",
    "db-01.syslog": _SYSLOG,
    "gateway/access.log": "".join(
        f'10.0.0.{n} - - [17/Apr/2026:03:20:{n:02} +0000] "GET /rank/{n % 8}/status HTTP/1.1" {500 if n == 3 else 200} 137 "-" "curl/8.5"\n'
        for n in range(12)
    ),
    "squeue.txt": "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n               911      gpus  eval-77    priya PD       0:00      2 (Resources)\n               912      gpus   sweep3      tom  R    1:02:03      1 node-9\n",
    "df.txt": "Filesystem      Size  Used Avail Use% Mounted on\n/dev/nvme0n1p1  3.5T  3.5T     0 100% /scratch\ntmpfs           1.0T  1.2G  999G   1% /dev/shm\n",
    "lscpu.txt": "Architecture:             x86_64\nCPU(s):                   128\nModel name:               AMD EPYC 7763\nNUMA node0 CPU(s):        0-31\n",
    "pip_freeze.txt": "absl-py==2.1.0\naiohttp==3.10.5\ndeepspeed==0.18.2\nnumpy==2.1.0\nnvidia-nccl-cu12==2.27.5\ntorch==2.13.0\ntransformers==4.57.1\n",
    "conda_list.txt": "# packages in environment at /opt/conda:\n#\n# Name                    Version                   Build  Channel\nnumpy                     2.1.0           py311h71ddf71_1    conda-forge\npytorch                   2.13.0                 cpu_py311    conda-forge\n",
    "bash_history": "cd /opt/train\nsbatch train.sbatch\ntail -f logs/rank_3.log\ngrep -rn 'Watchdog caught' logs\nscancel 77\nkill -9 4711\n",
}

BUILDS = {
    "build/build.log": _BUILD,
    "build/pytest.log": _PYTEST,
    "git_log.txt": _GIT,
    "git_oneline.txt": "8a1f0c2 Retry when rank 3 raises RuntimeError: CUDA error: out of memory\n1b2c3d4 Raise the timeout of the watchdog to 3600 s\n",
    "code.zip": _zip({name: CODE[name] for name in ("train.py", "tests/test_train.py")}),
    "uv.lock": 'version = 1\nrequires-python = ">=3.11"\n\n[[package]]\nname = "torch"\nversion = "2.13.0"\n\n[[package]]\nname = "numpy"\nversion = "2.1.0"\n',
    "package.json": json.dumps(
        {"name": "status", "version": "1.0.0", "scripts": {"build": "vite build"}, "dependencies": {"vue": "^3"}},
        indent=2,
    ),
}

DATA = {
    "tokenizer.json": json.dumps(
        {
            "version": "1.0",
            "added_tokens": [{"id": 0, "content": "<s>"}],
            "model": {
                "type": "BPE",
                "vocab": {
                    w: n
                    for n, w in enumerate(("[rank3]:", "Traceback", "RuntimeError:", "Xid", WATCHDOG, EXIT, "Killed"))
                },
            },
        },
        indent=1,
    ),
    "vocab.txt": "[PAD]\n[UNK]\n[rank3]:\nRuntimeError\nKilled\nXid\nSIGKILL\nthe\nof\n",
    "vocab.json": json.dumps(
        {word: number for number, word in enumerate((*map(chr, range(33, 90)), EXIT, XID, TRACEBACK))}
    ),
    "data/forum_00001.jsonl": "".join(
        json.dumps(
            {"id": n, "text": f"My run hangs. The log says:\n{text}\nWhat can I do?", "meta": {"source": "forum"}}
        )
        + "\n"
        for n, text in enumerate((WATCHDOG, TRACEBACK, EXIT, XID, KILLED))
    ),
    "data/forum_sample.txt": f"{_FORUM}{WATCHDOG}\n\n{_ANSWER}",
    "data/shards.csv": "shard,bytes,rank\n"
    + "".join(f"s3://data/shard_{n:05}.idx,{1000 + n},{n}\n" for n in range(30)),
    "checkpoints/step_40/mp_rank_03_model_states.pt": _zip({"archive/data.pkl": "weights", "archive/version": "3\n"}),
    "checkpoints/step_40/rank_12/optimizer.bin": struct.pack("<64f", *range(64)) + bytes(range(256)),
    "checkpoints/step_40/latest": "step_40\n",
    "core.python3.4711.node-7": b"\x7fELF\x02\x01\x01\x00"
    + bytes(8)
    + b"\x04\x00\x3e\x00"
    + bytes(300)
    + EXIT.encode()
    + bytes(80),
    "core.rank_5": b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x04\x00\x3e\x00" + bytes(400),
    "loss.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 2,
}
