"""A module that runs its own pipeline on Spark while it is imported: the run would wait for the import for ever."""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

from windrow.errors import InvalidArgumentError
from windrow_tools.command.program import main

STEPS = """\
from typing import NamedTuple

from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink


class Click(NamedTuple):
    user: str


stream = from_collection([Click("ann")]).filter(lambda click: click.user != "")
pipeline = Pipeline("clicks", stream.sink_to(CollectSink[Click]()))
"""
RUNS = {
    "run": "SparkRunner().run(pipeline)",
    "run_batch": "SparkRunner().run_batch(pipeline)",
    "start": "SparkRunner(checkpoint='checkpoint').start(pipeline)",
    "to_dataframe": "SparkRunner().to_dataframe(stream, batch=True)",
    "collect": "stream.collect(SparkRunner())",
    "a function": "def started():\n    SparkRunner().run(pipeline)\nstarted()",
}
CHECK = """\
from windrow_spark.importing import check_imported
check_imported(pipeline.steps)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("call", RUNS)
def test_a_run_within_the_import_is_refused(call: str, folder: Path) -> None:
    text = f"{STEPS}from windrow_runtime.spark import SparkRunner\n{RUNS[call]}\n"
    name = f"clicks_{call.replace(' ', '_')}"
    (folder / f"{name}.py").write_text(text)
    with pytest.raises(InvalidArgumentError, match=f"the module {name} runs its pipeline on Spark") as caught:
        import_module(name)
    # The line is that of the module, not that of a function which it calls.
    assert str(caught.value.where) == f"{folder / name}.py:{len(text.splitlines())}"
    assert not (folder / "checkpoint").exists()


def test_the_command_says_where_the_run_should_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{STEPS}from windrow_runtime.spark import SparkRunner\n{RUNS['run']}\n"
    (folder / "clicks_of_command.py").write_text(text)
    assert main(["explain", "clicks_of_command.py"]) == 2
    assert 'hint:     put the run below if __name__ == "__main__":' in capsys.readouterr().err


def test_a_program_and_a_module_with_the_pipeline_of_another_are_not_refused(folder: Path) -> None:
    (folder / "steps_of_clicks.py").write_text(STEPS)
    (folder / "application.py").write_text(f"from steps_of_clicks import pipeline\n{CHECK}")
    (folder / "program_of_clicks.py").write_text(STEPS + CHECK)
    assert import_module("application").__name__ == "application"
    runpy.run_path("program_of_clicks.py", run_name="__main__")
    runpy.run_module("program_of_clicks", run_name="__main__", alter_sys=False)
    assert "program_of_clicks" not in sys.modules
    with pytest.raises(InvalidArgumentError):
        import_module("program_of_clicks")
