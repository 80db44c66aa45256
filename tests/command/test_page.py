"""The examples of the page on the command print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.command.conftest import Command, Write
from windrow_tools.command.program import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "command.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(kind: str) -> list[str]:
    return [match[2] for match in BLOCK.finditer(PAGE) if match[1] == kind]


def examples() -> list[tuple[str, str]]:
    """Each command of the page, with what it prints."""
    lines = [block.partition("\n") for block in blocks("console")]
    return [(line.removeprefix("$ windrow "), printed) for line, _, printed in lines]


EXAMPLES = dict(examples())
OF_SAVEPOINTS = {"savepoint", "rescale", "upgrade", "state"}
ON_SPARK = "check-upgrade checkpoint orders.py"


@pytest.fixture
def files(write: Write) -> None:
    (data,) = blocks("json")
    for program in blocks("python"):
        write(program.splitlines()[0].removeprefix("# "), program)
    write("orders.json", data)


def matches(shown: str, printed: str) -> bool:
    """Whether a command printed what the page shows, in which dots stand for any text."""
    return re.fullmatch(".*?".join(map(re.escape, shown.split("..."))), printed, re.DOTALL) is not None


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", sorted(EXAMPLES.keys() - {ON_SPARK}))
def test_an_example(command: str, windrow: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # None of them starts Java, so the version that it says is enough.
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    done = windrow(*command.split())
    assert done.code == 0
    assert matches(EXAMPLES[command], done.out + done.err), done.out + done.err


@pytest.mark.usefixtures("files")
@pytest.mark.classic(reason="the file is handed to the workers of a classic session")
def test_an_upgrade(spark: SparkSession, windrow: Command, tmp_path: Path) -> None:
    program = tmp_path / "orders.py"
    # Spark's process has another working directory.
    program.write_text(program.read_text().replace('"orders.json"', f'"{tmp_path}/orders.json"'))
    spark.sparkContext.addPyFile(str(program))
    options = ("--engine", "spark", "--checkpoint", "checkpoint", "--available-now")
    assert windrow("run", "orders.py", *options).code == 0
    done = windrow(*ON_SPARK.split())
    assert done.code == 0
    assert matches(EXAMPLES[ON_SPARK], done.out), done.out


def test_each_command_is_shown() -> None:
    assert [name for name in COMMANDS if f"`windrow {name} " not in PAGE and f"`windrow {name}`" not in PAGE] == []
    assert {command.split()[0] for command in EXAMPLES} == COMMANDS.keys() - {"replay", *OF_SAVEPOINTS}
    savepoints = (Path(__file__).parents[2] / "docs" / "savepoints.md").read_text()
    assert [name for name in OF_SAVEPOINTS if f"`windrow {name} " not in savepoints] == []


def test_dots_stand_for_any_text() -> None:
    assert matches("a ... c\n", "a b c\n")
    assert not matches("a ... c\n", "a b d\n")
    assert not matches("a\n", "a b\n")
