"""Makes the folder of a new project: a pipeline, tests with the harness and the interpreter, and settings for mypy."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

from windrow.distribution import DISTRIBUTION, requirement
from windrow.errors import InvalidArgumentError
from windrow_tools.command.failures import ExitCode

_FILES: Final = {
    "README.md": "README.md.txt",
    "pyproject.toml": "pyproject.toml.txt",
    ".gitignore": "gitignore.txt",
    "sensors.py": "sensors.py.txt",
    "tests/test_sensors.py": "test_sensors.py.txt",
    "data/readings.json": "readings.json.txt",
}
"""The files of a project, and what they are made from, in the folder ``starter`` beside this module."""

_NEEDED: Final = frozenset({DISTRIBUTION, "mypy", "pytest"})
"""What a project needs, by the names of distributions."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("folder", metavar="DIR", help="the folder of the project, which is created, or empty")


def prepare(options: Namespace) -> Callable[[], int]:
    """Refuses a folder with files in it; returns what writes the project."""
    folder = Path(options.folder)
    with _folder_errors(folder):
        kind = _what_is_there(folder)
    if kind is not None:
        raise InvalidArgumentError(
            "a project begins in a folder of its own",
            given=f"{folder}, which {kind}",
            expected="a folder that is empty, or does not exist",
        )

    def create() -> int:
        name = re.sub(r"[^A-Za-z0-9]+", "-", folder.absolute().name).strip("-").lower() or "pipeline"
        name = f"{name}-project" if name in _NEEDED else name  # else the project would need itself
        for path, template in _FILES.items():
            text = (files(__package__) / "starter" / template).read_text(encoding="utf-8")
            file = folder / path
            with _folder_errors(folder):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(
                    text.replace("@NAME@", name).replace("@WINDROW@", requirement("spark")), encoding="utf-8"
                )
            print(file)
        sys.stdout.flush()
        print(f"windrow: next: cd {shlex.quote(str(folder))} && windrow run sensors.py", file=sys.stderr)
        return ExitCode.OK

    return create


def _what_is_there(folder: Path) -> str | None:
    """Says what prevents a project in a folder; None: it is empty, or does not exist."""
    if folder.is_dir():
        return "has files" if any(folder.iterdir()) else None
    if folder.is_symlink():
        return "is a link to a file" if folder.exists() else "is a link to what does not exist"
    return "is a file" if folder.exists() else None


@contextmanager
def _folder_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # a ValueError: the path has a NUL
        raise InvalidArgumentError(
            "the folder of the project cannot be written",
            given=f"{folder}: {getattr(error, 'strerror', None) or error}",
            expected="a path below a folder in which you may create files",
        ) from error
