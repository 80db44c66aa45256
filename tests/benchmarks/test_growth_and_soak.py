"""The benchmarks of growing state and of long runs still run. Their figures are not looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.growth import __main__ as growth
from benchmarks.growth import joins as joining
from benchmarks.section import Claim, markdown_table
from benchmarks.soak.flatness import Sample, flat_claims

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough(reason="tests/spark/test_step_pages.py and test_stored_columns.py show what a batch writes")
@pytest.mark.spark
def test_growth(tmp_path: Path) -> None:
    """All of them in the session of the tests: a start of Java takes as long as all of them do."""
    file = tmp_path / "growth.json"
    options = ["--quick", "--form", "session", "--one-process", "--json", str(file)]
    for name in ("pages", "shrinking", "idle", "joins"):
        options += ["--only", name]
    growth.main(options)
    pages, shrinking, idle, joins = json.loads(file.read_text())["sections"]
    assert [row[2:4] for row in pages["rows"]] == [
        [which, keys] for which in ("others", "the same") for keys in ("500", "5,000")
    ]
    assert [row[2] for row in shrinking["rows"]] == ["open", "closed"]
    assert all(claim["holds"] for claim in shrinking["claims"]), shrinking
    # Each query had batches without data, and wrote nothing in them but the watermark.
    assert all(int(row[2]) > 0 and float(row[5]) < 0.01 for row in idle["rows"]), idle
    forms = len(joining._FORMS)
    assert [row[1:3] for row in joins["rows"]] == [["1", "500"], ["10", "5,000"]] * forms
    pairs = [claim for claim in joins["claims"] if " pairs of " in claim["text"]]
    assert len(pairs) == 2 * forms
    assert all(claim["holds"] for claim in pairs), joins


@pytest.mark.thorough(reason="test_what_grows_is_told judges samples, tests/spark/test_life.py has a long run")
@pytest.mark.program
def test_soak(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    # As a user runs it: what it claims of memory is of a process of its own.
    options = ["--minutes", "0.03", "--sample-seconds", "1", "--rate", "40", "--json", str(file)]
    command = [sys.executable, "-m", "benchmarks.soak", *options]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert file.exists(), done.stderr
    found = json.loads(file.read_text())
    assert len(found["samples"]) == 2
    # Two samples have no quarters, so what is claimed is that nothing is lost and nothing left.
    assert len(found["claims"]) == 4
    assert all(claim["holds"] for claim in found["claims"]), found["claims"]


def sample(jvm: float, batch: float) -> Sample:
    return Sample(0, jvm, 100, 100, 100, 100, batch, 1, 0, 10, 1, 10, 10, 0)


def test_what_grows_is_told() -> None:
    steady = [sample(500, 1.0)] * 8
    assert all(claim.holds for claim in flat_claims(steady))
    # Quarters     1   1    2   2    3   3    4    4
    memory = [400, 400, 500, 500, 600, 600, 700, 700]
    claims = flat_claims([sample(size, 1.0) for size in memory])
    assert [claim.text for claim in claims if not claim.holds] == [
        "JVM, resident, MiB: 500.00 in the second quarter, 700.00 in the last (at most 625.00)"
    ]
    # What grows in the first quarter alone is not told: caches fill then.
    assert all(claim.holds for claim in flat_claims([sample(100, 9.0)] * 2 + steady[:6]))
    assert flat_claims(steady[:3]) == []


def test_tables_are_aligned() -> None:
    assert markdown_table(("what", "s"), [["a", "1.25"]]).splitlines() == [
        "| what |    s |",
        "|------|-----:|",
        "| a    | 1.25 |",
    ]
    assert Claim("t", holds=True).timed is False
