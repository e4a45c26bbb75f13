"""Makes a release: ``python packaging/release.py [--tag]``.

In a clean checkout whose version has a section in the changelog, runs every test (``./check --all --all-must-run``),
builds wheel and sdist with the bill of materials, installs each into an environment of its own and diagnoses a bundled incident with it.
With ``--tag`` the section gets its date, and commit and tag are made.
Nothing is uploaded: ``twine upload dist/*`` does that, and ``git push --follow-tags``. Same commit, same bytes.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import re
import runpy
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
CHANGELOG = ROOT / "CHANGELOG.md"


def section(changelog: str, version: str) -> str:
    """What the changelog says of a version, without its heading. Raises ValueError where it says nothing."""
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md says nothing about {version}")
    return found[1].strip()


def dated(changelog: str, version: str, day: datetime.date) -> str:
    """The changelog with the day of the release. Raises ValueError where the version is released already."""
    heading = f"## {version} (not released yet)"
    if heading not in changelog:
        raise ValueError(f"CHANGELOG.md has no heading {heading!r}: {version} is released already, or not begun")
    return changelog.replace(heading, f"## {version} ({day.isoformat()})")


def output_of(*command: str) -> str:
    """What a command prints; raises CalledProcessError where it fails."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def description(readme: str, home: str) -> str:
    """The README for a page outside the checkout: links and pictures lead to the repository at ``home``."""
    pictures = re.sub(r"!\[([^\]]*)\]\((?!https?:)", rf"![\1]({home}/raw/main/", readme)
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)", rf"[\1]({home}/blob/main/", pictures)


def build() -> list[Path]:
    """Wheel, sdist, bill of materials and their checksums, in ``dist``."""
    if DIST.exists():
        raise SystemExit("dist exists: remove it first")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": output_of("git", "log", "-1", "--format=%ct")}
    with tempfile.TemporaryDirectory() as folder:
        python, source = _environment(Path(folder), "build", "twine"), Path(folder) / "source"
        output_of("git", "clone", "--quiet", "--no-local", str(ROOT), str(source))
        readme = source / "README.md"
        home = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Homepage"]
        readme.write_text(description(readme.read_text(encoding="utf-8"), home), encoding="utf-8")
        subprocess.run([python, "-m", "build", "--outdir", DIST, source], check=True, env=environment)
        packages = sorted(DIST.iterdir())
        subprocess.run([python, "-m", "twine", "check", "--strict", *packages], check=True)
    subprocess.run([ROOT / "packaging" / "sbom", DIST / "sbom.json"], check=True)
    files = sorted(DIST.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (DIST / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    return packages


def try_out(package: Path) -> None:
    """Install a package into a new environment and diagnose a bundled incident with it."""
    with tempfile.TemporaryDirectory() as folder:
        python = _environment(Path(folder), str(package))
        done = subprocess.run([Path(python).with_name("nccldoctor"), "demo", "--to", Path(folder) / "job"], check=False)
        if done.returncode != 1:  # 1: a hang was diagnosed
            raise SystemExit(f"{package.name} does not diagnose the bundled incident")


def _environment(folder: Path, *packages: str) -> str:
    """The Python of a new virtual environment with these packages."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def main(argv: list[str] | None = None) -> None:
    """Check, build, try out and, where asked, tag."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", action="store_true", help="date the changelog, commit and tag")
    args = parser.parse_args(argv)
    if output_of("git", "status", "--porcelain"):
        sys.exit("the checkout is not clean: commit or stash first")
    version = str(runpy.run_path(str(ROOT / "nccldoctor" / "version.py"))["__version__"])
    changelog = CHANGELOG.read_text(encoding="utf-8")
    notes = section(changelog, version)
    if subprocess.run([ROOT / "check", "--all", "--all-must-run"], check=False).returncode:
        sys.exit("./check --all fails: nothing was released")
    if args.tag:
        CHANGELOG.write_text(dated(changelog, version, datetime.date.today()), encoding="utf-8")
        output_of("git", "commit", "--all", "--message", f"Release {version}")
    for package in build():
        try_out(package)
    if args.tag:
        output_of("git", "tag", "--annotate", f"v{version}", "--message", f"{version}\n\n{notes}", "--cleanup=verbatim")
    print(*sorted(path.name for path in DIST.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
