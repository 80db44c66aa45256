"""Brings what tests of pages in a browser need: ``python -m tests.browser``; the exit code is 0 if all is there."""

from __future__ import annotations

import sys

from docs.playground import fetch_pyodide
from tests.browser.chromium import NoBrowserError, fetch

try:
    fetch()
    fetch_pyodide()
except (NoBrowserError, OSError) as error:
    print(error, file=sys.stderr)
    sys.exit(1)
