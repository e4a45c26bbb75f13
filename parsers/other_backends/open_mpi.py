"""Errors of MPI that end a process: Open MPI names the call and the error, and aborts the job.

Wordings as logs in public reports quote them; the releases are not known. The last number behind *reported by process* is the rank
in ``MPI_COMM_WORLD``.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, ExceptionRaised
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.patterns import lazy

_ABOVE = 12
"""Lines above the last one of a message in which the rest of it stands, mixed with those of other processes."""

_SPEAKER = lazy(r"(?P<speaker>\[[\w.-]{1,200}:\d{1,10}\]) \*\*\* MPI_ERRORS_ARE_FATAL \(")
_CALL = lazy(r"\*\*\* An error occurred in (?P<call>\w{1,60})")
_PROCESS = lazy(r"\*\*\* reported by process \[\d{1,20},(?P<rank>\d{1,7})\]")
_ERROR = lazy(r"\*\*\* (?P<type>MPI_ERR_\w{1,40}): (?P<message>.{1,200})")
_ECHOES = frozenset({"MPI_ERR_PROC_FAILED", "MPI_ERR_PROC_FAILED_PENDING", "MPI_ERR_PROC_ABORTED", "MPI_ERR_REVOKED"})
"""Errors that report the end of a peer."""


@reads("*** MPI_ERRORS_ARE_FATAL (")
def mpi_errors(line: Line) -> Iterator[Event]:
    """*exception* of the rank whose call failed; ``frame`` is the call of MPI.

    The lines above that one process printed belong to its message.
    """
    speaker = _SPEAKER.search(line.body)
    own = speaker["speaker"] if speaker else "*** "
    said = "\n".join(above.body[:400] for above in line.preceding(_ABOVE) if own in above.body)
    call, process, error = _CALL.search(said), _PROCESS.search(said), _ERROR.search(said)
    kind = error["type"] if error else "MPI error"
    yield ExceptionRaised(
        **common(line, rank=int(process["rank"]) if process else line.mark.rank),
        type=kind,
        message=error["message"].strip() if error else "",
        frame=call["call"] if call else None,
        origin="echo" if kind in _ECHOES else "own",
    )
