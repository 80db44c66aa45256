"""How the two packages are built: which modules import which."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"windrow": ROOT / "dsl" / "windrow", "windrow_runtime": ROOT / "runtime" / "windrow_runtime"}


def modules() -> dict[str, Path]:
    """The file of each module of both packages, by the module's name."""
    found: dict[str, Path] = {}
    for package, folder in PACKAGES.items():
        for file in sorted(folder.rglob("*.py")):
            parts = [package, *file.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imported(file: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of both packages that a module imports when it runs, inside functions too."""
    nodes: list[ast.AST] = [ast.parse(file.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in known:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module for name in names)


def circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in imports[module]:
            if other not in order:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == order[module]:
            circle = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(circle) > 1:
                found.append(set(circle))

    for module in imports:
        if module not in order:
            visit(module)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}) == [{"a", "b", "c"}]


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    assert circles({module: set(imported(file, known)) - {module} for module, file in known.items()}) == []


def test_rooms_are_small() -> None:
    """A folder with more modules than a reader can keep in mind holds two things."""
    sizes = {folder: len([*folder.glob("*.py")]) for package in PACKAGES.values() for folder in folders(package)}
    assert {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > 20} == {}


def folders(package: Path) -> list[Path]:
    """The folders of a package that hold modules."""
    return sorted({file.parent for file in package.rglob("*.py")})


def test_the_pages_name_the_folders_that_exist() -> None:
    there = {str(folder.relative_to(ROOT)) for package in PACKAGES.values() for folder in folders(package)}
    architecture = set(re.findall(r"`((?:dsl|runtime)/[\w/]+)`", (ROOT / "docs" / "architecture.md").read_text()))
    assert architecture == there - {"runtime/windrow_runtime"}
    readme = (ROOT / "README.md").read_text().partition("## Layout")[2]
    named = set(re.findall(r"`((?:dsl|runtime)/[\w/]+)`", readme))
    runtime = PACKAGES["windrow_runtime"]
    assert named >= {str(folder.relative_to(ROOT)) for folder in folders(runtime) if folder.parent == runtime}
    assert named <= there


def test_contributing_names_what_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:dsl|runtime|tests|docs)/[\w/.]+)`", page))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


SHARED_NAMES = {
    ("local", "spark"): {"runner"},  # each engine has one
    ("spark/sinks", "spark/sources"): {"table"},  # who reads each source, and who writes each sink
}
"""Modules of sibling folders that have one name since they are one thing in two places."""


def test_a_module_name_means_one_thing_among_sibling_folders() -> None:
    shared: dict[tuple[str, str], set[str]] = {}
    for package in PACKAGES.values():
        names = {folder: {file.stem for file in folder.glob("*.py")} for folder in folders(package)}
        for one, other in combinations(sorted(names), 2):
            both = names[one] & names[other] - {"__init__"}
            if one.parent == other.parent and both:
                shared[str(one.relative_to(package)), str(other.relative_to(package))] = both
    assert shared == SHARED_NAMES


MOST_LINES = 28_900
"""The lines of the runtime, docstrings and blank lines included; only what users get from them raises this."""


def test_the_runtime_does_not_grow_unseen(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(PACKAGES["windrow_runtime"].rglob("*.py"))
    texts = [file.read_text().splitlines() for file in files]
    lines = sum(map(len, texts))
    with capsys.disabled():
        print(f"\nruntime: {lines:,} lines in {len(files)} files, {sum(map(len, map(_filled, texts))):,} not blank")
    assert lines <= MOST_LINES


def _filled(lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip()]
