"""``--help`` of each example prints how it is called, and runs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_help_says_how_to_call_it(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(example), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith(f"usage: {example.name}")
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
