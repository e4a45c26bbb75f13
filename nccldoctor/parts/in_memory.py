"""Reduces files to parts in memory: for any engine that can call a function and move bytes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from nccldoctor.discover.discover import Discovered, Input, discover
from nccldoctor.model import SourceKind
from nccldoctor.model.errors import InputError
from nccldoctor.parts.write import write_part


def inputs_to_reduce(paths: Sequence[str | Path], root: str | Path | None = None) -> tuple[Discovered, int]:
    """What lies under ``paths``, named from ``root`` on, and how many texts the whole job has.

    Raises :class:`~nccldoctor.model.errors.InputError` for a part, a path outside of ``root``, and where nothing is to read.
    """
    whole = discover(paths if root is None else [root])
    own = whole if root is None else replace(whole, inputs=tuple(_below(whole.inputs, paths, Path(root))))
    if own.parts:
        raise InputError(f"{own.parts[0].path} is a part already", "put parts together with nccldoctor merge")
    if not own.inputs:
        raise InputError(f"nothing to read in {', '.join(map(str, paths[:3]))}", "give logs or flight-recorder dumps")
    return own, sum(one.source.kind is not SourceKind.RECORDER for one in whole.inputs)


def _below(inputs: Iterable[Input], paths: Sequence[str | Path], root: Path) -> Iterator[Input]:
    """The inputs at these paths and below them."""
    try:
        wanted = {Path(path).absolute().relative_to(root.absolute()).as_posix() for path in paths}
    except ValueError as error:
        raise InputError(f"{error}"[:200], "name files and folders below root") from None
    for one in inputs:
        path = PurePosixPath(one.source.path)
        if not wanted.isdisjoint(map(str, (path, *path.parents))):
            yield one


def reduce(
    paths: str | Path | Sequence[str | Path],
    *,
    root: str | Path | None = None,
    name: str = "part",
    workers: int | None = None,
) -> bytes:
    """Read some files of a job to a part: bytes for :func:`~nccldoctor.merge`, masked like a report.

    >>> import nccldoctor as nd
    >>> logs = nd.demo("died")
    >>> parts = [nd.reduce(logs / folder, root=logs) for folder in ("node0", "node1", "dumps")]
    >>> nd.merge(parts).verdict.ranks
    Ranks('3')

    ``root`` is the folder of the whole job, the same in each call: all names in it are listed, and any grouping of its files gives the
    report of one run. Without it files are named from ``paths`` on, and parts whose ``name`` is a host's are told apart by it.
    ``workers`` are threads and processes (default: one for each core). Memory does not grow with the number of dumps, but the part
    itself is held.

    Raises :class:`~nccldoctor.model.errors.InputError` for a path that does not exist, is a part, or holds nothing to read.
    """
    file = io.BytesIO()
    inputs, texts = inputs_to_reduce([paths] if isinstance(paths, str | Path) else paths, root)
    write_part(inputs, file, name, workers, texts_in_all=texts)
    return file.getvalue()
