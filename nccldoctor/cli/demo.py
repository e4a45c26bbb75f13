"""The bundled incidents: list them, and write one out to be looked at or analysed.

Each is a folder of ``nccldoctor.samples`` (``sample_logs`` in a checkout) with the files of one incident and an
``expected.toml`` that says how it was made and what must be found. The latter never becomes part of the input.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from msgspec import Struct

from nccldoctor.model.errors import InputError, OutputError

DEFAULT = "late-rank-three-groups"
EXPECTED = "expected.toml"


class Sample(Struct, frozen=True):
    """One bundled incident: its name, a sentence about it, and how it was made (``recorded`` or ``written``)."""

    name: str
    about: str
    kind: str


def samples() -> tuple[Sample, ...]:
    """All bundled incidents, by name."""
    notes = {folder.name: folder / EXPECTED for folder in files("nccldoctor.samples").iterdir()}
    told = {name: tomllib.loads(note.read_text(encoding="utf-8")) for name, note in notes.items() if note.is_file()}
    return tuple(Sample(name, told[name]["about"], told[name]["origin"]["kind"]) for name in sorted(told))


def expected(name: str) -> str:
    """The text of ``expected.toml`` of one sample. Raises :class:`InputError` where there is none of that name."""
    return (_sample_folder(name) / EXPECTED).read_text(encoding="utf-8")


def contents(name: str) -> dict[str, bytes]:
    """The files of one sample by path inside it, without ``expected.toml``.

    Raises :class:`InputError` where there is no sample of that name.
    """
    return {path: entry.read_bytes() for path, entry in _walk(_sample_folder(name), "") if path != EXPECTED}


def demo(name: str = DEFAULT, to: str | Path | None = None) -> Path:
    """Write the files of a bundled incident, and return their folder.

    >>> import nccldoctor as nd
    >>> nd.demo("died").as_posix()
    'incident/died'
    >>> nd.analyze(nd.demo("died", to="logs")).verdict.cause.value
    'died'

    They go to ``to``, else to ``incident/NAME`` in the working directory; nothing is overwritten, and the same call again gives the same
    folder. The names are in the list of ``nccldoctor demo --list`` and in the message about a wrong one: raises
    :class:`~nccldoctor.model.errors.InputError` for that, and :class:`~nccldoctor.model.errors.OutputError` where the folder holds other
    files or cannot be written.
    """
    folder = Path("incident", name) if to is None else Path(to)
    write(name, folder)
    return folder


def write(name: str, folder: Path) -> tuple[str, ...]:
    """Write the files of one sample into ``folder``, made if it is missing; their paths inside it.

    Nothing is overwritten: a file that is there already with the same bytes is left alone. Raises
    :class:`OutputError` where it has other bytes, where the folder holds files of something else, or where it
    cannot be written.
    """
    wanted = contents(name)
    way_out = "choose another folder with --to"
    try:
        present = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
        others = [path for path in present if path.as_posix() not in wanted]
        if others:
            raise OutputError(f"{folder} holds other files, such as {others[0]}", way_out)
        for path, content in wanted.items():
            target = folder / path
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            elif target.read_bytes() != content:
                raise OutputError(f"{target} is there already and differs", way_out)
    except OSError as error:
        raise OutputError(f"cannot write the sample to {folder}: {error.strerror}", way_out) from error
    return tuple(wanted)


def _sample_folder(name: str) -> Traversable:
    known = [sample.name for sample in samples()]
    if name not in known:
        raise InputError(f"no sample is called {name!r}", "nccldoctor demo --list shows them: " + ", ".join(known))
    return files("nccldoctor.samples") / name


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry
