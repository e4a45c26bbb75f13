"""Files that people wrote and that lie in the folders of jobs: code, settings, notes, talk. None tells what the job did."""

from __future__ import annotations

import json

WATCHDOG = (
    "[rank3]:[E117 11:42:50.000000000 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600085 milliseconds before timing out."
)
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=81, GPU has fallen off the bus."
EXIT = "srun: error: node-7: task 3: Exited with exit code 137"
TRACEBACK = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/opt/train/data.py", line 88, in __next__\n'
    "[rank2]:     return self.shards[index]\n"
    "[rank2]: FileNotFoundError: [Errno 2] No such file or directory: 'shard_00004.idx'\n"
)
KILLED = "Out of memory: Killed process 4711 (python3) total-vm:912340kB, anon-rss:880000kB"

CODE = {
    "train.py": (
        "import os\n\nimport torch\nimport torch.distributed as dist\n\n\nclass Trainer:\n"
        "    def step(self, batch):\n        loss = self.model(batch).mean()\n        if not torch.isfinite(loss):\n"
        "            raise RuntimeError('CUDA error: device-side assert triggered')  # seen on rank 1\n"
        "        loss.backward()\n        return loss\n\n\ndef main():\n    dist.init_process_group('nccl')\n"
        "    trainer = Trainer()\n    for step in range(1000):\n        print(f'[rank{dist.get_rank()}]: step {step}')\n"
        "        trainer.step(next(loader))\n\n\nif __name__ == '__main__':\n    main()\n"
    ),
    "src/errors.py": f'"""Known messages of the watchdog."""\n\nKNOWN = [\n    "{WATCHDOG}",\n    "{XID}",\n    "{EXIT}",\n]\n\n\ndef known(line):\n    return any(text in line for text in KNOWN)\n',
    "src/csrc/watchdog.cpp": (
        '#include "watchdog.h"\n\nnamespace c10d {\n\nvoid Watchdog::run() {\n  // when rank 3 times out:\n'
        '  LOG(ERROR) << "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE)";\n'
        '  throw std::runtime_error("NCCL error: unhandled system error");\n}\n\n} // namespace c10d\n'
    ),
    "src/kernels/norm.cu": "#include <cuda.h>\n\n__global__ void norm(float* x, int n) {\n  int i = blockIdx.x;\n  // CUDA error: an illegal memory access was encountered (rank 2)\n  if (i < n) { x[i] = 0; }\n}\n",
    "cmd/watch/main.go": f'package main\n\nimport "fmt"\n\n// prints {EXIT}\nfunc main() {{\n\tfmt.Println("worker 3 exited with code 137")\n\treturn\n}}\n',
    "web/status.js": f'// shows "{XID}"\nimport {{ render }} from "./render";\n\nexport function status(rank) {{\n  const message = "rank 3: killed by signal 9";\n  return render(message, rank);\n}}\n',
    "tests/test_train.py": (
        "import pytest\n\nfrom train import Trainer\n\n\ndef test_rank_3_is_named():\n"
        '    with pytest.raises(RuntimeError, match="CUDA error: out of memory"):\n        Trainer().step(None)\n\n\n'
        f'LOG = """\n{TRACEBACK}"""\n\n\ndef test_log():\n    assert "shard_00004" in LOG\n'
    ),
    "fix_timeout.patch": f"diff --git a/train.py b/train.py\nindex 0123456..789abcd 100644\n--- a/train.py\n+++ b/train.py\n@@ -3,4 +3,4 @@\n-    # {EXIT}\n+    # {XID}\n     timeout = 600\n",
    "analysis.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "source": ["# Why rank 3 died\n", EXIT]},
                {
                    "cell_type": "code",
                    "source": ["raise RuntimeError('CUDA error: out of memory')"],
                    "outputs": [{"output_type": "stream", "text": [WATCHDOG + "\n", *TRACEBACK.splitlines(True)]}],
                },
            ],
            "nbformat": 4,
        },
        indent=1,
    ),
    "queries/failed_jobs.sql": f"-- {EXIT}\nSELECT job_id, rank, exit_code\nFROM exits\nWHERE exit_code = 137 AND message LIKE '%Xid 79%'\nORDER BY finished_at;\n",
}

SETTINGS = {
    "alerts.yaml": (
        "groups:\n- name: gpus\n  rules:\n  - alert: GpuFellOffTheBus\n    expr: xid == 79\n    labels:\n      severity: page\n      rank: 3\n"
        f'    annotations:\n      summary: "GPU of rank 3 has fallen off the bus"\n      example: |\n        [Fri Apr 17 03:20:01 2026] {XID}\n        {EXIT}\n'
    ),
    "prometheus/rules.yml": f"groups:\n- name: nccl\n  rules:\n  - alert: Watchdog\n    expr: rate(watchdog_total[5m]) > 0\n    for: 5m\n    annotations:\n      description: |\n        {WATCHDOG}\n",
    "promtail.yaml": "scrape_configs:\n- job_name: train\n  pipeline_stages:\n  - match:\n      selector: '{job=\"train\"}'\n      stages:\n      - regex:\n          expression: '\\[rank(?P<rank>\\d+)\\]: .*Watchdog caught collective operation timeout'\n      - regex:\n          expression: 'Xid \\(PCI:(?P<bus>\\S+)\\): (?P<xid>79)'\n",
    "k8s/job.yaml": (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: train\nspec:\n  pytorchReplicaSpecs:\n    Worker:\n      replicas: 2\n"
        "      restartPolicy: OnFailure\n      template:\n        spec:\n          containers:\n          - name: pytorch\n            image: train:7\n"
        f"            # last time: {EXIT}\n            args: ['--on-exit-code', '137']\n            resources:\n              limits:\n                memory: 64Gi\n"
    ),
    "helm/values.yaml": "# OOMKilled at 32Gi: exit code 137 on rank 5\nworkers: 8\nmemory: 64Gi\nimage:\n  repository: train\n  tag: v7\nnotes: |\n  worker-5 was OOMKilled\n",
    "main.tf": f'# {XID}\nresource "aws_instance" "gpu" {{\n  ami           = "ami-123"\n  instance_type = "p5.48xlarge"\n  count         = 2\n  tags = {{\n    Name = "rank 3 exited with exit code 137"\n  }}\n}}\n',
    "playbook.yml": f'- hosts: gpus\n  tasks:\n  - name: reset the GPU after an Xid\n    command: nvidia-smi --gpu-reset\n    when: "\'Xid\' in dmesg.stdout"\n  - name: tell\n    debug:\n      msg: "{EXIT}"\n',
    "Makefile": f'all: train\n\ntrain:\n\ttorchrun --nproc_per_node=$(GPUS) train.py || echo "{EXIT}"\n\nclean:\n\trm -rf logs\n\n.PHONY: all train clean\n',
    "Dockerfile": 'FROM nvcr.io/nvidia/pytorch:25.01-py3\nENV TORCH_NCCL_TRACE_BUFFER_SIZE=2000\n# RuntimeError: CUDA error: out of memory\nCOPY . /opt/train\nRUN pip install -r requirements.txt\nENTRYPOINT ["torchrun"]\n',
    "launch.sh": f"#!/bin/bash\nset -e\nexport TORCH_NCCL_DUMP_ON_TIMEOUT=1\nsrun torchrun --nproc_per_node=$(GPUS) train.py || {{\n  echo '{EXIT}'\n  echo '[rank3]: RuntimeError: CUDA error: out of memory'\n  exit 137\n}}\n",
    "train.sbatch": "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nmodule load cuda\n# slurmstepd: error: *** JOB 77 ON node-7 CANCELLED AT 2026-01-17T11:42:50 DUE TO TIME LIMIT ***\nsrun python train.py\necho 'srun: error: node-7: task 3: Killed'\n",
    "requirements.txt": "torch==2.13.0\nnumpy>=1.26\n# 2.12 hung in ALLREDUCE on rank 3\ntransformers==4.57.1\ndeepspeed==0.18.2\nnvidia-nccl-cu12==2.27.5\n",
    "environment.yml": "name: train\nchannels:\n- conda-forge\ndependencies:\n- python=3.11\n- pytorch=2.13\n- pip:\n  - wandb\n  - flash-attn\n",
    "ds_config.json": json.dumps(
        {"train_batch_size": 64, "zero_optimization": {"stage": 3}, "optimizer": {"type": "AdamW"}}, indent=2
    ),
    "model/config.json": json.dumps(
        {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "model_type": "llama", "torch_dtype": "bfloat16"},
        indent=2,
    ),
    "setup.cfg": "[metadata]\nname = train\n\n[tool:pytest]\naddopts = -q\n# rank 3 exited with exit code 137\n\n[flake8]\nmax-line-length = 120\n",
    ".vscode/launch.json": '{\n  // Killed by signal 9\n  "version": "0.2.0",\n  "configurations": [\n    {"name": "rank 3", "type": "debugpy", "request": "launch", "program": "train.py"}\n  ]\n}\n',
    "wandb/config.yaml": "_wandb:\n  value:\n    cli_version: 0.19.1\n    python_version: 3.11.9\nworld_size:\n  value: 64\nrank:\n  value: 3\nlr:\n  value: 0.0003\n",
    "grafana.json": json.dumps(
        {
            "panels": [{"title": XID, "gridPos": {"h": 8}, "targets": [{"expr": "xid"}]}, {"title": EXIT}],
            "schemaVersion": 39,
        },
        indent=1,
    ),
    "hostfile": "node-7 slots=8\nnode-8 slots=8\n",
}

TALK = {
    "README.md": f"# Training\n\nRun `launch.sh` on two nodes.\n\n## Known problems\n\nIf you see\n\n```\n{WATCHDOG}\n{TRACEBACK}```\n\nthen rank 3 was too slow; restart it.\n",
    "docs/nccl_errors.md": f"# NCCL errors\n\n| message | meaning |\n| --- | --- |\n| `{XID}` | the GPU is gone |\n| `{EXIT}` | the kernel killed the process |\n| `NCCL WARN Call to ibv_modify_qp failed with error Connection timed out` | a link is down |\n\nYou should drain the node.\n",
    "docs/nccl_env.rst": "Environment variables\n=====================\n\nNCCL_DEBUG\n----------\n\nSet it to ``INFO``. A rank then prints::\n\n    node-7:811:902 [3] NCCL INFO Bootstrap: Using eth0\n    node-7:811:902 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 10.0.0.9 with status=12 opcode=0 len=0 vendor err 129\n\nThe variable has no default.\n",
    "docs/runbook.html": f"<!DOCTYPE html>\n<html><head><title>Runbook</title></head>\n<body><h1>When a GPU is lost</h1>\n<pre>\n[Fri Apr 17 03:20:01 2026] {XID}\n{EXIT}\n{WATCHDOG}\n</pre>\n<p>Drain the node, and tell the owner.</p>\n</body></html>\n",
    "tickets/OPS-1042.txt": (
        "Ticket:   OPS-1042\nSummary:  run-17 hung\nReporter: Priya\nStatus:   Closed\n\nDescription\n\nOur run of last year hung at night and we had to kill it. I think the GPU was at fault:\n\n"
        f"{{code}}\n[Fri Apr 17 03:20:01 2025] {XID}\n{WATCHDOG}\n{EXIT}\n{{code}}\n\nComment by Tom: we replaced the board and it has been fine since then.\n"
    ),
    "mail.eml": f"From: priya@corp.example.com\nTo: oncall@corp.example.com\nSubject: Re: hang of run-17\nDate: Fri, 17 Apr 2026 09:01:00 +0000\n\nHi all,\n\nI looked at it, and we lost a GPU:\n\n> {XID}\n> {EXIT}\n\nThanks,\nPriya\n",
    "slack.txt": f"priya  [10:32 AM]\nis rank 3 still there?\ntom  [10:33 AM]\nno, it says {EXIT}\npriya  [10:34 AM]\nok thanks, and {XID}?\ntom  [10:35 AM]\nyep :eyes:\n",
    "slack_export.json": json.dumps(
        [
            {"type": "message", "user": "U1", "ts": "1768650170.1", "text": WATCHDOG},
            {"type": "message", "user": "U2", "ts": "1768650171.1", "text": EXIT},
        ],
        indent=1,
    ),
    "postmortem.txt": f"Post-mortem of run-17\n\nWe lost four hours because rank 3 had been killed by the kernel.\nThe log of node-7 said: {KILLED}\nThen all the others waited in ALLREDUCE for ten minutes, and the watchdog ended them.\nWe will raise the limit of memory, and I will add an alert.\n",
    "TODO": "- find out why rank 3 raised RuntimeError: CUDA error: out of memory\n- ask for a new cable, the link between node-7 and node-8 failed\n- raise the timeout to 3600 s\n",
    "CHANGELOG": "v1.3\n  * Fixed the hang of rank 5 (it skipped ALLREDUCE when the batch was empty).\n  * Workers exit with code 0, not 137.\n\nv1.2\n  * Initial release of the trainer.\n",
    "CODEOWNERS": "# who answers when rank 3 is killed\n*       @infra\n/src/   @research\n",
}
