"""A job whose upgrade and whose rescale are killed goes on after the same commands, and has each row once.

By hand: ``python -m tests.crash.moves --kills 20``.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.crash.starts import ROOT


@pytest.mark.timeout(600)  # it starts Spark three times
@pytest.mark.program
@pytest.mark.thorough(
    reason="tests/spark/test_upgrades.py stops an upgrade at each step, test_savepoints.py kills a rescale"
)
def test_a_job_whose_commands_are_killed_has_each_row_once() -> None:
    command = [sys.executable, "-m", "tests.crash.moves", "--kills", "2", "--phases", "2", "--seed", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # A command on a fast machine may end before its kill; the exit code says that one at least came while it worked.
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"[12] kills of upgrades and rescales: .*; 2 phases, [0-9]+ rows, each once", last), last
