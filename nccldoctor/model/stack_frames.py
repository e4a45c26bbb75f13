"""Frames of printed Python stacks, each ``function (file:line)``, and which of them are the user's own code."""

from __future__ import annotations


def _set_of_names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


_PARTS = ("/torch/", "nccldoctor/capture/", "site-packages/", "dist-packages/", "lib/python3")
"""Parts of the paths of installed code."""

_PACKAGES = _set_of_names(
    "torch tqdm numpy transformers trl peft accelerate deepspeed megatron nemo ray lightning pytorch_lightning lightning_fabric",
    "datasets evaluate safetensors huggingface_hub fsspec wandb mlflow horovod vllm sglang jax fastai composer",
    "filelock fasteners portalocker requests urllib3 aiohttp boto3 botocore pandas pyarrow scipy sklearn tensorboard",
    "multiprocessing concurrent importlib asyncio http urllib json logging",
)
"""Installed packages and those of Python's library: py-spy leaves out the folder in which they stand."""

_MODULES = _set_of_names(
    "threading queue selectors connection socket ssl subprocess contextlib functools runpy pdb bdb cmd"
)
"""Modules of Python's library, of which py-spy prints the bare name."""


def is_library(file: str) -> bool:
    """True where the path is that of an installed package or of Python's own library."""
    shown = file.replace("\\", "/")
    root, slash, _ = shown.partition("/")
    is_bare = root in _PACKAGES if slash else root.removesuffix(".py") in _MODULES
    return is_bare or shown.startswith("<") or any(part in f"/{shown}" for part in _PARTS)


def is_user_code(file: str) -> bool:
    """True where the path is that of a Python file of the user."""
    return file.endswith(".py") and not is_library(file)


def innermost(frames: tuple[str, ...]) -> str:
    """The innermost frame of the user's own code, else the innermost one with a name, with the file's name alone.

    ``frames`` are innermost first. Of ``poll (torch/x.py:3)``, ``step (/job/train.py:40)`` it is ``step (train.py:40)``.
    """
    own = next((f for f in frames if ".py:" in f and not is_library(f.rpartition(" (")[2].rpartition(":")[0])), None)
    named = (f for f in frames if not f.startswith(("??", "0x")))
    frame = own or next(named, frames[0] if frames else "")
    name, opening, place = frame.partition(" (")
    return f"{name} ({place.rpartition('/')[2]}" if opening else name


def is_later_line(frame: str, other: str) -> bool | None:
    """True where a frame is at a later line of one function than another one; None where the functions differ."""
    one, two = parse_frame(frame), parse_frame(other)
    if one is None or two is None or one[:2] != two[:2] or one[2] is None or two[2] is None:
        return None
    return one[2] > two[2]


def parse_frame(text: str) -> tuple[str, str, int | None] | None:
    """Function, file and line of ``function (file:line)``; None where the text has another form."""
    name, opening, place = text[:2000].partition(" (")
    if not name or not opening or not place.endswith(")") or len(place) < 2:
        return None
    file, colon, line = place[:-1].rpartition(":")
    if file and colon and line.isdecimal() and len(line) < 10:
        return name[:400], file[:1000], int(line)
    return name[:400], place[:-1][:1000], None
