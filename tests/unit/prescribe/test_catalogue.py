from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from nccldoctor.cli.app import cli
from nccldoctor.model.errors import CatalogueError
from nccldoctor.prescribe.catalogue import load as load_module
from nccldoctor.prescribe.catalogue.load import BUILT_IN, line_of, load_catalogue
from nccldoctor.prescribe.catalogue.pages import remedy_page
from nccldoctor.prescribe.catalogue.remedy import TOPICS, Step, remedy_of
from nccldoctor.prescribe.catalogue.schema import mistakes_of
from nccldoctor.prescribe.catalogue.words import PLACEHOLDERS, code_span, fill, fill_command, fill_in_words, step_line
from nccldoctor.prescribe.setting_table import look_up

CATALOGUE = load_catalogue()
ENTRIES = {entry.remedy.id: entry for entry in CATALOGUE.entries}
VARIABLE = re.compile(r"\b(?:NCCL|TORCH|TORCHELASTIC|GLOO)_[A-Z0-9_]{2,}\b")

GOOD = """id = "disk-full"
title = "The disk is full"
summary = "Nothing can be written."
status = "common"
prior = 0.5
fix = ["Make room."]

[[conditions.all]]
finding = { class = ["raised"] }

[[conditions.any]]
exception = { of = "culprit", message = ["No space left"] }

[[sources]]
url = "https://example.org/disk"
seen = 2026-11-20
"""


def write(folder: Path, text: str, name: str = "disk-full", topic: str = "process") -> Path:
    (folder / topic).mkdir(parents=True, exist_ok=True)
    (folder / topic / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


def words_of(entry, *blocks):
    held = [getattr(entry.remedy, block) for block in blocks]
    return "\n".join(str(part) for block in held for part in (block if isinstance(block, tuple) else (block,)))


def test_the_built_in_catalogue_is_whole():
    assert len(CATALOGUE.entries) >= 78
    assert {entry.topic for entry in CATALOGUE.entries} == set(TOPICS)
    assert sum(entry.is_discouraged for entry in CATALOGUE.entries) >= 15
    on_disk = {path.stem for path in BUILT_IN.glob("*/*.toml")}
    assert on_disk == set(ENTRIES)


@pytest.mark.parametrize("id_", sorted(ENTRIES))
def test_a_remedy_says_what_to_do(id_):
    entry = ENTRIES[id_]
    if entry.is_discouraged:
        assert len(entry.remedy.avoid) == 1, "it is answered in avoid"
    else:
        assert entry.remedy.fix, "no way out"
        gates = [c for c in entry.remedy.clauses("all") if c.name == "finding"]
        assert len(gates) == 1, "a remedy is offered for some classes of finding"
        assert "none" not in gates[0].arguments.get("class_", ()), "a healthy job needs no remedy"
    assert f"`{id_}`" in remedy_page(entry)


@pytest.mark.parametrize("id_", sorted(i for i, e in ENTRIES.items() if not e.is_discouraged))
def test_no_remedy_advises_a_variable_that_nothing_reads(id_):
    text = words_of(ENTRIES[id_], "title", "summary", "confirm", "fix", "prevent")
    for name in VARIABLE.findall(text):
        row = look_up(name)
        assert row is not None, f"{name} is not in settings.csv"
        assert row.status in ("read", "read elsewhere", "renamed, still read"), f"{name}: {row.status}"


def test_a_variable_named_anywhere_is_known():
    for entry in CATALOGUE.entries:
        for name in VARIABLE.findall(words_of(entry, "title", "summary", "confirm", "fix", "prevent", "avoid")):
            assert look_up(name) is not None, f"{entry.remedy.id}: {name}"


def test_commands_that_change_something_say_so():
    changing = re.compile(
        r"(?:^|[;&|] *)(?:rm|kill|reboot|setpci|scontrol update|ulimit -n \d|systemctl (?:re)?start|dcgmi diag)\b"
    )
    for entry in CATALOGUE.entries:
        for step in (*entry.remedy.confirm, *entry.remedy.fix, *entry.remedy.prevent):
            if step.command and changing.search(step.command):
                assert not step.read_only, f"{entry.remedy.id}: {step.command}"


def test_the_json_schema_accepts_the_files_and_refuses_a_typo():
    printed = CliRunner().invoke(cli, ["catalogue", "schema"]).stdout
    validator = Draft202012Validator(json.loads(printed))
    plain = tomllib.loads(GOOD.replace("2026-11-20", '"2026-11-20"'))
    assert validator.is_valid(plain)
    plain["conditions"]["any"][0]["exception"]["mesage"] = ["x"]
    assert not validator.is_valid(plain)


def test_an_overlay_adds_and_replaces(tmp_path):
    write(tmp_path, GOOD)
    write(tmp_path, GOOD.replace("disk-full", "gsp-timeout"), "gsp-timeout", "gpu")
    both = load_catalogue([tmp_path])
    assert both.get("disk-full").origin == tmp_path.name
    assert both.get("gsp-timeout").remedy.title == "The disk is full"
    assert len(both.entries) == len(CATALOGUE.entries) + 1
    assert load_catalogue() is CATALOGUE, "read once in a process"


MISTAKES = [
    ('title = "The disk is full"', 'titel = "The disk is full"', 2, "titel"),
    ('status = "common"', 'status = "certain"', 4, "status"),
    ("prior = 0.5", "prior = 5", 5, "prior"),
    ('fix = ["Make room."]', 'fix = ["Call {{ nobody }}."]', 6, "nobody"),
    ('finding = { class = ["raised"] }', 'finding = { class = ["rised"] }', 9, "conditions.all.0.finding.class"),
    ("exception = {", "exeption = {", 12, "exeption"),
    ("message = [", "mesage = [", 12, "mesage"),
    ('exception = { of = "culprit", message = ["No space left"] }', "exception = {}", 11, "no arguments"),
    ('url = "https://example.org/disk"', 'url = "http://example.org/disk"', 15, "url"),
    ("seen = 2026-11-20", 'seen = "some day"', 16, "seen"),
    ('id = "disk-full"', 'id = "disk-filled"', 1, "disk-filled"),
    ("prior = 0.5", "prior = ", 5, "Invalid value"),
]


@pytest.mark.parametrize(("right", "wrong", "line", "word"), MISTAKES)
def test_a_mistake_is_named_with_file_and_line(tmp_path, right, wrong, line, word):
    assert right in GOOD
    write(tmp_path, GOOD.replace(right, wrong, 1))
    with pytest.raises(CatalogueError) as caught:
        load_catalogue([tmp_path])
    found = [text for text in caught.value.message.splitlines() if f"/process/disk-full.toml:{line}:" in text]
    assert any(word in text for text in found), caught.value.message


def test_all_mistakes_of_all_files_are_listed(tmp_path):
    write(tmp_path, GOOD.replace("prior = 0.5", "prior = 5").replace('"common"', '"certain"'))
    write(tmp_path, GOOD.replace("disk-full", "other").replace("raised", "rised"), "other", "gpu")
    write(tmp_path, "not toml", "third", "gardening")
    with pytest.raises(CatalogueError) as caught:
        load_catalogue([tmp_path])
    message = caught.value.message
    for expected in (
        "process/disk-full.toml:4:",
        "process/disk-full.toml:5:",
        "gpu/other.toml:9:",
        "gardening/third.toml:1:",
    ):
        assert expected in message


def test_a_remedy_without_conditions_is_refused(tmp_path):
    head, _, _ = GOOD.partition("[[conditions.all]]")
    write(tmp_path, head + "[conditions]\n\n" + GOOD[GOOD.index("[[sources]]") :])
    with pytest.raises(CatalogueError, match="needs conditions"):
        load_catalogue([tmp_path])


def test_a_condition_holds_one_predicate():
    data = tomllib.loads(GOOD)
    data["conditions"]["all"][0]["moment"] = {"is": "late"}
    ((at, what),) = mistakes_of(data)
    assert at == ("conditions", "all", 0)
    assert "one predicate" in what


def test_a_huge_file_is_refused_unread(tmp_path):
    write(tmp_path, GOOD + "#" * 300_000)
    with pytest.raises(CatalogueError, match="larger than"):
        load_catalogue([tmp_path])


def test_no_such_folder(tmp_path):
    with pytest.raises(CatalogueError, match="no such folder"):
        load_catalogue([tmp_path / "nowhere"])


def test_line_of_counts_tables():
    text = "a = 1\n[[b]]\nc = 1\n[[b]]\nc = { d = 2 }\n"
    assert [line_of(text, loc) for loc in (("a",), ("b", 0, "c"), ("b", 1, "c", "d"), ("b", 1, "x"), ("z",))] == [
        1,
        3,
        5,
        4,
        1,
    ]


def test_a_host_name_from_a_log_does_not_become_a_command():
    command, unknown = fill_command("ssh {{ host }} py-spy dump --pid {{ pid }}", {"host": "; rm -rf /"})
    assert shlex.split(command)[:2] == ["ssh", "; rm -rf /"]
    assert command.endswith("--pid PID")
    assert unknown == ("pid",)


def test_a_value_does_not_become_markup():
    assert fill("on {{ host }}", {"host": "[x](javascript:alert(1))\x1b"}) == r"on \[x\](javascript:alert(1))"
    assert fill("on {{ host }}", {}) == "on <host>"


def test_a_sentence_of_a_report_has_no_blanks():
    assert fill_in_words("drain {{ host }} and ask call {{ seq }} of {{ group }}", {"group": "dp"}) == (
        "drain the host at fault and ask the stalled call of dp"
    )
    assert fill_in_words("before {{ op }} #{{ seq }}", {}) == "before the stalled call"
    assert (
        fill_in_words("see rank {{ rank }} on host {{ host }}", {"rank": "5", "host": "n1"}) == "see rank 5 on host n1"
    )


def test_every_placeholder_has_its_words():
    assert "<" not in fill_in_words(" ".join(f"{{{{ {name} }}}}" for name in PLACEHOLDERS), {})


def test_a_step_reads_as_one_line():
    step = Step(text="Look", command="py-spy dump --pid {{ pid }}", where="host {{ host }}", expect="a lock")
    assert step_line(step, {"pid": "7", "host": "n1"}) == "Look: run `py-spy dump --pid 7` on host n1: expect a lock"
    assert "fill in PID first" in step_line(step, {})
    assert "not read-only" in step_line(Step(command="reboot", read_only=False), {})
    assert code_span("a`b") == "``a`b``"


def test_a_step_may_wait_for_the_job_to_run_or_to_end():
    data = tomllib.loads(next(BUILT_IN.glob("*/busy-elsewhere.toml")).read_text(encoding="utf-8"))
    data["confirm"] = [{"text": "Look", "while": "running"}]
    assert [step.while_ for step in remedy_of(data).confirm] == ["running"]
    assert not list(mistakes_of(data))
    ((at, what),) = mistakes_of(data | {"confirm": [{"text": "Look", "while": "asleep"}]})
    assert (at, "use one of running, ended" in what) == (("confirm", 0, "while"), True)


def test_search_and_explain():
    assert [e.remedy.id for e in CATALOGUE.search("checkpoint slow")] == ["checkpoint-save-slow"]
    assert CATALOGUE.search("there is no such thing") == ()
    assert CATALOGUE.get("nobody") is None
    entry = CATALOGUE.get("p2p-acs-iommu")
    assert entry is not None
    text = remedy_page(entry)
    assert "## Confirm" in text
    assert "https://" in text


@pytest.mark.parametrize("id_", sorted(ENTRIES))
def test_a_built_in_file_has_no_mistake(id_):
    (path,) = BUILT_IN.glob(f"*/{id_}.toml")
    assert not list(mistakes_of(tomllib.loads(path.read_text(encoding="utf-8"))))


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Lays one changed remedy in place of the built-in catalogue, and returns its mistakes in an ordinary run."""

    def mistakes(right: str, wrong: str) -> tuple[str, ...]:
        write(tmp_path, GOOD.replace(right, wrong))
        monkeypatch.setattr(load_module, "BUILT_IN", tmp_path)
        load_module.collect.cache_clear()
        return load_module.collect().mistakes

    yield mistakes
    load_module.collect.cache_clear()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("summary =", "sumary ="),
        ("class =", "clas ="),
        ("exception =", "exeption ="),
        ("conditions.any", "conditions.some"),
        ("seen =", "sen ="),
        ("prior = 0.5", "prior = 5"),
    ],
)
def test_a_misspelt_key_or_value_of_a_built_in_file_is_a_mistake_in_any_run(changed, right, wrong):
    assert any("process/disk-full.toml:" in mistake for mistake in changed(right, wrong))


def test_lint_validates_the_built_in_files_in_full(changed):
    assert not changed('class = ["raised"]', 'class = ["rised"]'), "an ordinary run trusts the words of conditions"
    result = CliRunner().invoke(cli, ["catalogue", "lint"])
    assert result.exit_code == 2
    assert "built-in/process/disk-full.toml:9: conditions.all.0.finding.class" in result.stderr


def test_what_a_stack_says_is_asked_in_its_words():
    from nccldoctor.align import stack_activity

    rows = tomllib.loads(Path(stack_activity.__file__).with_suffix(".toml").read_text(encoding="utf-8"))["busy"]
    words = {row["words"] for row in rows}
    for entry in CATALOGUE.entries:
        for held in (*entry.remedy.clauses("all"), *entry.remedy.clauses("any")):
            if held.name == "doing":
                assert set(held.arguments["what"]) <= words, entry.remedy.id
