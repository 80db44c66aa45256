"""A pipeline on several machines, one of which is killed. By hand: ``python -m tests.machines --job topics``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.machines.machines import ROOT, refusal
from tests.support.thorough import thorough

NIGHT = "cluster/test_cluster.py loses a worker, on one machine"


@pytest.mark.program
@pytest.mark.parametrize("mode", [thorough("plain", reason=NIGHT), thorough("kills", reason=NIGHT)])
def test_machines_write_what_the_interpreter_writes(mode: str) -> None:
    reason = refusal()
    if reason is not None:
        pytest.skip(reason)
    command = ["--mode", mode, "--minutes", "0.2", *(["--kills", "1"] if mode == "kills" else [])]
    done = subprocess.run(
        [sys.executable, "-m", "tests.machines", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    line = done.stdout.splitlines()[-1]
    assert line.startswith(f"sensors {mode}: ")
    assert f"{int(mode == 'kills')} kills" in line
    assert "equal to the interpreter's" in line
