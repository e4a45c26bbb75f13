"""The answer of an analysis, as text, JSON, Markdown, HTML, in a notebook and as pandas frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from nccldoctor.events import RasStatus
from nccldoctor.identify.case import Case
from nccldoctor.ingest.excerpts import LineReader
from nccldoctor.model import Diagnosis, Finding
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.summarise.quotations import Quotations
from nccldoctor.words.sanitize import line

if TYPE_CHECKING:
    import pandas as pd

    from nccldoctor.reports.plotly.figures import Plots
    from nccldoctor.reports.source_lines import SourceLines

FRAMES = (
    "calls",
    "ranks",
    "waits",
    "tracks",
    "events",
    "findings",
    "hypotheses",
    "evidence",
    "groups",
    "coverage",
    "remedies",
)
"""The properties of an incident that are frames."""

WIDTH = 100
"""Characters of a line of text by default."""


class Incident(Struct, frozen=True, dict=True):
    """The answer of :func:`nccldoctor.analyze`: the diagnosis, and the case that it rests on.

    >>> import nccldoctor as nd
    >>> incident = nd.analyze(nd.demo("died"))
    >>> incident.verdict.headline
    'Rank 3 (node0) was killed by SIGKILL before ALLREDUCE #9 of DP 10.'
    >>> incident.verdict.ranks, incident.verdict.confidence.value
    (Ranks('3'), 'high')
    >>> incident.ranks.set_index("global_rank").role.to_dict()[3]
    'culprit'

    Each frame (``calls``, ``ranks``, ``waits``, ``tracks``, ``events``, ``findings``, ``hypotheses``, ``evidence``, ``groups``,
    ``coverage``, ``remedies``) is built on first use; every access returns a copy. Columns and units: :mod:`nccldoctor.dataframes`.

    ``unquoted`` is the diagnosis before the lines that it quotes are read again: all that the JSON document and the frames hold.
    """

    unquoted: Diagnosis
    case: Case
    _lines: LineReader | None = None
    _quotations: Quotations | None = None

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis with the lines that it quotes; they are read from the files on first use."""
        if self._lines is None or self._quotations is None:
            return self.unquoted
        return self._quotations.put_into(self.unquoted, self._lines(self._quotations.lines_of(self.unquoted)))

    @cached_property
    def _built_frames(self) -> dict[str, pd.DataFrame]:
        return {}

    @property
    def verdict(self) -> Finding:
        """The first finding, which speaks for the whole job."""
        return self.unquoted.verdict

    def to_json(self) -> str:
        """The document of ``analyze --format json``, byte for byte (``schema/analyze.json``)."""
        from nccldoctor.reports import json_document

        return json_document.to_json(self.unquoted)

    def to_attribution(self) -> str:
        """What to leave out of the next run, as data: the document of ``analyze --format attribution``."""
        from nccldoctor.reports import attribution

        return attribution.to_json(self.unquoted)

    def to_parquet(self, folder: str | Path) -> list[Path]:
        """Write each frame to ``folder`` as NAME.parquet, for other tools; the paths.

        The folder is made where it is missing; files of these names are replaced. Needs pyarrow (extra ``parquet``); raises
        :class:`~nccldoctor.model.errors.OutputError` where that is missing or the folder cannot be written.
        """
        from nccldoctor import dataframes

        return dataframes.write_parquet({name: getattr(self, name) for name in FRAMES}, Path(folder))

    def to_markdown(self) -> str:
        """The ticket text: Markdown of at most 2,000 characters."""
        return self.to_ticket("md")

    def to_ticket(self, dialect: str = "github") -> str:
        """The ticket text for ``github``, ``jira``, ``slack`` or ``md``: at most 2,000 characters.

        Raises :class:`~nccldoctor.model.errors.NccldoctorError` for any other word.
        """
        from nccldoctor.reports import dialects, ticket

        if dialect not in dialects.DIALECTS:
            raise NccldoctorError(f"there is no dialect {dialect!r}", f"choose one of {', '.join(dialects.DIALECTS)}")
        return ticket.in_dialect(self.diagnosis, dialects.DIALECTS[dialect])

    def to_form(self, form: str) -> str:
        """The issue form of a project as Markdown: ``pytorch``, ``nccl``, ``vllm``, ``verl``, ``deepspeed`` or ``hpc-desk``.

        Raises :class:`~nccldoctor.model.errors.NccldoctorError` for any other word.
        """
        from nccldoctor.reports import forms

        if form not in forms.FORMS:
            raise NccldoctorError(f"there is no form {form!r}", f"choose one of {', '.join(forms.FORMS)}")
        return forms.filled(form, self.diagnosis, self.case.events, self._lines)

    def to_full_markdown(self) -> str:
        """The whole report as Markdown."""
        from nccldoctor.reports import markdown

        return markdown.full(self.diagnosis)

    def to_html(self) -> str:
        """The report as one HTML page that loads nothing and needs no script."""
        from nccldoctor.reports import html

        return html.page(self.diagnosis)

    def source(self, name: str, context: int = 5) -> SourceLines:
        """The lines of an exhibit (``"A"``) or of a piece of evidence, read again.

        ``"E3"`` is the third piece of the verdict's evidence, ``"F2.E1"`` the first of finding F2: the ids of the JSON document.
        ``context`` lines before and after them are shown too; of a dump the entry in words, with its number for that of a line. Raises
        :class:`~nccldoctor.model.errors.NccldoctorError` for a name that the incident does not have, and where the file is gone.
        """
        from nccldoctor.reports import source_lines

        return source_lines.read_again(self.diagnosis, self._lines, name, context)

    def redacted(self, what: Sequence[str]) -> Incident:
        """A copy for sharing: ``what`` names ``hosts``, ``users``, ``paths``, ``addresses``; each gets a stand-in.

        The same thing has the same stand-in everywhere: in reports, figures, frames and the case.
        Raises :class:`~nccldoctor.model.errors.NccldoctorError` for a word that is none of these four.
        """
        from nccldoctor.reports.parts import redact

        of_ranks = self.case.rank_host.values()
        of_events = (event.host for event in self.case.events if event.host)
        of_ras = (host for report in self.case.of(RasStatus) for _, host, _ in report.processes)
        pods = (name for pair in self.case.pods.nodes.items() for name in pair if name)
        hosts = dict.fromkeys((*of_ranks, *of_events, *of_ras, *pods))
        return Incident(*redact.redacted_with(self.diagnosis, self.case, hosts, what))

    @property
    def plot(self) -> Plots:
        """Figures: ``inc.plot.timeline()``, ``progress()``, ``lateness()``, ``streams()``.

        They are returned, never shown by themselves; ``inc.plot.dark`` gives them on a dark ground.
        """
        from nccldoctor.reports.plotly.figures import Plots

        return Plots(self.unquoted)

    def to_text(self, *, width: int = WIDTH, color: bool = False, ascii_only: bool = False) -> str:
        """The terminal summary in brief: lines of at most ``width`` characters, with ANSI colours where ``color`` is set."""
        from nccldoctor.reports import text

        shown = text.colored if color else text.plain
        return shown(self.diagnosis, width=width, ascii_only=ascii_only, blocks=text.BRIEF)

    def to_full_text(self, *, width: int = WIDTH, color: bool = False, ascii_only: bool = False) -> str:
        """The terminal summary with its proof, the ranks and the doubts, as ``analyze -v`` prints it."""
        from nccldoctor.reports import text

        shown = text.colored if color else text.plain
        return shown(self.diagnosis, width=width, ascii_only=ascii_only, blocks=text.WHOLE)

    def _repr_html_(self) -> str:
        from nccldoctor.reports import html

        return html.card(self.diagnosis)

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def __repr__(self) -> str:
        verdict = self.verdict
        return f"<Incident {verdict.cause.value}, confidence {verdict.confidence.value}: {line(verdict.headline, 160)}>"

    @property
    def calls(self) -> pd.DataFrame:
        """Every recorded call, in the order of the dumps."""
        return self._frame("calls", self.case)

    @property
    def events(self) -> pd.DataFrame:
        """The events of the log lines, in the order of the input."""
        return self._frame("events", self.case)

    @property
    def ranks(self) -> pd.DataFrame:
        """Where each rank stands."""
        return self._frame("ranks", self.unquoted)

    @property
    def waits(self) -> pd.DataFrame:
        """One row per rank of each stalled call: whether it made the call, whom it waits for, how long."""
        return self._frame("waits", self.unquoted)

    @property
    def tracks(self) -> pd.DataFrame:
        """What each rank did, in order, between which times, and by which line or entry that is known."""
        return self._frame("tracks", self.case)

    @property
    def findings(self) -> pd.DataFrame:
        """The findings, the verdict first."""
        return self._frame("findings", self.unquoted)

    @property
    def hypotheses(self) -> pd.DataFrame:
        """Every hypothesis that was weighed, with its fate."""
        return self._frame("hypotheses", self.unquoted)

    @property
    def evidence(self) -> pd.DataFrame:
        """The evidence of each finding, with file and line."""
        return self._frame("evidence", self.unquoted)

    @property
    def groups(self) -> pd.DataFrame:
        """The process groups."""
        return self._frame("groups", self.unquoted)

    @property
    def coverage(self) -> pd.DataFrame:
        """The coverage: expected and found ranks of each kind of input."""
        return self._frame("coverage", self.unquoted)

    @property
    def remedies(self) -> pd.DataFrame:
        """The remedies, best fit first."""
        return self._frame("remedies", self.unquoted)

    def _frame(self, name: str, source: Case | Diagnosis) -> pd.DataFrame:
        from nccldoctor import dataframes

        if name not in self._built_frames:
            self._built_frames[name] = getattr(dataframes, name)(source)
        return self._built_frames[name].copy()
