"""Builds the documentation site: ``python docs/build.py [FOLDER]``, into ``site/`` where no folder is named.

Needs the dependency group ``docs`` (Sphinx, MyST, Furo). Ends with 1 where Sphinx warns, where a link inside the site leads
nowhere, and where a page would ask for something outside the site.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from docsite.built_pages import faults
from docsite.stage import ROOT, SITE, stage
from sphinx.cmd.build import build_main

DEFAULT = ROOT / "site"
MARK = ".buildinfo"
"""What Sphinx writes into each site: a folder without it holds something else, and is kept."""


def main(target: Path) -> int:
    """Build the site into ``target``, which is replaced; the exit code."""
    if target.exists() and any(target.iterdir()) and not (target / MARK).exists():
        print(f"error: {target} holds something else", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        source, html = Path(scratch, "source"), Path(scratch, "html")
        stage(source)
        options = ["-b", "html", "-q", "-W", "--keep-going"]
        if build_main([*options, "-d", str(Path(scratch, "doctrees")), str(source), str(html)]):
            return 1
        found = faults(html)
        print("".join(f"{fault}\n" for fault in found), end="", file=sys.stderr)
        if found:
            return 1
        write_sitemap(html)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(html, target)
    print(f"open {target / 'index.html'}")
    return 0


NO_CONTENT = ("search.html", "genindex.html", "py-modindex.html")
"""Pages that search engines need not list."""


def write_sitemap(html: Path) -> None:
    """Write ``sitemap.xml``, and ``robots.txt`` that names it."""
    pages = sorted(path.relative_to(html).as_posix() for path in html.rglob("*.html"))
    rows = "".join(f"<url><loc>{escape(SITE + page)}</loc></url>\n" for page in pages if page not in NO_CONTENT)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    (html / "sitemap.xml").write_text(f"{head}{rows}</urlset>\n", encoding="utf-8")
    (html / "robots.txt").write_text(f"User-agent: *\nAllow: /\nSitemap: {SITE}sitemap.xml\n", encoding="utf-8")


if __name__ == "__main__":
    if any(word.startswith("-") for word in sys.argv[1:]):
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT))
