"""The lines that reports quote: which of them to read a second time, and the diagnosis with them in place."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model import Diagnosis
from nccldoctor.model.excerpts import Excerpts
from nccldoctor.summarise.last_lines import Silence, last_lines
from nccldoctor.summarise.proof.quotes import filled, wanted_lines


class Quotations(Struct, frozen=True):
    """What to read again for a diagnosis: the lines of its exhibits, and those around the silences ``quiet``."""

    quiet: tuple[Silence, ...] = ()

    def lines_of(self, diagnosis: Diagnosis) -> dict[int, set[int]]:
        """The lines to read again, by source id."""
        wanted = wanted_lines(diagnosis.proof)
        for silence in self.quiet:
            wanted.setdefault(silence.source, set()).update(silence.lines_to_read)
        return wanted

    def put_into(self, diagnosis: Diagnosis, excerpts: Excerpts) -> Diagnosis:
        """The diagnosis with the lines of its exhibits, and those around the silences, as they stand in the files."""
        around = (last_lines(silence, excerpts) for silence in self.quiet)
        return replace(
            diagnosis,
            proof=tuple(filled(exhibit, excerpts) for exhibit in diagnosis.proof),
            last_lines=tuple(lines for lines in around if lines is not None),
        )
