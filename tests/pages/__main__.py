"""Checks built pages: ``python -m tests.pages docs/_build/html``.

Links have to lead somewhere, in the pages and in the repository's own texts. No page has more than 3,000 words but
tutorials and the changelog. In Chromium no page scrolls sideways,
nothing is wider than its page, and no code is cut. ``--pictures FOLDER`` also writes pictures of the pages.

The exit code is 0 if all is well, 1 if something is wrong, 2 if there are no such pages, and 3 if links are well and
there is no Chromium to show the pages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.browser.chromium import NoBrowserError
from tests.pages.browser import measure, photograph
from tests.pages.links import of_built_pages, of_texts
from tests.pages.words import too_long

ROOT = Path(__file__).parents[2]
NOT_SHOWN = 3
TEXTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "benchmarks/README.md")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong, a line each, and return whether anything is."""
    parser = argparse.ArgumentParser(prog="python -m tests.pages", description=__doc__)
    parser.add_argument("folder", type=Path, help="the built pages")
    parser.add_argument("--only", action="append", help="a page, without .html; may be given several times")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where to write pictures of the pages")
    options = parser.parse_args(arguments)
    pages = sorted(str(file.relative_to(options.folder)) for file in options.folder.rglob("*.html"))
    if options.only:
        pages = [page for page in pages if page.removesuffix(".html") in options.only]
    if not pages:
        print(f"there are no such pages in {options.folder}; `make docs` builds them", file=sys.stderr)
        return 2
    found = [*of_built_pages(options.folder), *of_texts(ROOT, TEXTS), *too_long(options.folder)]
    try:
        found += map(str, measure(options.folder, pages))
        if options.pictures is not None:
            photograph(options.folder, pages, options.pictures)
    except NoBrowserError as error:
        print(f"not checked is how the pages are shown: {error}", file=sys.stderr)
        print(*found, sep="\n", end="\n" if found else "")
        return 1 if found else NOT_SHOWN
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
