"""Brings up to date what pages of ``docs/`` keep of the code, the samples and the benchmarks: ``python docs/reference.py``."""

from __future__ import annotations

from docsite.kept_pages import kept, pages

if __name__ == "__main__":
    for path in pages():
        path.write_text(kept(path.read_text(encoding="utf-8")), encoding="utf-8")
