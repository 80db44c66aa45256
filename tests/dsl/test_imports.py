"""What imports what, in a fresh interpreter."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import windrow

HEAVY = ["pyspark", "pyarrow", "pandas", "numpy", "msgspec"]


def loaded(statements: str, modules: list[str]) -> list[str]:
    """Which of ``modules`` are loaded after ``statements``."""
    program = f"{statements}\nimport sys\nprint(*[name for name in {modules!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def modules_of_the_language() -> list[str]:
    names = [found.name for found in pkgutil.walk_packages(windrow.__path__, "windrow.")]
    return ["windrow", *names]


def test_the_language_needs_no_engine() -> None:
    imports = "\n".join(f"import {name}" for name in modules_of_the_language())
    assert loaded(imports, [*HEAVY, "windrow_runtime"]) == []


@pytest.mark.parametrize("package", ["windrow_runtime.local", "windrow_runtime.testing"])
def test_the_interpreter_needs_no_spark(package: str) -> None:
    assert loaded(f"import {package}", HEAVY) == []


@pytest.mark.parametrize("module", modules_of_the_language())
def test_every_public_name_exists(module: str) -> None:
    found = importlib.import_module(module)
    names = getattr(found, "__all__", [])
    assert [name for name in names if not hasattr(found, name)] == []
    assert len(set(names)) == len(names)
