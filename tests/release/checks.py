"""The checks of a release, one after the other; the first that fails ends them."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from windrow.distribution import PACKAGES

ROOT: Final = Path(__file__).parents[2]
CONSUMER: Final = Path(__file__).parent / "consumer"
_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_SPARK_JOB: Final = """\
from temperatures import Reading
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
from windrow_runtime.spark import SparkRunner

results = CollectSink[float]()
doubled = from_collection([Reading("roof", 0, 3.5)]).map(lambda reading: reading.celsius * 2)
assert SparkRunner().run(Pipeline("doubled", doubled.sink_to(results))).collected(results) == [7.0]
"""


class ReleaseError(Exception):
    """A check has failed; the message says which, and what it printed."""


def version() -> str:
    """Returns the version that the package says it has."""
    found = _VERSION.search((ROOT / "dsl" / "windrow" / "__init__.py").read_text())
    if found is None:
        raise ReleaseError("dsl/windrow/__init__.py has no line __version__ = ...")
    return found[1]


def check_tag(tag: str, of: str, changelog: str) -> None:
    """Checks that a tag is the version with a v before it, and that the changelog has a section of it."""
    if tag != f"v{of}":
        raise ReleaseError(f"the tag is {tag}, and the package has version {of}; expected the tag v{of}")
    if not re.search(rf"^## \[{re.escape(of)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        raise ReleaseError(
            f"CHANGELOG.md has no section `## [{of}] - YYYY-MM-DD`; rename Unreleased, and begin a new one"
        )


def build(folder: Path) -> tuple[Path, Path]:
    """Builds the sdist from the checkout, and the wheel from the sdist."""
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)])
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def check_wheel(sdist: Path, wheel: Path) -> None:
    """Checks metadata, the description as a package index shows it, and the names of files."""
    run([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)])
    # Two packages in one wheel are meant: the language, and what runs it.
    run(["check-wheel-contents", "--toplevel", ",".join(PACKAGES), str(wheel)])
    run(["pyroma", "--min", "10", str(sdist)])


def consume(wheel: Path, folder: Path, *, on_spark: bool) -> None:
    """Installs a wheel into a new environment, and works there as one of its users."""
    project, environment = folder / "project", folder / "environment"
    project.mkdir()
    for name in ("temperatures.py", "test_temperatures.py"):
        shutil.copyfile(CONSUMER / f"{name}.txt", project / name)
    venv.create(environment, with_pip=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    tools = ["mypy>=2.4,<2.5", "basedpyright>=1.40,<1.41", "pytest>=9,<10"]
    wanted = f"{wheel}[spark]" if on_spark else str(wheel)
    run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted, *tools])

    run([str(python), "-m", "pytest", "-q", "test_temperatures.py"], project)
    run([str(python), "-m", "mypy", "--strict", "temperatures.py", "test_temperatures.py"], project)
    (project / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    pyright = [str(python), "-m", "basedpyright", "--pythonpath", str(python), "--level", "error"]
    run([*pyright, "temperatures.py", "test_temperatures.py"], project)

    (project / "refused.py").write_text((CONSUMER / "refused.py.txt").read_text())
    for checker in ([str(python), "-m", "mypy", "--strict"], pyright):
        refused = subprocess.run([*checker, "refused.py"], cwd=project, capture_output=True, text=True, check=False)
        if refused.returncode == 0 or "sensr" not in refused.stdout:
            raise ReleaseError(f"{checker[2]} does not refuse a field that is not there:\n{refused.stdout}")

    if on_spark:
        run([str(python), "-c", _SPARK_JOB], project, {"PYSPARK_PYTHON": str(python)})


def run(command: Sequence[str], folder: Path = ROOT, settings: dict[str, str] | None = None) -> None:
    """Runs a command in a folder, without the checkout on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    tools = str(Path(sys.executable).parent)
    environment |= {"PATH": tools + os.pathsep + environment.get("PATH", ""), **(settings or {})}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    print(f"passed: {' '.join(Path(part.splitlines()[0]).name for part in command)}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the checks; returns 0 if all have passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--tag", help="the tag of the release, such as v0.1.0")
    parser.add_argument("--spark", action="store_true", help="run a job on Spark in the consumer's environment")
    parser.add_argument(
        "--into", type=Path, default=ROOT / "dist", help="the folder of the built files; dist by default"
    )
    options = parser.parse_args(arguments)
    try:
        if options.tag:
            check_tag(options.tag, version(), (ROOT / "CHANGELOG.md").read_text())
        shutil.rmtree(options.into, ignore_errors=True)
        sdist, wheel = build(options.into)
        check_wheel(sdist, wheel)
        with tempfile.TemporaryDirectory() as folder:
            consume(wheel, Path(folder), on_spark=options.spark)
    except ReleaseError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    print(f"{sdist.name} and {wheel.name} are ready to be uploaded")
    return 0
