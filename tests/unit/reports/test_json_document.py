import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from builders.diagnoses import fixtures_diagnoses
from builders.documents import json_schema
from msgspec.structs import replace

from nccldoctor.reports import json_document


def schema(name):
    text = files("nccldoctor").joinpath("schema", f"{name}.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


@pytest.mark.parametrize("make", [*fixtures_diagnoses.EVERY, lambda: fixtures_diagnoses.large(1024)])
def test_every_document_fits_its_schema(make):
    document = json.loads(json_document.to_json(make()))

    schema("analyze").validate(document)
    assert document["verdict"] == document["findings"][0]


def test_the_contract_names_and_values():
    document = json.loads(json_document.to_json(fixtures_diagnoses.lagging()))
    verdict = document["verdict"]

    assert document["schema_version"] == "1.0"
    assert document["tool"]["name"] == "nccldoctor"
    assert (verdict["family"], verdict["class"], verdict["confidence"]) == ("absent", "not-arrived", "high")
    assert (verdict["ranks"], verdict["suspects"], verdict["victims"]) == ("5", "", "0-4,6-7")
    assert verdict["chain"][0] == {"waiting": "0,2,6", "for": "4", "group": "dp_0", "op": "ALLREDUCE", "seq": 18723}
    assert verdict["stalled"]["entered"] == "1,3,7"
    assert verdict["stalled"]["missing"] == "5"
    assert verdict["stalled"]["since"] == "2026-11-11T03:25:02+00:00"
    assert [e["where"] for e in verdict["evidence"]][:2] == ["fr/5", "rank_1.log:812"]
    assert document["avoid"] == [
        {"what": "NCCL_TIMEOUT=1200000", "why": "Neither NCCL nor PyTorch reads it.", "where": "launch.sh:12"}
    ]
    assert {name: document["action"][name] for name in ("restart", "cordon", "why")} == {
        "restart": "after-replacing-node",
        "cordon": ["gpu-a018"],
        "why": "Storage hangs on one host.",
    }
    assert document["action"]["steps"][2] == {
        "kind": "check",
        "text": "See what the loader's workers wait for.",
        "detail": "It fits if you see `D`.",
        "command": "ssh gpu-a018 'ps -o pid,stat,wchan:28,cmd --ppid 48213'",
        "where": "gpu-a018",
    }
    assert document["job_end"]["state"] == "unknown"
    assert document["coverage"][1]["found"] == "0-5,7"
    assert document["job"]["groups"][2] == {"id": "2", "description": "tp_2", "members": "4-5"}


def test_a_time_without_a_year_is_no_time():
    assert json.loads(json_document.to_json(fixtures_diagnoses.undetermined()))["verdict"]["stalled"]["since"] is None


def test_a_remedy_says_whose_it_is():
    own = replace(
        fixtures_diagnoses.lagging(),
        remedies=(replace(fixtures_diagnoses.lagging().remedies[0], origin="our cluster"),),
    )

    remedies = [json.loads(json_document.to_json(d))["remedies"] for d in (fixtures_diagnoses.lagging(), own)]
    assert [r["origin"] for r in remedies[0]] == ["built-in", "built-in"]
    assert [r["origin"] for r in remedies[1]] == ["our cluster"]
    schema("analyze").validate(json.loads(json_document.to_json(own)))


def test_the_text_is_stable_indented_and_ends_with_one_newline():
    text = json_document.to_json(fixtures_diagnoses.lagging())

    assert text == json_document.to_json(fixtures_diagnoses.lagging())
    assert text.startswith('{\n  "schema_version": "1.0",\n')
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")


def test_hostile_text_encodes_is_bounded_and_cannot_turn_a_terminal_about():
    text = json_document.to_json(fixtures_diagnoses.hostile())

    encoded = text.encode("utf-8")
    assert len(encoded) < 100_000
    assert not any(bad in text for bad in "\x00\x1b\x07\u202e\u2066\u200b\uffff")
    assert "hf_verysecret" not in text
    quote = json.loads(text)["verdict"]["evidence"][0]["quote"]
    assert quote.startswith("<script>alert(1)</script>")
    assert "\u202egnp.exe" in quote


def test_a_job_of_16384_ranks_stays_below_its_evidence():
    document = json_document.document(fixtures_diagnoses.large(16384))

    assert len(document["ranks"]) <= 64
    assert sum(_count(row["ranks"]) for row in document["ranks"]) == 16384


@pytest.mark.parametrize("name", ["analyze", "attribution", "inspect"])
def test_the_schema_in_the_package_is_current(name):
    kept, made = Path(__file__).parents[3] / "nccldoctor" / "schema" / f"{name}.json", json_schema.text(name)
    if kept.read_text(encoding="utf-8") != made:
        kept.write_text(made, encoding="utf-8")
        pytest.fail(f"{kept.name} was stale and is written anew: commit it")


def test_the_schemas_refuse_what_no_document_holds():
    document = json.loads(json_document.to_json(fixtures_diagnoses.lagging()))
    for change in ({"ranks": [{"role": "bystander"}]}, {"action": {}}, {"alarm": 3}):
        with pytest.raises(jsonschema.ValidationError):
            schema("analyze").validate(document | change)
    event = {"kind": "phase", "rank": None, "group_rank": None, "group": None, "time": None, "where": "a.log:3"}
    inspected = {"schema_version": "1.0", "sources": [], "gaps": []}
    schema("inspect").validate(inspected | {"events": [event | {"what": "data", "detail": "", "seconds": None}]})
    schema("inspect").validate(inspected | {"events": [event | {"kind": "of another release"}]})
    with pytest.raises(jsonschema.ValidationError):
        schema("inspect").validate(inspected | {"events": [event]})


def _count(ranks):
    return sum(int(b or a) - int(a) + 1 for a, _, b in (part.partition("-") for part in ranks.split(",")))
