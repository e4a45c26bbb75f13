"""Brings up to date what pages of ``docs/`` keep of the code, the samples and the benchmarks: ``python docs/reference.py [--check]``.

``--check`` writes nothing: it names the pages that are out of date, and ends with 1 where there is one.
"""

from __future__ import annotations

import sys

from docsite.kept_pages import kept, pages


def main(*, is_check: bool) -> int:
    """Name each page that is out of date and, unless it is a check, write it anew; 1 where a check found one."""
    old = [path for path in pages() if path.read_text(encoding="utf-8") != kept(path.read_text(encoding="utf-8"))]
    print("".join(f"{path.name}\n" for path in old), end="")
    for path in () if is_check else old:
        path.write_text(kept(path.read_text(encoding="utf-8")), encoding="utf-8")
    return int(is_check and bool(old))


if __name__ == "__main__":
    sys.exit(main(is_check="--check" in sys.argv[1:]))
