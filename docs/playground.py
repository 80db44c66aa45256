"""The files of the page "Try it", on which a browser runs windrow's interpreter.

    python -m docs.playground      # fetch Pyodide by npm, and write everything into docs/_static/try

A build of the pages writes what is windrow's own by itself, and needs no network; without Pyodide the page says how to
get it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import cloudpickle
import typing_extensions

from windrow.distribution import DISTRIBUTION

__all__ = ["PYODIDE", "fetch_pyodide", "main", "write_own_files"]

PYODIDE: Final = "314.0.7"
"""The version of npm's package ``pyodide``; its Python is 3.14."""

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "_static" / "try"
PROGRAMS: Final = ROOT / "examples" / "browser"
# In the order of the page's list.
_TITLES: Final = {
    "A late element": "late_elements.py",
    "Sessions": "sessions.py",
    "Retractions": "retractions.py",
    "A process function": "process_function.py",
}
_LEFT_OUT: Final = frozenset({"windrow_kafka", "windrow_spark", "windrow_sql"})
"""The packages of what a browser lacks: Spark, brokers and databases."""

_PYODIDE_FILES: Final = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")


def write_own_files(folder: Path = FOLDER) -> None:
    """Write windrow as a zip, and the programs of the page."""
    files = {
        str(file.relative_to(ROOT / top)): file
        for top in ("dsl", "runtime")
        for file in sorted((ROOT / top).rglob("*.py"))
        if file.relative_to(ROOT / top).parts[0] not in _LEFT_OUT
    }
    files["typing_extensions.py"] = Path(typing_extensions.__file__)
    files |= {f"cloudpickle/{file.name}": file for file in sorted(Path(cloudpickle.__file__).parent.glob("*.py"))}
    with ZipFile(folder / "windrow.zip", "w", ZIP_DEFLATED) as packed:
        for name, file in files.items():
            # Without times, so that the same sources give the same bytes.
            packed.writestr(ZipInfo(name), file.read_bytes(), ZIP_DEFLATED)
        # The engine and the connectors are found by entry points.
        for name in ("METADATA", "entry_points.txt"):
            text = distribution(DISTRIBUTION).read_text(name)
            packed.writestr(ZipInfo(f"windrow_streams.dist-info/{name}"), text or "", ZIP_DEFLATED)
    programs = {title: (PROGRAMS / name).read_text(encoding="utf-8") for title, name in _TITLES.items()}
    is_with_python = (folder / "pyodide" / "version").exists()
    content = {"programs": programs, "isWithPython": is_with_python}
    (folder / "programs.json").write_text(json.dumps(content), encoding="utf-8")


def fetch_pyodide(folder: Path = FOLDER) -> None:
    """Fetch Pyodide by npm, which checks what it gets; does nothing if it is there.

    Raises:
        OSError: If there is no npm, or it cannot fetch the package.
    """
    target = folder / "pyodide"
    note = target / "version"
    if note.exists() and note.read_text() == PYODIDE:
        return
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm is missing; Debian, Ubuntu: apt-get install npm")
    with tempfile.TemporaryDirectory() as name:
        command = [npm, "pack", "--silent", "--pack-destination", name, f"pyodide@{PYODIDE}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"npm cannot fetch pyodide {PYODIDE}: {done.stderr.strip()[-500:]}")
        (archive,) = Path(name).glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(name, filter="data")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for file in _PYODIDE_FILES:
            shutil.move(Path(name) / "package" / file, target / file)
    note.write_text(PYODIDE)


def main() -> int:
    """Write all files of the page; returns 0 if they are there."""
    try:
        fetch_pyodide()
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        write_own_files()
    print(f"{FOLDER.relative_to(ROOT)} has Pyodide {PYODIDE} and windrow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
