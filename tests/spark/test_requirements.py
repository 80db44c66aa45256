"""What the Spark engine says where a package is missing, or too old."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from windrow.distribution import install_hint

BLOCKED = """
    import sys
    from importlib.abc import MetaPathFinder

    class Absent(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in sys.argv[1:]:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Absent())
"""
IMPORT = """
    from windrow.errors import UnsupportedOperationError
    from windrow_runtime.local import LocalRunner
    from windrow_runtime.spark import PipelineResult

    try:
        from windrow_runtime.spark import SparkRunner
    except UnsupportedOperationError as error:
        print(error)
"""
BROKEN = """
    from importlib import abc, machinery

    class Broken(abc.MetaPathFinder, abc.Loader):
        def find_spec(self, name, path=None, target=None):
            return machinery.ModuleSpec(name, self) if name == "pyarrow" else None

        def exec_module(self, module):
            raise ImportError("libarrow.so: cannot open shared object file", name="pyarrow.lib")

    sys.meta_path.insert(0, Broken())
"""


def lines_printed(*parts: str, arguments: list[str], path: Path | None = None) -> list[str]:
    """Runs a program that imports the runner, and returns the lines that it prints."""
    program = "".join(map(textwrap.dedent, parts))
    if path is not None:
        program = f"import sys; sys.path.insert(0, {str(path)!r})\n{program}"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


ALL = ["pyspark", "pandas", "numpy", "pyarrow", "msgspec"]


@pytest.mark.parametrize("packages", [*([package] for package in ALL), [*ALL, "google"]], ids=" ".join)
def test_packages_are_missing(packages: list[str]) -> None:
    named = packages[0] if len(packages) == 1 else "pyspark, pandas, pyarrow, numpy, protobuf, msgspec"
    title = "PySpark is not installed" if "pyspark" in packages else "packages that SparkRunner needs are not installed"
    assert lines_printed(BLOCKED, IMPORT, arguments=packages) == [
        title,
        f"  given:    without {named}",
        "  expected: PySpark 4.2 or newer",
        f"  hint:     {install_hint('spark')}",
    ]


@pytest.mark.parametrize("version", ["3.5.3", "4.1.4", "4.0.0.dev0"])
def test_an_older_pyspark(tmp_path: Path, version: str) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    assert lines_printed(IMPORT, arguments=[], path=tmp_path) == [
        "this PySpark is too old",
        f"  given:    PySpark {version}",
        "  expected: PySpark 4.2 or newer",
        f"  hint:     {install_hint('spark')}",
    ]


def test_a_package_that_cannot_be_imported() -> None:
    lines = lines_printed(BLOCKED, BROKEN, IMPORT, arguments=[])
    assert lines[0] == "a package that SparkRunner needs cannot be imported"
    assert "libarrow.so" in lines[1]


def test_this_installation() -> None:
    assert lines_printed(IMPORT, arguments=[]) == []
