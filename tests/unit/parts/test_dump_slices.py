"""Dumps that are written to a part come back as they were, and what ranks have in common is written once."""

from __future__ import annotations

import numpy as np
from builders.files.dumps import dump, entry, list_dump
from builders.jobs.cases import read_dump
from msgspec.structs import replace

from nccldoctor.discover.discover import NamedFile
from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import (
    UNSET,
    Batch,
    Calls,
    CommState,
    DumpHead,
    GroupStatus,
    Vocabulary,
)
from nccldoctor.parsers.base import Parsed
from nccldoctor.parts import dump_slices
from nccldoctor.parts.dump_slices import DumpSliceReader, DumpSliceWriter, StoredDump
from nccldoctor.parts.input_records import InputRecord, input_record, pack_inputs, unpack_inputs


def _there_and_back(*slices: list[Batch]) -> list[tuple[Batch, StoredDump, bytes]]:
    writer, reader, out = DumpSliceWriter(), DumpSliceReader(), []
    for batches in slices:
        calls, times = writer.pack(list(enumerate(batches)))
        out += [(batch, stored, times) for batch, stored in zip(batches, reader.unpack(calls), strict=True)]
    return out


def _assert_equal(batch: Batch, stored: StoredDump, times: bytes) -> None:
    found = stored.columns | stored.times(times)
    for name in Calls.__struct_fields__:
        if name != "dump":
            expected = getattr(batch.calls, name)
            assert found[name].dtype == expected.dtype
            assert np.array_equal(found[name], expected, equal_nan=name == "duration_ms")
    assert stored.words == batch.vocabulary
    assert stored.head == replace(batch.dumps[0], source=UNSET, path="")


def test_every_form_of_dump_comes_back() -> None:
    comm = CommState("0x7f", 3, 8, 12, 11, "ALLREDUCE", 512, "float32", uneven=True)
    plain = read_dump(dump(), 4, "a")
    batches = [
        plain,
        read_dump(list_dump(), 5, "b"),
        read_dump(dump(entry(1, "gloo:send 0->1", is_p2p=True, p2p_seq_id=7), entry(2, frames=[])), 6, "c"),
        Batch(
            (replace(plain.dumps[0], comms=(comm,), status=(GroupStatus(0, 5, -1, 4),)),), plain.calls, plain.vocabulary
        ),
        Batch((replace(plain.dumps[0], entries=0, problem="truncated"),), Calls.empty(), Vocabulary()),
        read_dump(dump(entry(1, duration_ms=1.25, time_created_ns=0), entry(2, state="started")), 7, "d"),
    ]
    for batch, stored, times in _there_and_back(batches[:3], batches[3:]):
        _assert_equal(batch, stored, times)


def test_ranks_with_the_same_calls_share_their_columns() -> None:
    entries = [entry(seq) for seq in range(1, 200)]
    later = [one | {"time_created_ns": one["time_created_ns"] + 12_345} for one in entries]
    first, second = (read_dump(dump(*rows), 0, "") for rows in (entries, later))
    (_, one, _), (_, other, times) = _there_and_back([first], [second])
    writer = DumpSliceWriter()
    writer.pack([(0, first)])

    assert one.columns is other.columns
    assert len(writer.pack([(1, second)])[0]) < 2_000
    _assert_equal(second, other, times)


def test_a_part_holds_every_field_of_a_dump_and_of_a_file() -> None:
    own = {*dump_slices._AS_IT_IS, "config", "status", "comms"}
    decided_later = {"source", "path", "only_retires", "hides_transfers", "unread"}
    assert set(DumpHead.__struct_fields__) == own | decided_later
    assert set(Vocabulary.__struct_fields__) == {"groups", *dump_slices.WORDS.values()}
    assert set(Parsed.__struct_fields__) - {"source", "events", "batch"} <= set(InputRecord.__struct_fields__)


def test_a_gap_keeps_all_that_is_known_of_it() -> None:
    gap = Gap("files of the job with PORT=7", "left out", Ranks([2, 3]), 4, apart=True, beside=True, in_folders=True)
    source = Source(4, "rank2.log", SourceKind.LOG, 10)
    record = input_record(NamedFile("rank2.log", "rank2.log", SourceKind.LOG, 10), Parsed(source, gaps=(gap,)), False)
    (stored,) = unpack_inputs(pack_inputs([record]))

    assert stored.parsed(replace(source, id=9), ()).gaps == (replace(gap, source=9),)
