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
