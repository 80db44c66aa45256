"""Runs the suite on the lowest and on the newest versions that ``pyproject.toml`` allows.

    python -m tests.versions                                  # lowest on the oldest Python here, newest on the newest
    python -m tests.versions 3.12:newest 3.13:newest          # these
    python -m tests.versions 3.11:lowest --pyspark 4.2.1 -- tests/spark/test_facts.py -x

Each combination gets a virtual environment, and a copy of the checkout, in a temporary folder, which is deleted behind
it. `lowest` takes the lowest version of each package that windrow needs at run time, `newest` the newest one; the tools
of the tests are the newest.
What stands behind ``--`` goes to pytest. The exit code is 0 if all combinations have passed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from packaging.markers import Marker
from packaging.requirements import Requirement

__all__ = ["Combination", "interpreters", "lowest_versions", "main"]

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
EXTRAS: Final = (
    "spark",
    "connect",
    "database",
    "delta",
    "iceberg",
    "s3",
    "polars",
    "sketches",
    "kafka",
    "kafka-avro",
    "kafka-protobuf",
    "view",
    "telemetry",
    "lineage",
)
"""All that a run or its pages may need; where a package has no wheel for a Python, see :func:`_run`."""
_SHOWN: Final = 15


class Combination(NamedTuple):
    """A version of Python, and which versions of the packages it gets."""

    python: str
    packages: str  # lowest or newest

    @classmethod
    def parsed(cls, text: str) -> Combination:
        """Reads `3.11:lowest`."""
        python, _, packages = text.partition(":")
        if python not in PYTHONS or packages not in {"lowest", "newest"}:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no combination; expected one of {', '.join(PYTHONS)}, a colon, and lowest or newest"
            )
        return cls(python, packages)


def interpreters() -> dict[str, str]:
    """Returns the Pythons of this machine, by their versions: those of PATH, and those of pyenv and uv."""
    found: dict[str, str] = {}
    homes = [Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python"]
    for version in PYTHONS:
        name = f"python{version}"
        places = [Path(folder) / name for folder in os.get_exec_path()]
        places += [place for home in homes for place in sorted(home.glob(f"*{version}*/bin/{name}"))]
        if version == ".".join(map(str, sys.version_info[:2])):
            places.insert(0, Path(sys.executable))
        program = next(filter(_runs, places), None)
        if program is not None:
            found[version] = str(program)
    return found


def _runs(program: Path) -> bool:
    # A shim of pyenv's is there for versions, too, that are not chosen. The module is missing in some distributions.
    return (
        program.exists()
        and not subprocess.run([program, "-c", "import venv"], capture_output=True, check=False).returncode
    )


def lowest_versions(project: Path = ROOT / "pyproject.toml") -> dict[str, str]:
    """Returns the lowest version of each package that windrow needs at run time, by the package's name."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    wanted = [*table["dependencies"], *(line for extra in EXTRAS for line in table["optional-dependencies"][extra])]
    lowest: dict[str, str] = {}
    for requirement in map(Requirement, wanted):
        bounds = [bound.version for bound in requirement.specifier if bound.operator == ">="]
        if requirement.name != table["name"] and bounds:
            lowest[requirement.name] = bounds[0]
    return lowest


def _test_tools() -> list[str]:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # What checks the project's form, types and pages needs no other Python.
    return [str(line) for line in table["optional-dependencies"]["test"]]


def _run(
    combination: Combination, program: str, pyspark: str | None, folder: Path, arguments: Sequence[str]
) -> tuple[bool, str]:
    """Runs the suite on one combination; returns whether it passed, and the last line of pytest."""
    checkout = folder / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".*", "_build", "__pycache__"))
    subprocess.run([program, "-m", "venv", folder], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    extras, note = list(EXTRAS), ""
    if combination.packages == "newest" and not _has_wheel(python, "datasketches", folder):
        extras.remove("sketches")
        note = " (without the extra sketches: datasketches has no wheel for this Python)"
    pins = lowest_versions() if combination.packages == "lowest" else {}
    if pyspark is not None:
        pins["pyspark"] = pyspark
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()), encoding="utf-8")
    tools = [tool for tool in map(Requirement, _test_tools()) if _applies(tool.marker, combination.python)]
    subprocess.run(
        [*pip, "--constraint", constraints, "--editable", f"{checkout}[{','.join(extras)}]", *map(str, tools)],
        check=True,
    )
    # The cases of types are mypy's, which is no tool of the tests.
    suite: list[str | Path] = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--ignore=tests/typesafety"]
    # An older anyio, which lowest versions may bring, imports a name that pytest warns of.
    suite += ["-p", "no:anyio"]
    suite += arguments
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(suite, cwd=checkout, env=environment, text=True, capture_output=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    print(*lines[:_SHOWN], sep="\n", flush=True)
    if len(lines) > _SHOWN:
        print(f"... and {len(lines) - _SHOWN} more")
    return done.returncode == 0, (done.stdout.strip().splitlines() or [done.stderr[-300:]])[-1] + note


def _applies(marker: Marker | None, python: str) -> bool:
    return marker is None or marker.evaluate({"python_version": python, "extra": ""})


def _has_wheel(python: Path, package: str, folder: Path) -> bool:
    download: list[str | Path] = [
        python,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--only-binary",
        ":all:",
        "--no-deps",
        "--dest",
        folder,
    ]
    return subprocess.run([*download, package], capture_output=True, check=False).returncode == 0


def _default(there: Iterable[str]) -> list[Combination]:
    known = sorted(there, key=PYTHONS.index)
    return [Combination(known[0], "lowest"), Combination(known[-1], "newest")]


def main(arguments: Sequence[str]) -> int:
    """Runs what the arguments ask for, and prints a line for each combination."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    own, for_pytest = arguments[:place], arguments[place + 1 :]
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("combinations", nargs="*", type=Combination.parsed, metavar="PYTHON:lowest|newest")
    parser.add_argument("--pyspark", help="take this version of PySpark instead")
    options = parser.parse_args(own)
    there = interpreters()
    for version in PYTHONS:
        print(f"Python {version}: {there.get(version, 'not on this machine')}")
    passed = True
    for combination in options.combinations or _default(there):
        shown = f"Python {combination.python}, {combination.packages} versions"
        if combination.python not in there:
            # Only a combination that was asked for can lack its Python.
            print(f"MISSING {shown}: this machine has no Python {combination.python}", flush=True)
            passed = False
            continue
        with tempfile.TemporaryDirectory(prefix="windrow-versions-") as folder:
            ok, line = _run(combination, there[combination.python], options.pyspark, Path(folder), for_pytest)
        print(f"{'PASSED' if ok else 'FAILED'} {shown}: {line}", flush=True)
        passed = passed and ok
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
