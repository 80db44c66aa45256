from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple, TypeAlias

import pytest

from windrow_tools.command.program import main


class Done(NamedTuple):
    """What a command has left."""

    code: int
    out: str
    err: str


Command: TypeAlias = Callable[..., Done]
Write: TypeAlias = Callable[..., Path]


@pytest.fixture
def windrow(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs the command in this process, which forgets the user's modules and folders at the end of the test."""
    paths, modules = [*sys.path], {*sys.modules}

    def run(*arguments: object) -> Done:
        code = main([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    yield run
    sys.path[:] = paths
    for name in {*sys.modules} - modules:
        if not name.startswith(("windrow", "pyspark", "pyarrow", "pandas", "numpy")):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file below the working directory, which is a temporary folder."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    return write_file
