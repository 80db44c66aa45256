"""Builds what a release uploads, and checks it as the users of a package index get it.

    python -m tests.release                  # build into dist, check the files, run a consumer's project
    python -m tests.release --tag v0.1.0     # also: the tag, the version and the changelog say the same
    python -m tests.release --spark          # also: the consumer's environment runs a job on Spark

The wheel is built from the sdist, so a file that the sdist lacks is found. The consumer's project is a program with a
test in an environment of its own, into which the wheel alone is installed: its test passes, mypy --strict and pyright
in strict mode accept it, and refuse a field that is not there. The exit code is 0 if all checks have passed.
"""

from __future__ import annotations

import sys

from tests.release.checks import main

sys.exit(main())
