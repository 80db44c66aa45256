"""The project that `windrow new` makes passes its own tests and the strict checks of its types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.command.conftest import Command, Write
from windrow.distribution import requirement

ROOT = Path(__file__).parents[2]
MEAN = re.compile(r"^Mean\(sensor='(\w+)', .*, celsius=([\d.]+)\)$", re.MULTILINE)


def in_project(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT / "dsl"), str(ROOT / "runtime")])
    # What mypy has found out of windrow itself is kept between runs.
    cache = str(ROOT / ".mypy_cache" / "project")
    environment = {**os.environ, "PYTHONPATH": paths, "MYPYPATH": paths, "MYPY_CACHE_DIR": cache}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def commands(project: Path) -> list[str]:
    """The commands of the project's README, without what is said of them."""
    lines = (project / "README.md").read_text().splitlines()
    return [line.removeprefix("$ ").partition("  #")[0].strip() for line in lines if line.startswith("$ ")]


@pytest.fixture
def project(windrow: Command, write: Write, tmp_path: Path) -> Path:
    write("beside.txt", "")
    done = windrow("new", "shop/My Sensors!")
    assert (done.code, done.err) == (0, "windrow: next: cd 'shop/My Sensors!' && windrow run sensors.py\n")
    assert {"sensors.py", "tests/test_sensors.py", "pyproject.toml", "README.md"} <= {
        line.removeprefix("shop/My Sensors!/") for line in done.out.splitlines()
    }
    return tmp_path / "shop" / "My Sensors!"


def test_its_tests_pass(project: Path) -> None:
    assert commands(project)[:3] == ["python -m pip install pytest mypy", "python -m pytest", "python -m mypy"]
    done = in_project(project, "pytest", "-q", "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_its_types_and_style_pass(project: Path) -> None:
    for tool in ("mypy", "ruff"):
        pytest.importorskip(tool, reason=f"{tool} is a tool for work on windrow, which tests alone do not need")
    for command in (["mypy", "--strict"], ["ruff", "check", "--isolated"], ["ruff", "format", "--check", "--isolated"]):
        done = in_project(project, *command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_commands_run(project: Path) -> None:
    done = in_project(project, "windrow_runtime.command", "run", "sensors.py")
    assert done.returncode == 0, done.stderr
    means = [(sensor, float(celsius)) for sensor, celsius in MEAN.findall(done.stdout)]
    assert means == [("hall", 21.0), ("yard", 2.5), ("hall", 22.0), ("yard", 1.5)]
    assert done.stderr == "sensors ended: 4 elements written, 0 dropped as late, 0 dropped otherwise\n"
    # The reading that the README adds ends the minute before it, and opens one of its own.
    (more,) = (line for line in commands(project) if line.startswith("echo"))
    subprocess.run(more, shell=True, cwd=project, check=True)
    done = in_project(project, "windrow_runtime.command", "run", "sensors.py", "--no-drain")
    assert [float(celsius) for _, celsius in MEAN.findall(done.stdout)] == [21.0, 2.5, 22.0, 1.5]
    assert in_project(project, "pytest", "-q", "-k", "data_of_the_project").returncode == 0


def test_its_settings_name_the_project(project: Path) -> None:
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    assert settings["project"]["name"] == "my-sensors"
    assert settings["project"]["dependencies"] == [requirement("spark")]
    assert (project / "README.md").read_text().startswith("# my-sensors\n")
    assert [file for file in project.rglob("*") if file.is_file() and "@NAME@" in file.read_text()] == []


def test_a_folder_with_files_stays_as_it_is(windrow: Command, write: Write, tmp_path: Path) -> None:
    write("full/file.txt", "mine")
    for name, expected in (("full", "full, which has files"), ("full/file.txt", "full/file.txt, which is a file")):
        done = windrow("new", name)
        assert (done.code, done.out) == (2, "")
        assert expected in done.err
    assert [*(tmp_path / "full").iterdir()] == [tmp_path / "full" / "file.txt"]
    (tmp_path / "empty").mkdir()
    assert windrow("new", "empty").code == 0


def test_a_path_that_can_be_no_folder_is_refused(windrow: Command, write: Write, tmp_path: Path) -> None:
    write("file", "")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name, expected in {
        "dangling": "dangling, which is a link to what does not exist",
        "file/project": "file/project: Not a directory",
        "a\0b": "null byte",
        "x" * 300: "File name too long",
    }.items():
        done = windrow("new", name)
        assert (done.code in {1, 2}, done.out) == (True, "")
        assert expected in done.err
        assert "Errno" not in done.err
        assert "no error of windrow's" not in done.err


def test_a_project_does_not_need_itself(windrow: Command, write: Write, tmp_path: Path) -> None:
    write("there", "")
    for folder, expected in (("pytest", "pytest-project"), ("windrow streams", "windrow-streams-project"), ("a", "a")):
        assert windrow("new", folder).code == 0
        settings = tomllib.loads((tmp_path / folder / "pyproject.toml").read_text())
        assert settings["project"]["name"] == expected
        needed = [*settings["project"]["dependencies"], *settings["dependency-groups"]["dev"]]
        assert expected not in {name.partition("[")[0] for name in needed}
