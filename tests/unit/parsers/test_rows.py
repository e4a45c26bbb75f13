"""What a table of rows can say: patterns for the rest of a line and for lines around it, and fields by groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.logs.log_reading import events

from nccldoctor.events import GpuError, Note, ProcessExit, SocketError
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import LINE_PARSERS, LineParser
from nccldoctor.parsers.rows import FUNCTIONS, add_rows, for_rows, is_read_by


@pytest.fixture
def read(tmp_path: Path) -> Iterator[object]:
    """Reads a text with the parsers of a table."""
    kept = list(registry.line_parsers())

    def of_table(table: str, text: str) -> list[object]:
        path = tmp_path / f"peers{len(list(tmp_path.iterdir()))}_rows.toml"
        path.write_text(table, encoding="utf-8")
        LINE_PARSERS.clear()
        add_rows(path, "tests.peers")
        own: list[LineParser] = list(LINE_PARSERS)
        return list(events(text, parsers=own))

    yield of_table
    LINE_PARSERS[:] = kept


def test_groups_fill_fields_and_the_first_row_counts(read):
    table = r"""
        [peers]
        event = 'socket-error'
        rows = [
          {literal = 'peer', how = 'closed', pattern = 'peer (?P<peer>\w{1,20}) is gone'},
          {literal = 'peer', how = 'other', message = '{n} of {name|a peer}', pattern = 'peer(?: (?P<name>\w{1,9}))?, port (?P<n>\d{1,5})'},
        ]
        """
    first, second, third = read(table, "peer n7 is gone\npeer n8, port 80\npeer, port 80\nno such line\n")
    assert isinstance(first, SocketError)
    assert (first.peer, first.how) == ("n7", "closed")
    assert [(e.how, e.message) for e in (second, third)] == [("other", "80 of n8"), ("other", "80 of a peer")]


def test_a_text_with_a_missing_group_is_left_out(read):
    table = "[peers]\nevent = 'gpu-error'\nrows = [{literal = 'lost', device = 'GPU {n}', pattern = 'lost(?: (?P<n>\\d))?'}]"
    with_number, without = read(table, "lost 3\nlost\n")
    assert isinstance(with_number, GpuError)
    assert (with_number.device, without.device) == ("GPU 3", None)


def test_also_reads_the_rest_of_the_line(read):
    table = r"""
        [peers]
        event = 'socket-error'
        each = {also = ['pid (?P<pid>\d{1,9})', 'host (?P<host>\w{1,9})']}
        rows = [{literal = 'peer is gone', pattern = 'peer is gone'}]
        """
    (event,) = read(table, "host n7: peer is gone (pid 41)\n")
    assert (event.host, event.pid) == ("n7", 41)


def test_near_reads_the_lines_around_and_its_own_groups_win(read):
    table = r"""
        [peers]
        event = 'socket-error'
        around = {block = {below = 3, until = ['peer'], patterns = ['host (?P<host>\w{1,9})', 'peer (?P<peer>\w{1,9})']}}
        rows = [
          {literal = 'lost at', near = 'block', pattern = 'lost at (?P<host>\w{1,9})'},
          {literal = 'lost', near = 'block', pattern = 'lost'},
        ]
        """
    text = "lost\nhost n1\npeer n2\npeer n3\nlost at n9\nhost n1\npeer n2\n"
    assert [(e.host, e.peer) for e in read(table, text)] == [("n1", "n2"), ("n9", "n2")]


def test_near_above_takes_the_nearest_line_beside_the_same_word(read):
    table = r"""
        [peers]
        event = 'exception'
        around = {message = {above = 4, beside = 'who', patterns = ['error (?P<type>\w{1,9})']}}
        rows = [{literal = 'abort', pattern = '(?P<who>\[\w{1,3}\]) abort', near = 'message'}]
        """
    (event,) = read(table, "[a] error First\n[a] error Second\n[b] error Other\n[a] abort\n")
    assert event.type == "Second"


def test_near_joins_lines_and_decides_whether_a_row_fits(read):
    table = r"""
        [peers]
        around = {said = {below = 2, join = true, patterns = ['^- (?P<said>.{1,9})$']}}
        rows = [
          {literal = 'sums', make = 'nothing', pattern = 'sums', near = {below = 1, must = true, patterns = ['none']}},
          {literal = 'sums', what = 'slow', pattern = 'sums', near = {below = 1, must = true, patterns = ['slow']}},
          {literal = 'sums', what = 'said', detail = '{said|nothing}', pattern = 'sums', near = 'said'},
        ]
        """
    assert [(e.what, e.detail) for e in read(table, "sums\n- one\n- two\n")] == [("said", "one two")]
    assert [e.what for e in read(table, "sums\nslow\n")] == ["slow"]
    assert [(e.what, e.detail) for e in read(table, "sums\n")] == [("said", "nothing")]
    assert read(table, "sums\nnone\n- one\n") == []


def test_choose_takes_a_field_by_a_group(read):
    table = r"""
        [peers]
        event = 'exception'
        rows = [{literal = 'MPI', choose = {origin = {by = 'type', MPI_GONE = 'echo', else = 'own'}}, pattern = '(?P<type>MPI_\w{1,9})'}]
        """
    assert [e.origin for e in read(table, "MPI_GONE\nMPI_OTHER\n")] == ["echo", "own"]


def test_the_end_of_a_process_has_code_and_signal(read):
    table = "[ends]\nevent = 'process-exit'\nrows = [{literal = 'killed', pattern = 'killed by (?P<signal>\\w{1,9})'}]"
    (event,) = read(table, "killed by SIGKILL\n")
    assert isinstance(event, ProcessExit)
    assert (event.exitcode, event.signal) == (-9, "SIGKILL")


def test_fields_and_functions_of_rows(read, monkeypatch):
    for name, function in {
        "no_fields": lambda line, hit: None,
        "twice": lambda line, hit: [Note(place=line.place, text="", what=word) for word in ("a", "b")],
        "halves": lambda line: [
            (half, lambda line, hit: {"place": line.place, "text": hit[0]}) for half in line.body.split("|")
        ],
    }.items():
        monkeypatch.setitem(FUNCTIONS, name, function)
    assert read("[none]\nfields = 'no_fields'\nrows = [{literal = 'x', pattern = 'x'}]", "x\n") == []
    made = read("[made]\nrows = [{literal = 'x', make = 'twice', pattern = 'x'}]", "x\n")
    assert [e.what for e in made] == ["a", "b"]
    cut = read(
        "[cut]\npieces = 'halves'\nanchored = true\nliterals = ['x']\nrows = [{what = 'half', pattern = '^x.'}]",
        "x1|y|x2\n",
    )
    assert [e.text for e in cut] == ["x1", "x2"]


def test_another_text_is_read_as_the_field_is(read):
    table = "[ends]\nevent = 'process-exit'\nrows = [{literal = 'ended', exitcode = '{code|7}', pattern = 'ended(?: with (?P<code>\\d))?'}]"
    assert [e.exitcode for e in read(table, "ended\nended with 3\n")] == [7, 3]


def test_common_fields_that_an_event_does_not_have_are_left_out(read, monkeypatch):
    monkeypatch.setitem(FUNCTIONS, "more", lambda line, hit: {"place": line.place, "text": "", "address": "n1:80"})
    table = """
        [more]
        fields = 'more'
        rows = [
          {literal = 'x', what = 'said', pattern = 'x'},
          {literal = 'y', event = 'store-error', operation = 'connect', pattern = 'y'},
        ]
        """
    note, error = read(table, "x\ny\n")
    assert (note.what, error.address) == ("said", "n1:80")


def test_patterns_look_at_the_beginning_of_a_long_line_and_also_at_all_of_it(read):
    table = """
        [peers]
        event = 'socket-error'
        longest = 9
        rows = [{literal = 'lost', also = ['peer (?P<peer>\\w{1,9})'], pattern = 'lost'}]
        """
    (event,) = read(table, "lost then peer n7\nfar far lost\n")
    assert event.peer == "n7"


def test_a_parser_that_no_table_names_reads_nothing():
    with pytest.raises(KeyError, match="no-such-parser"):
        is_read_by("no-such-parser", "peer is gone", SocketError)


def test_two_functions_of_one_name_are_refused():
    def nothing() -> None: ...

    registry.load_parsers()
    with pytest.raises(ValueError, match="two functions for rows are named nothing"):
        for_rows(nothing)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lost]\nrows = [{literal = 'x'}]\n", r"site_rows.toml \[lost\]: TypeError: .*pattern"),
        ("[lost]\nrows = [\n", r"site_rows.toml \[-\]: TOMLDecodeError"),
        ("[lost]\nevent = 'nothing'\nrows = []\n", r"site_rows.toml \[lost\]: KeyError: 'nothing'"),
    ],
)
def test_a_mistake_in_a_table_names_the_file_and_the_section(tmp_path, text, said):
    path = tmp_path / "site_rows.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        add_rows(path, "site")
