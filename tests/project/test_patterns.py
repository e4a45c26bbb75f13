"""Patterns on the text of logs stand in ``parsers/`` alone: where a release words a line anew, only that folder changes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from project.parsed import parsed

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "nccldoctor/patterns.py": "compiles the patterns of all others",
    "nccldoctor/history/fingerprint.py": "names of groups, lines of programs and rank sets in saved reports",
    "nccldoctor/history/saved_report.py": "where the document stands in a page",
    "nccldoctor/discover/unwrapping.py": "where a dump begins and ends inside another file, before a parser sees it",
    "nccldoctor/parts/masked_values.py": "words of lines that a part keeps, which may be secrets",
    "nccldoctor/collect/bundle.py": "names of files and nodes",
    "nccldoctor/collect/on_node/evidence/captured.py": "names of looks in the folder of capture",
    "nccldoctor/collect/on_node/inside.py": "rows of /proc/PID/status",
    "nccldoctor/collect/on_node/evidence/logs.py": "names of logs and other files that a process has open",
    "nccldoctor/collect/on_node/masking.py": "values of secrets in all that leaves a node",
    "nccldoctor/collect/on_node/machine.py": "the kernel's log, mounts and versions of a node, before a parser sees any of it",
    "nccldoctor/collect/on_node/main.py": "process ids on its command line",
    "nccldoctor/collect/on_node/network.py": "rows of /proc/net/tcp",
    "nccldoctor/collect/on_node/proc_files.py": "rows of /proc",
    "nccldoctor/collect/on_node/process.py": "commands of launchers and of ranks",
    "nccldoctor/collect/on_node/process_tree.py": "pipes in the commands of processes that multiprocessing spawned",
    "nccldoctor/collect/on_node/stack_tools.py": "capabilities in /proc, and what stack tools print",
    "nccldoctor/collect/on_node/stacks.py": "what stack tools print, before a parser sees it",
    "nccldoctor/collect/on_node/variables.py": "names of variables that may leave a node",
    "nccldoctor/collect/reach/ask.py": "what ssh, srun and kubectl print where they fail",
    "nccldoctor/collect/reach/slurm.py": "numbers of jobs on the command line",
    "nccldoctor/collect/reach/way.py": "names of hosts and pods that a command line may hold",
    "nccldoctor/capture/settings.py": "names of variables in its own environment",
    "nccldoctor/capture/sidecar.py": "names of its own folders",
    "nccldoctor/rehearsal/train.py": "a fault: a pattern that never ends",
    "nccldoctor/align/standing/stances.py": "functions of stack frames",
    "nccldoctor/align/stack_activity.py": "functions and files of stack frames, which parsers have already taken apart",
    "nccldoctor/discover/bystanders.py": "the shape of what other programs leave, to keep it from the parsers of logs",
    "nccldoctor/discover/discover.py": "endings of file names",
    "nccldoctor/discover/file_types.py": "first bytes of a file",
    "nccldoctor/discover/filename_hints.py": "names of files and folders",
    "nccldoctor/discover/provenance.py": "the shape of code, configurations and prose, to keep them from the parsers of logs",
    "nccldoctor/discover/stack_file_names.py": "names of files and folders",
    "nccldoctor/discover/tar.py": "headers of an archive",
    "nccldoctor/diagnose/phrases/say.py": "marks in rows of our own sentences",
    "nccldoctor/summarise/proof/exhibits.py": "sentences of our own rules",
    "nccldoctor/summarise/proof/quotes.py": "sentences of our own rules",
    "nccldoctor/parts/container.py": "names of the members of a part",
    "nccldoctor/parts/input_records.py": "paths of files in gaps of our own",
    "nccldoctor/identify/looks.py": "names of folders in the order of their numbers",
    "nccldoctor/prescribe/catalogue/load.py": "TOML of remedies",
    "nccldoctor/prescribe/catalogue/pages.py": "Markdown of remedies",
    "nccldoctor/prescribe/catalogue/schema.py": "placeholders of remedies",
    "nccldoctor/prescribe/catalogue/words.py": "placeholders of remedies",
    "nccldoctor/prescribe/conditions/environment.py": "version numbers",
    "nccldoctor/prescribe/remote_commands.py": "placeholders of remedies",
    "nccldoctor/summarise/proof/same_records.py": "numbers in sentences of our own rules",
    "reports/parts/advice.py": "sentences of our own advice",
    "reports/html.py": "addresses in the sources of remedies",
    "reports/json_document.py": "characters that move others about",
    "reports/dialects.py": "characters that a markup gives a meaning",
    "nccldoctor/words/sentences.py": "the clauses of a message that a headline repeats",
    "nccldoctor/diagnose/phrases/headline.py": "what stands in brackets in our own sentences",
    "nccldoctor/words/names.py": "names of operations and groups",
    "reports/parts/prose.py": "Markdown of remedies",
    "reports/parts/redact.py": "names of users, hosts and folders in all that is printed",
    "nccldoctor/words/sanitize.py": "characters that a terminal obeys, in all that is printed",
    "nccldoctor/words/secrets.py": "names and shapes of secrets, in all that is printed",
    "reports/parts/quoted_proof.py": "values that a claim of ours cites",
    "reports/terminal/document.py": "Markdown of remedies",
    "reports/terminal/layout.py": "units that stay with their number",
}
"""Modules outside the parsers that use patterns, and on what."""


def uses_patterns(path: Path) -> bool:
    """True where a module imports ``re``, or patterns that are compiled on first use."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import) and any(name.name in ("re", "regex") for name in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module in ("re", "regex", "nccldoctor.patterns"):
            return True
    return False


def test_patterns_stand_in_parsers() -> None:
    modules = [p for folder in ("nccldoctor", "reports") for p in sorted((ROOT / folder).rglob("*.py"))]
    inside = [ROOT / "nccldoctor" / link for link in ("parsers", "reports", "samples")]
    own = {p.relative_to(ROOT).as_posix(): p for p in modules if not any(p.is_relative_to(link) for link in inside)}
    using = {name for name, path in own.items() if uses_patterns(path)}
    assert using <= set(ALLOWED), "a pattern on the text of a log belongs to the parser that reads the line"
    assert set(ALLOWED) <= using, "this module has no pattern any more: take it out of the list"


def texts_asked(source: str) -> list[int]:
    """The lines that look for a literal in the text or message of an event: ``"Out Of Memory" in event.text``."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Constant)
        and isinstance(node.left.value, str)
        and any(isinstance(other, ast.Attribute) and other.attr in ("text", "message") for other in node.comparators)
    ]


def test_no_stage_looks_for_words_in_the_text_of_an_event() -> None:
    stages = ("identify", "align", "diagnose", "prescribe", "summarise")
    asked = [
        f"{path.relative_to(ROOT)}:{line}"
        for stage in stages
        for path in sorted((ROOT / "nccldoctor" / stage).rglob("*.py"))
        for line in texts_asked(path.read_text(encoding="utf-8"))
    ]
    assert not asked, "ask parsers/event_details.py"
    assert texts_asked('x = "Out Of Memory" in event.text') == [1]


@pytest.mark.parametrize("source", ["import re", "from re import search", "from nccldoctor.patterns import lazy"])
def test_an_import_is_seen(tmp_path: Path, source: str) -> None:
    path = tmp_path / "m.py"
    path.write_text(source)
    assert uses_patterns(path)
