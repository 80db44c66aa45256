"""State that grows, shrinks and is cut into lists: ``python -m benchmarks.growth``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.environment import environment
from benchmarks.growth.cores import CoreRun, cores_section, run_on_cores
from benchmarks.growth.measurements import MEASUREMENTS
from benchmarks.growth.scale import FULL, QUICK, Scale
from benchmarks.section import Claim, Section

__all__ = ["main"]

_CORES = "cores"
_NAMES = (*MEASUREMENTS, _CORES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measurements and print the tables; 1 if something is wrong that no busy machine explains."""
    options = _parse(arguments)
    scale = QUICK if options.quick else FULL
    if options.form:
        scale = replace(scale, forms=tuple(options.form))
    scale = replace(scale, keys=options.keys or scale.keys, windows=options.windows or scale.windows)
    if options.child is not None:
        _be_child(options.only[0], scale, options.core_count, options.child)
        return 0
    where = environment()
    print(where.text(), flush=True)
    sections: list[Section] = []
    for name in options.only or _NAMES:
        section = _measure_cores(scale, options) if name == _CORES else _section(_measured(name, scale, options))
        sections.append(section)
        print(f"\n{section.text()}", flush=True)
    if options.json is not None:
        content = {"environment": asdict(where), "sections": [asdict(section) for section in sections]}
        options.json.write_text(json.dumps(content, indent=2) + "\n")
    return 0 if all(claim.holds or claim.timed for section in sections for claim in section.claims) else 1


def _measure_cores(scale: Scale, options: argparse.Namespace) -> Section:
    runs: list[CoreRun] = []
    for _ in range(scale.core_rounds):
        for cores in (1, 2):
            runs += [CoreRun(**run) for run in _measured(_CORES, scale, options, cores)]
    return cores_section(scale, runs)


# Any: what JSON holds.
def _measured(name: str, scale: Scale, options: argparse.Namespace, cores: int = 0) -> Any:
    """Run a measurement, in a process of its own unless one process was asked for; gives what it wrote."""
    with TemporaryDirectory(prefix="windrow-growth-") as folder:
        file = Path(folder) / "result.json"
        if options.one_process:
            _be_child(name, scale, cores, file)
        else:
            _run_child(name, options, cores, file)
        return json.loads(file.read_text())


def _run_child(name: str, options: argparse.Namespace, cores: int, file: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.growth", "--only", name, "--child", str(file)]
    command += ["--core-count", str(cores), *(["--quick"] if options.quick else [])]
    for form in options.form:
        command += ["--form", form]
    for size in ("keys", "windows"):
        if getattr(options, size) is not None:
            command += [f"--{size}", str(getattr(options, size))]
    root = Path(__file__).parents[2]
    # Workers tell on standard output how they fare.
    subprocess.run(command, cwd=root, stdout=sys.stderr, check=True)


def _be_child(name: str, scale: Scale, cores: int, file: Path) -> None:
    content: Any  # what JSON holds
    if name == _CORES:
        content = [asdict(run) for run in run_on_cores(scale, cores)]
    else:
        content = asdict(MEASUREMENTS[name](scale))
    file.write_text(json.dumps(content))


# Any: what JSON holds.
def _section(content: Any) -> Section:
    return Section(**{**content, "claims": [Claim(**claim) for claim in content["claims"]]})


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little state: does everything work?")
    parser.add_argument(
        "--one-process", action="store_true", help="start Java once; figures of memory are then of all measurements"
    )
    parser.add_argument("--only", action="append", choices=_NAMES, default=[], help="run this measurement (repeatable)")
    parser.add_argument(
        "--form", action="append", choices=FULL.forms, default=[], help="run this form of state (repeatable)"
    )
    parser.add_argument("--keys", type=int, help=f"keys stored, and ten times as many (default {FULL.keys:,})")
    parser.add_argument("--windows", type=int, help=f"open windows in memory (default {FULL.windows:,})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--core-count", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if any(number is not None and number < 100 for number in (options.keys, options.windows)):
        parser.error("--keys and --windows must be at least 100")
    if options.json is not None and not os.access(options.json.resolve().parent, os.W_OK):
        parser.error(f"cannot write {options.json}")
    return options


if __name__ == "__main__":
    sys.exit(main())
