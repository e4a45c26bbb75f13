"""Reads all inputs into events and tables of calls: each file by its parser, and failures as Gaps.

Recorder dumps are read by child processes with limits, text meanwhile by threads (the search releases the interpreter lock). Results
are put together in the order of the sources, whatever finished first.
"""

from __future__ import annotations

import gc
import io
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.discover.discover import Discovered, Input
from nccldoctor.discover.filename_hints import OWN_RULE
from nccldoctor.discover.streams import HEAD, Rejoined, peek, problem_of, reader
from nccldoctor.events import ProcessState, Stack, Version, Writer
from nccldoctor.ingest.progress import InputProgress, ReadingProgress, Tell
from nccldoctor.ingest.read_before import ReadBefore
from nccldoctor.model import Gap, Source, SourceKind, SourceRole
from nccldoctor.model.recorded_calls import Batch, merge
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import FileParser, Parsed
from nccldoctor.parsers.engine.effort import Effort, shared_by
from nccldoctor.parsers.engine.known_formats import format_of_binary, format_of_text
from nccldoctor.parsers.engine.scan import scan
from nccldoctor.parsers.flight_recorder.dump import NOT_A_DUMP, is_named_for_dump
from nccldoctor.parsers.flight_recorder.process import Limits
from nccldoctor.parsers.flight_recorder.sandbox import DumpFile, loading
from nccldoctor.parsers.kernel.prefix import is_kernel_log, is_rest_of_kernel_log

LARGEST_WHOLE = 64 << 20
"""Largest file given whole to a parser of files; larger ones are read as text."""

WORTH_A_THREAD = 64 << 20
"""Bytes of a file, or unpacked of an archive, from which on it's worth a thread: then the search and the unpacking, which run beside
others, are most of the work. Threads of smaller files take the interpreter from each other: 16 files of 16 MB took half as
much processor time again, and no less time."""

UNPACKED = 8
"""Bytes of text in one byte of a packed log, about."""

NAMED = 20
"""Files with the same problem that are named one by one."""


class Ingested(Struct, frozen=True):
    """Everything that was read.

    ``parsed`` has one item for each input, in order, without its calls; ``batch`` holds the calls of all dumps; ``gaps`` what was not read.
    """

    parsed: tuple[Parsed, ...]
    batch: Batch
    gaps: tuple[Gap, ...]


def ingest(
    discovered: Discovered,
    workers: int | None = None,
    on_progress: Tell | None = None,
    limits: Limits | None = None,
    before: ReadBefore | None = None,
) -> Ingested:
    """Read all inputs with at most ``workers`` threads and child processes (default: the cores, at most 8).

    ``on_progress`` is called with the bytes read and of all inputs, from any thread, one call at a time. Texts that ``before``
    knows are not read again. No file can make this raise; what raises all the same, such as Ctrl-C, ends threads and child processes.
    """
    if before is not None:
        before.begin()
    parsed = read_inputs(discovered.inputs, workers, on_progress, limits, before)
    has_texts = any(i.source.kind is not SourceKind.RECORDER for i in discovered.inputs)
    return put_together(parsed, (*discovered.gaps, *(registry.load_parsers() if has_texts else ())))


def read_inputs(
    inputs: Sequence[Input],
    workers: int | None = None,
    on_progress: Tell | None = None,
    limits: Limits | None = None,
    before: ReadBefore | None = None,
    texts_in_all: int | None = None,
) -> list[Parsed]:
    """What each input holds, in order, before anything is decided across inputs; see :func:`ingest`.

    ``texts_in_all`` is how many texts share the budgets of all texts (default: those among the inputs).
    """
    progress = ReadingProgress((one.source.size for one in inputs), on_progress)
    try:
        return _read_texts_and_dumps(inputs, workers, progress, limits, before, texts_in_all)
    except BaseException:
        progress.give_up()
        raise


def _read_texts_and_dumps(
    inputs: Sequence[Input],
    workers: int | None,
    progress: ReadingProgress,
    limits: Limits | None,
    before: ReadBefore | None,
    texts_in_all: int | None,
) -> list[Parsed]:
    with collector_off():
        dumps = [i for i in inputs if i.source.kind is SourceKind.RECORDER]
        texts = [i for i in inputs if i.source.kind is not SourceKind.RECORDER]
        files = [
            DumpFile(i.source.id, i.source.path, i.open, i.file, (i.lane, i.turn) if i.lane else None) for i in dumps
        ]
        with loading(files, workers, limits, lambda n: progress.count_bytes(dumps[n].source.size)) as loaded:
            results = {
                parsed.source.id: parsed for parsed in _read_texts(texts, workers, progress, before, texts_in_all)
            }
            batches = loaded()
        no_dumps: list[Input] = []
        for one, batch in zip(dumps, batches, strict=True):
            problem = batch.dumps[0].problem
            if not problem.startswith(NOT_A_DUMP):
                results[one.source.id] = Parsed(one.source, batch=batch)
            elif batch.dumps[0].form == "json":
                no_dumps.append(one)
            else:
                results[one.source.id] = _nothing(one.source, SourceKind.UNKNOWN, problem)
        results |= {parsed.source.id: parsed for parsed in _read_texts(no_dumps, workers, progress, before, None)}
        return [results[i.source.id] for i in inputs]


def put_together(parsed: Sequence[Parsed], gaps: Sequence[Gap]) -> Ingested:
    """Everything that was read of some inputs, in the order of their sources, with ``gaps`` before their own.

    What is decided across inputs is decided here: whether people are heard, which gaps are named, what dumps show of their backend.
    """
    with collector_off():
        parsed = _ranked_by_dumps(parsed)
        batches = [one.batch for one in parsed if one.batch is not None]
        heard = _heard(
            [one if one.batch is None else replace(one, batch=None) for one in parsed], has_dumps=bool(batches)
        )
        told = (*gaps, *_grouped(gap for one in heard for gap in one.gaps))
        return Ingested(tuple(heard), merge(batches), told)


def _ranked_by_dumps(parsed: Sequence[Parsed]) -> list[Parsed]:
    """The same with the ranks that dumps say they are of: in a communicator, where it is the only one."""
    told = {one.source.id: one.batch for one in parsed if one.batch is not None and one.batch.dumps[0].rank is not None}
    inside = [batch.vocabulary.groups for batch in told.values() if not batch.dumps[0].config]
    is_one = len({uid.partition("/")[0] for groups in inside for uid, _ in groups}) == 1
    ranks = {n: batch.dumps[0].rank if is_one or batch.dumps[0].config else None for n, batch in told.items()}
    return [
        replace(one, source=replace(one.source, rank=ranks[one.source.id], why="what it recorded"))
        if one.source.id in ranks and one.source.why != OWN_RULE
        else one
        for one in parsed
    ]


def _heard(parsed: list[Parsed], *, has_dumps: bool) -> list[Parsed]:
    """What was read, with no word of people about what happened.

    A write-up that quotes a log is heard only where nothing else was given: then somebody asks about the quoted lines. Beside code or
    output it may tell of another day.
    """
    is_alone = not has_dumps and all(one.source.kind.role is SourceRole.PROSE for one in parsed if one.source.size)
    out = []
    for one in parsed:
        role = one.source.kind.role
        if role is SourceRole.PROSE and is_alone:
            out.append(replace(one, source=replace(one.source, kind=_kind_by_events(one))))
        else:
            out.append(one if role is SourceRole.OUTPUT else _settings_only(one))
    return out


def _settings_only(parsed: Parsed) -> Parsed:
    """What a script, a configuration or a note says: its settings and advice, of no rank."""
    events = tuple(replace(event, rank=None) for event in parsed.events if not event.is_testimony)
    why = f"looks like {_WORDS.get(parsed.source.kind, f'a {parsed.source.kind}')}: only its settings were used"
    return replace(
        parsed,
        source=replace(parsed.source, rank=None, local_rank=None, attempt=None),
        events=events,
        gaps=(*(gap for gap in parsed.gaps if not gap.holes), Gap(parsed.source.path, why, source=parsed.source.id)),
        candidates=len(events),
        understood=len(events),
        first_unknown="",
        first_unknown_at=None,
        unexplained=(),
    )


_WORDS = {
    SourceKind.CODE: "source code",
    SourceKind.NOTES: "notes of a person",
    SourceKind.BUILD: "output of a build or of tests",
    SourceKind.DATA: "data of a program",
}


@contextmanager
def collector_off() -> Iterator[None]:
    """Runs without the garbage collector, which would walk all that was read again and again for no cycle."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read_texts(
    texts: Sequence[Input],
    workers: int | None,
    progress: ReadingProgress,
    before: ReadBefore | None,
    texts_in_all: int | None,
) -> Iterator[Parsed]:
    """Everything but dumps, in threads; the members of one archive by one thread, in their order."""
    lanes: dict[int, list[Input]] = defaultdict(list)
    for one in sorted(texts, key=lambda one: (one.turn, one.source.id)):
        lanes[one.lane or -1 - one.source.id].append(one)

    effort = shared_by(texts_in_all or len(texts))

    def run(lane: list[Input]) -> list[Parsed]:
        out = []
        for one in lane:
            if progress.is_given_up:
                break
            with InputProgress(one.source.size, progress) as own:
                read = partial(_read_text, effort=effort, progress=own)
                out.append(read(one) if before is None else before.parsed(one, effort, read))
        return out

    texts_in = (
        sum(one.source.size * (1 if one.file is not None else UNPACKED) for one in lane) for lane in lanes.values()
    )
    worth = sum(size >= WORTH_A_THREAD for size in texts_in)
    threads = max(1, min(workers or os.cpu_count() or 1, 8, worth))
    if threads == 1:
        for lane in lanes.values():
            yield from run(lane)
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in pool.map(run, lanes.values()):
            yield from done


def _read_text(one: Input, effort: Effort, progress: InputProgress) -> Parsed:
    source = one.source
    if source.kind is SourceKind.EMPTY:
        return Parsed(source) if source.collected is not None else _nothing(source, SourceKind.EMPTY, "empty")
    if source.kind is SourceKind.UNKNOWN:
        try:
            with one.open() as stream:
                name = format_of_binary(peek(stream)[0])
        except OSError:
            name = ""
        why = f"looks like {name}, a format we don't read" if name else "binary, unknown format"
        found = _nothing(one.source, SourceKind.UNKNOWN, why)
        return replace(found, gaps=(replace(found.gaps[0], looks_like=name),))
    try:
        parsed = _accounted(*_parse(one, effort, progress))
    except OSError as error:
        return _nothing(source, SourceKind.UNREADABLE, f"cannot be read: {error.strerror or error}"[:200], lost=True)
    except Exception as error:  # one file must not cost the others, whatever its parser stumbled over
        return _nothing(source, source.kind, f"reading it failed: {type(error).__name__}", lost=True)
    if parsed.source.kind.role is not SourceRole.OUTPUT:
        return parsed
    kind = _kind_by_events(parsed)
    return parsed if kind is parsed.source.kind else replace(parsed, source=replace(parsed.source, kind=kind))


def _parse(one: Input, effort: Effort, progress: InputProgress) -> tuple[Parsed, bytes]:
    """What the parsers of a file say, and its first bytes.

    Nobody opens a member of an archive again: that would read the archive again.
    """
    source = one.source
    with one.open() as stream:
        head, rejoined = peek(stream)
        whole = io.BytesIO(head) if len(head) < HEAD else reader(progress.watched(rejoined))
        parser = _owner(head, source.path)
        content = whole.read(LARGEST_WHOLE + 1) if parser is not None else b""
        if parser is not None and len(content) <= LARGEST_WHOLE:
            is_output = source.kind.role is SourceRole.OUTPUT
            parsed = parser.parse(source if is_output else replace(source, kind=SourceKind.LOG), content)
        else:
            as_text = replace(source, kind=SourceKind.LOG) if source.kind is SourceKind.RECORDER else source
            parsed = scan(as_text, reader(Rejoined(content, whole)) if content else whole, effort=effort)
        problem = problem_of(stream)
    if not problem:
        return parsed, head
    return replace(parsed, gaps=(*parsed.gaps, Gap(source.path, problem, source=source.id, lost=True))), head


def _accounted(parsed: Parsed, head: bytes) -> Parsed:
    """The parsed file, with a gap where nothing of it, or less than half, was understood."""
    said = sum(event.is_testimony for event in parsed.events)
    if (
        parsed.source.kind.role is not SourceRole.OUTPUT
        or (parsed.source.collected is not None and parsed.source.collected.kind not in ("", "log"))
        or parsed.gaps
        or (said and 2 * parsed.understood >= parsed.candidates)
    ):
        return parsed
    name = format_of_text(head)
    if not said and parsed.source.rank is None:
        if is_kernel_log(head):
            return replace(parsed, source=replace(parsed.source, kind=SourceKind.KERNEL_LOG))
        if not name and is_rest_of_kernel_log(parsed.source.path, head.decode("utf-8", "replace")):
            return _nothing(
                parsed.source, SourceKind.KERNEL_LOG, "named for a kernel log, and holds no line of one", lost=True
            )
    if said and not name:
        return parsed
    silent = "no line shows how the job ended" if parsed.understood else "none of its lines has a known format"
    if name and parsed.understood:
        why = f"looks like {name}; {'some lines were not parsed' if said else silent}"
    else:
        why = f"looks like {name}; none of it was parsed" if name else silent
    is_lost = not parsed.understood and is_named_for_dump(parsed.source.path)
    gap = Gap(parsed.source.path, why, source=parsed.source.id, looks_like=name, lost=is_lost)
    return replace(parsed, gaps=(gap,))


def _owner(head: bytes, path: str) -> FileParser | None:
    for parser in registry.file_parsers():
        try:
            if parser.claims(head, path):
                return parser
        except Exception:  # a parser that fails on a head does not own the file
            continue
    return None


def _kind_by_events(parsed: Parsed) -> SourceKind:
    """The kind of a text by its events; a text without events keeps its kind."""
    events = parsed.events
    if any(isinstance(e, Stack) for e in events) and all(isinstance(e, Stack | Version) for e in events):
        return SourceKind.STACKS
    if events and all(isinstance(e, ProcessState) for e in events):  # the error of a stack tool, or what ps prints
        return SourceKind.STACKS
    if events and all(e.written_by is Writer.KERNEL for e in events):
        return SourceKind.KERNEL_LOG
    return SourceKind.LOG if parsed.lines and events else parsed.source.kind


def _nothing(source: Source, kind: SourceKind, why: str, lost: bool = False) -> Parsed:
    return Parsed(replace(source, kind=kind), gaps=(Gap(source.path, why, source=source.id, lost=lost),))


def _grouped(gaps: Iterator[Gap]) -> list[Gap]:
    """The gaps, with at most :data:`NAMED` files named for the same reason."""
    by_reason: dict[str, int] = defaultdict(int)
    out = []
    for gap in gaps:
        by_reason[gap.why] += 1
        if by_reason[gap.why] <= NAMED:
            out.append(gap)
    out.extend(Gap(f"{n - NAMED} more files", why) for why, n in by_reason.items() if n > NAMED)
    return out
