"""A pipeline on several machines, one of which is killed. By hand: ``python -m tests.machines --job topics``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.machines.machines import ROOT, refusal
from tests.machines.memory import Memory
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


@pytest.mark.parametrize(("step", "faults"), [(2.0, 0), (10.0, 1)])
def test_memory_that_grows_is_a_fault(step: float, faults: int) -> None:
    memory = Memory()
    # An executor dies now and then, and its Python has nothing to show for a while.
    memory.samples += [
        {"driver's JVM": 500.0 + step * number, **({"executor's Python": 200.0} if number % 5 else {})}
        for number in range(60)
    ]
    assert len([*memory.faults()]) == faults
    first, last = 500 + step * 9.5, 500 + step * 49.5
    assert memory.told() == f"memory driver's JVM {first:.0f} and {last:.0f} MB, executor's Python 200 and 200 MB"
