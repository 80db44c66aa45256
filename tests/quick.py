"""Checks what a change touches in less than a minute: style, imports, types, and the tests that reach what was changed.

    python -m tests.quick            # what differs from the last commit; if nothing does, what the last commit changed
    python -m tests.quick --since main~3

Tests come in this order: those that were changed, those that import a changed module, those that import its room, and
those that reach it by other modules. Nothing starts Spark, and property tests have few examples. When the time is up,
what is left is skipped: `make check` and `make test` run it.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SECONDS: Final = 35.0
"""How long tests may begin; the first seconds go to their collection, and the checks run beside them."""

_DEADLINE: Final = "WINDROW_QUICK_DEADLINE"
_FILES_AT_ONCE: Final = 8
_OPTIONS: Final = ("-q", "-x", "-p", "tests.quick", "-m", "not spark", "--no-header")
_SOURCES: Final = ("dsl", "runtime", ".")
_CHECKS: Final = (
    ("ruff", "check", "-q"),
    ("ruff", "format", "--check", "-q"),
    ("lint-imports", "--no-logo"),
    ("mypy",),
)


def changed_files(since: str | None) -> tuple[str, list[str]]:
    """Returns from what on files count as changed, and their paths."""
    if since is None:
        files = [*_git("diff", "--name-only", "HEAD"), *_git("ls-files", "--others", "--exclude-standard")]
        if files:
            return "the last commit", files
        since = "HEAD~1"
    return since, _git("diff", "--name-only", since)


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def module_of(path: str) -> str | None:
    """Returns the name of the module in a file of the repository; None: it is none."""
    if not path.endswith(".py"):
        return None
    parts = list(Path(path).with_suffix("").parts)
    if parts[0] in _SOURCES:
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    """Returns the files of all modules of the language, the runtime and the tests, by name."""
    files = [*(ROOT / "dsl").rglob("*.py"), *(ROOT / "runtime").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    named = ((module_of(str(file.relative_to(ROOT))), file) for file in files)
    return {name: file for name, file in named if name is not None}


@cache
def registered() -> frozenset[str]:
    """Returns the modules that windrow's own entry points name."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    return frozenset(value.partition(":")[0] for entries in groups.values() for value in entries.values())


@cache
def imports_of(name: str) -> frozenset[str]:
    """Returns the modules that a module imports, wherever it does, or an engine finds by entry points."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(modules()[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.update(f"{node.module}.{each.name}" for each in node.names)
            found.add(node.module)
    if "windrow.entry_points" in found and name.startswith("windrow_"):
        found |= registered()
    return frozenset(found & modules().keys())


def tests_of(changed: Iterable[str]) -> list[str]:
    """Returns the modules of tests that reach changed modules, the nearest ones first."""
    there = {name for name in changed if name in modules()}
    rooms = {name.rpartition(".")[0] for name in there if not name.startswith("tests.")}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for name in modules():
        for imported in imports_of(name):
            importers[imported].add(name)
    distances = dict.fromkeys(there, 0)
    waiting = sorted(there)
    for name in waiting:  # it grows
        for importer in sorted(importers[name] - distances.keys()):
            distances[importer] = distances[name] + 1
            waiting.append(importer)

    def rank(name: str) -> tuple[int, int, str]:
        in_room = any(imported.rpartition(".")[0] in rooms for imported in imports_of(name))
        distance = distances[name]
        return (distance if distance < 2 else 2 if in_room else 3), distance, name

    return sorted((name for name in distances if _is_test(name)), key=rank)


def _is_test(name: str) -> bool:
    return name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")


class Budget:
    """Skips the tests that would begin when the time is up; a plugin of pytest's."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test, or let it run."""
        if time.time() > float(os.environ.get(_DEADLINE, "inf")):
            pytest.skip("the time is up; make check runs it")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugin, in each process of the tests."""
    config.pluginmanager.register(Budget(), "windrow-quick")


def _run(command: Sequence[str], **environment: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    begun = time.monotonic()
    program = [str(Path(sys.executable).parent / command[0]), *command[1:]]
    done = subprocess.run(
        program, cwd=ROOT, check=False, text=True, capture_output=True, env={**os.environ, **environment}
    )
    return time.monotonic() - begun, done


def _checks() -> bool:
    """Runs the checks, and prints a line for each; returns whether they pass."""
    passed = True
    for command in _CHECKS:
        seconds, done = _run(command)
        is_ok = done.returncode == 0
        passed = passed and is_ok
        print(f"{'ok' if is_ok else 'FAILED':7}{' '.join(command[:2])} ({seconds:.1f} s)", flush=True)
        if not is_ok:
            print(done.stdout, done.stderr, sep="\n", flush=True)
    return passed


class _Tests:
    """Runs files of tests, some at a time in a process, in order until the time is up."""

    def __init__(self, paths: Sequence[str], deadline: float) -> None:
        self._waiting = list(paths)
        self._environment = {_DEADLINE: str(deadline), "HYPOTHESIS_PROFILE": "quick"}
        self._deadline = deadline
        self.begun = 0
        self.passed = True

    def run(self) -> None:
        """Take files until none is left; several threads may."""
        while self._waiting and self.passed and time.time() < self._deadline:
            some, self._waiting = self._waiting[:_FILES_AT_ONCE], self._waiting[_FILES_AT_ONCE:]
            self.begun += len(some)
            _, done = _run(["pytest", *_OPTIONS, *some], **self._environment)
            # 5: nothing was collected, as where all of it needs Spark.
            is_ok = done.returncode in {0, 5}
            self.passed = self.passed and is_ok
            last = (done.stdout.strip().splitlines() or [""])[-1]
            print(f"{'ok' if is_ok else 'FAILED':7}{Path(some[0]).name} and {len(some) - 1} more: {last}", flush=True)
            if not is_ok:
                print(done.stdout, done.stderr, sep="\n", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Runs the checks and the tests; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--since", help="a commit, from which on files count as changed")
    begun = time.monotonic()
    since, files = changed_files(parser.parse_args(arguments).since)
    found = tests_of(name for name in map(module_of, files) if name is not None)
    print(f"{len(files)} files changed since {since}; {len(found)} files of tests reach them", flush=True)
    tests = _Tests([str(modules()[name].relative_to(ROOT)) for name in found], time.time() + SECONDS)
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(tests.run)]
        passed = _checks()
        running.append(pool.submit(tests.run))
        for each in running:
            each.result()
    print(f"{tests.begun} of {len(found)} files of tests in {time.monotonic() - begun:.1f} seconds")
    return 0 if passed and tests.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
