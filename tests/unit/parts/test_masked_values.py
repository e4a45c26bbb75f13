"""What one line shows to be a secret is masked in all lines of a part: another line lost the name before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.documents.packed_page import held_by_part
from click.testing import CliRunner

from nccldoctor.cli.app import cli
from nccldoctor.parts.masked_values import masked_texts

SECRET = "horse2battery"


@pytest.mark.parametrize(
    "torn",
    [
        SECRET,
        f": {SECRET}",
        f"ey': '{SECRET}', 'n': 3}}",
        f"login user passw/rd {SECRET}",
        f"step 4 of {SECRET}",
    ],
)
@pytest.mark.parametrize("named", ["DB_PASSWORD={}", "{{'secret_key': '{}', 'n': 3}}", "api_key={}&b=1&token=x9"])
def test_a_value_without_its_name_is_masked_where_another_line_has_the_name(torn: str, named: str) -> None:
    line = named.format(SECRET)
    for texts in ([((1, torn),), ((7, line),)], [((1, line), (2, torn))]):
        shown = masked_texts(texts)
        assert SECRET not in str(shown)
        assert [[number for number, _ in lines] for lines in shown] == [[n for n, _ in lines] for lines in texts]


@pytest.mark.parametrize("torn", ["horse2batteryStap|eMagnet9", "12=horse2batterySV13=x", "horse2batteryS"])
def test_a_value_that_lost_its_end_is_masked_where_another_line_has_it_whole(torn: str) -> None:
    shown = masked_texts([((1, torn), (2, f"DB_PASSWORD={SECRET}StapleMagnet9"))])
    assert SECRET not in str(shown)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2026-11-20 09:00:38 Uid=job;P2026-11-20 09:00:37 step 7 of 9", f"wd={SECRET};"),
        ("2026-11-20 09:00:05 ngc config set 2026-11-20 09:00:04 step 7", f"apikey {SECRET}"),
        ("export A16_TOexport A15=4", f"KEN={SECRET}"),
    ],
)
def test_a_value_whose_line_was_crossed_by_another_is_masked(first: str, second: str) -> None:
    assert SECRET not in str(masked_texts([((1, first), (2, second))]))


def test_lines_that_begin_alike_and_cross_no_other_stay() -> None:
    lines = tuple((n, f"2026-11-20 09:00:0{n} step {n} of job7-run4 at 2026-11-20 09:00:0{n}") for n in range(1, 9))
    assert masked_texts([lines]) == [lines]


@pytest.mark.parametrize("value", ["hunter", "eth0", "600000", "allreduce"])
def test_a_value_that_chance_may_repeat_stays_elsewhere(value: str) -> None:
    line = f"rank 3: {value} of node7 timed out"
    assert masked_texts([((1, f"password={value}"), (2, line))])[0][1] == (2, line)


def test_a_part_keeps_of_settings_only_what_a_report_may_quote(tmp_path: Path) -> None:
    noise = "".join(f"field_{number}: word{number}\n" for number in range(40))
    (tmp_path / "job.yaml").write_text(f"apiVersion: v1\nkind: Pod\n{noise}env:\n- name: NCCL_DEBUG\n  value: INFO\n")
    (tmp_path / "rank_0.log").write_text("[rank0]: step 1\n[rank0]: step 2\n")
    part = tmp_path / "node.nd"
    done = CliRunner().invoke(cli, ["reduce", str(tmp_path), "-o", str(part)])
    assert done.exit_code == 0, done.output
    held = held_by_part(part)
    assert "step 2" in held
    assert '"field_3: word3"' not in held
