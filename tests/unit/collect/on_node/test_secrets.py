"""No secret leaves a node, and the words of training do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from builders.live.fake_ranks import PYSPY, WAIT, Ranks, tool

from nccldoctor.collect.on_node import masking

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


SECRETS = (
    "hunter2hunter2",
    "sk-abcdefghijklmnopqrstuvwx",
    "hf_abcdefghijklmnopqrstuvwx",
    "AKIAABCDEFGHIJKLMNOP",
    "s3cr3t-db-pass",
    "plain0paragraph",
)


def test_no_secret_is_in_the_stream(ranks: Ranks, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        f"using {SECRETS[1]} and {SECRETS[2]}\npostgres://me:{SECRETS[4]}@db/x\nkey {SECRETS[3]}\nAPI_KEY={SECRETS[5]}\nlost {SECRETS[0]}\n"
    )
    script = "import sys; log = open('train.log', 'a')\n" + WAIT
    env = {
        "MY_PASSWORD": SECRETS[0],
        "NCCL_AUTH_TOKEN": SECRETS[3],
        "NCCL_PROXY": f"http://u:{SECRETS[4]}@h",
        "OPENAI_API_KEY": SECRETS[1],
    }
    ranks.start(0, script=script, args=["--hub-token", SECRETS[2], f"--password={SECRETS[5]}", "--lr", "0.1"], **env)
    path = tool(tmp_path / "bin", "py-spy", ('echo "Process $3: $(tr "\\0" " " < /proc/$3/cmdline)"', *PYSPY))
    stream = ranks.collect(PATH=f"{path}:{os.environ['PATH']}")
    assert b"--lr 0.1" in stream.data
    assert "rank-0/logs/train.log" in stream.files()
    assert [secret for secret in SECRETS if secret.encode() in stream.data] == []


def test_words_of_training_are_no_secrets() -> None:
    line = b"tokens per second: 1234 max_tokens=4096 KeyError: 'x' authentication tokenizer=gpt2 [PAD] sort_key\n"
    assert masking.hide_secrets(line) == line
    assert masking.masked_command(["train.py", "--num-tokens", "4096", "--tokenizer", "gpt2", "--key-dim", "64"]) == (
        "train.py --num-tokens 4096 --tokenizer gpt2 --key-dim 64"
    )
