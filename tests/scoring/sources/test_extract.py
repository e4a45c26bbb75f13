"""The texts that a library can print are found in its sources, and counted by what gives them a role."""

from __future__ import annotations

from pathlib import Path

from scoring.sources import extract

CPP = """
#define WARN(...) log(__FILE__, __VA_ARGS__)
ncclResult_t twist(int n) {
  if (n > 3) {
    WARN("Twist of %d turns (limit %5.1f) is "
         "too long for %s", n, limit(n, ")"), name);
    return ncclInvalidArgument;
  }
  // WARN("never printed");
  WARN("%s", "");
}
"""
GLOO = 'GLOO_ENFORCE(n != 0, "No pair for rank ", n, ": ", strerror(errno));'
PYTHON = """
def load(path, log):
    log.warning("shard %s is empty", path)
    log.info("not a warning")
    if not path:
        raise ValueError(f"no shard for rank {path}")
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_text_is_put_together_with_values_for_its_placeholders(tmp_path: Path) -> None:
    found = extract.texts_of("nccl", write(tmp_path, {"src/misc/twist.cc": CPP, "src/test/twist.cc": CPP}))
    assert [(t.file, t.line, t.words) for t in found] == [
        ("src/misc/twist.cc", 5, "Twist of 17 turns (limit 1.5) is too long for abc")
    ]


def test_streamed_parts_and_python_count_too(tmp_path: Path) -> None:
    write(tmp_path, {"gloo/rendezvous/pairs.cc": GLOO, "torch/distributed/shards.py": PYTHON})
    assert [t.words for t in extract.texts_of("gloo", tmp_path)] == ["No pair for rank 17:"]
    assert sorted(t.words for t in extract.texts_of("torch", tmp_path)) == [
        "no shard for rank 17",
        "shard abc is empty",
    ]


def test_the_table_counts_words_files_and_the_rest() -> None:
    texts = [
        extract.Text("nccl", "src/misc/nvmlwrap.cc", 4, "the GPU is lost"),
        extract.Text("nccl", "src/proxy.cc", 9, "List loop at element 3"),
        extract.Text("nccl", "src/new/thing.cc", 9, "odd state 3"),
    ]
    assert list(extract.rows([("nccl", "9.9", texts)]))[-1] == "| nccl | 9.9 | 3 | 67 % | 1 | 1 | 1 |"
