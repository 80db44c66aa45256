"""`windrow run` by the interpreter: results, the summary, exit codes, Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command.conftest import Command, Write
from tests.command.programs import COUNTS
from windrow_tools.command.program import COMMANDS, main

INTERRUPTED = """\
    import os, signal
    from windrow import Pipeline, from_source
    from windrow.sinks import CollectSink
    from windrow.sources import CollectionSource

    def interrupt(number: int) -> int:
        for _ in range(number == 2 and TIMES):
            os.kill(os.getpid(), signal.SIGINT)
        return number

    numbers = from_source(CollectionSource([1, 2, 3, 4, 5, 6], int, batch_size=2))
    pipeline = Pipeline("numbers", numbers.map(interrupt).sink_to(CollectSink()))
"""


def test_results_go_to_stdout_and_the_summary_to_stderr(windrow: Command, write: Write) -> None:
    write("counting.py", COUNTS)
    done = windrow("run", "counting.py")
    assert (done.code, done.out) == (0, "1\n1\n1\n")
    assert done.err.splitlines()[0] == "counts ended: 3 elements collected, 1 dropped as late, 0 dropped otherwise"
    assert done.err.splitlines()[1].endswith("late_records_dropped 1")
    assert "  counts.4.window, " in done.err


def test_what_stdout_has_no_characters_for_is_escaped(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        "wide.py",
        """\
        from windrow import Pipeline, from_collection
        from windrow.sinks import CollectSink

        pipeline = Pipeline("wide", from_collection(["é", "\U0001f600"], str).sink_to(CollectSink()))
        """,
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    assert main(["run", "wide.py"]) == 0
    assert main(["run", "wide.py", "--format", "json"]) == 0
    assert main(["explain", "wide.py", "--format", "json"]) == 0
    texts, document = written.getvalue().decode("ascii").split("{", 1)
    assert texts == "'\\u00e9'\n'\\ud83d\\ude00'\n"
    lines = f"{{{document}".splitlines()
    assert [json.loads(line)["value"] for line in lines[:2]] == ["é", "\U0001f600"]
    assert json.loads("\n".join(lines[2:]))["pipeline"] == "wide"


def test_what_is_open_fires_unless_it_shall_not(windrow: Command, write: Write) -> None:
    write("open.py", COUNTS)
    assert windrow("run", "open.py", "--drain").out == "1\n1\n1\n"
    assert windrow("run", "open.py", "--no-drain").out == "1\n"


def test_elements_as_json(windrow: Command, write: Write) -> None:
    sinks = "readings().sink_to(CollectSink('read')), times.sink_to(CollectSink('at'))"
    write(
        "as_json.py",
        f"{COUNTS}\n_untyped = readings().map(lambda reading: max([reading.at], key=abs))\n"
        "times = _untyped.returns(int)\n"
        f"both = Pipeline('both', {sinks})\nuntyped = Pipeline('untyped', _untyped.sink_to(CollectSink()))\n",
    )
    lines = windrow("run", "as_json.py:both", "--format", "json").out.splitlines()
    assert lines[0] == '{"sink":"read","value":{"sensor":"a","at":1}}'
    assert lines[4:6] == ['{"sink":"at","value":1}', '{"sink":"at","value":2500}']
    assert windrow("run", "as_json.py:both").out.splitlines()[3:5] == ["read: Reading(sensor='a', at=2700)", "at: 1"]
    done = windrow("run", "as_json.py:untyped", "--format", "json")
    assert done.code == 2
    assert "call returns(Type) before sink_to, or leave out --format json" in done.err


def test_a_function_that_raises_is_shown_with_its_own_traceback(windrow: Command, write: Write) -> None:
    write(
        "raising.py", f"{COUNTS}\nbad = Pipeline('bad', readings().map(lambda r: r.at // 0).sink_to(CollectSink()))\n"
    )
    done = windrow("run", "raising.py:bad")
    assert (done.code, done.out) == (1, "")
    before, _, after = done.err.partition("ZeroDivisionError: integer division or modulo by zero\nwindrow: ")
    assert "raising.py" in before
    assert "windrow_runtime" not in before
    assert after.startswith("a function of the step raised ZeroDivisionError: ")
    assert "where:    bad.3.map, " in after


def test_sinks_of_one_name_have_numbers(windrow: Command, write: Write) -> None:
    write(
        "alike.py",
        """\
        from windrow import Pipeline, from_collection
        from windrow.sinks import CollectSink

        names = ["sums", "sums", "late", "sums 1"]
        steps = [from_collection([number], int).sink_to(CollectSink(name)) for number, name in enumerate(names)]
        pipeline = Pipeline("alike", *steps)
        """,
    )
    assert windrow("run", "alike.py").out == "sums 2: 0\nsums 3: 1\nlate: 2\nsums 1: 3\n"
    lines = windrow("run", "alike.py", "--format", "json").out.splitlines()
    assert [json.loads(line)["sink"] for line in lines] == ["sums 2", "sums 3", "late", "sums 1"]


def test_the_summary_of_a_run_that_collects_nothing(windrow: Command, write: Write, tmp_path: Path) -> None:
    write(
        "folders.py",
        """\
        from windrow import Pipeline, from_collection
        from windrow.sinks import JsonFileSink

        pipeline = Pipeline("folders", from_collection([1, 2], int).sink_to(JsonFileSink("out")))
        """,
    )
    done = windrow("run", "folders.py")
    assert (done.code, done.out) == (0, "")
    assert done.err == "folders ended: 2 elements written, 0 dropped as late, 0 dropped otherwise\n"
    assert any((tmp_path / "out").glob("batch-*.json"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--checkpoint", "c"], "the interpreter has no checkpoints"),
        (["--interval", "5"], "a run that ends by itself has no interval"),
        (["--engine", "spark", "--interval", "5"], "a run that ends by itself has no interval"),
        (["--engine", "spark", "--checkpoint", "c", "--interval", "-1"], "an interval is not negative"),
        (["--engine", "spark", "--checkpoint", "c", "--interval", "nan"], "an interval is not negative"),
        (["--engine", "spark", "--accept-changes", "a"], "only a run that goes on from a checkpoint"),
        (["--engine", "spark", "--savepoint", "s"], "only a new checkpoint begins from a savepoint"),
        (["--engine", "spark", "--checkpoint", "c", "--renamed", "a=b"], "renamed between a savepoint and a plan"),
        (["--engine", "spark", "--checkpoint", "c", "--savepoint", "s", "--renamed", "a"], "an old name and a new one"),
        (["--engine", "flink"], "invalid choice: 'flink'"),
        (["--view"], "the interpreter makes no reports on its batches, which views show"),
        (["--dashboard", "0"], "the interpreter makes no reports on its batches, which views show"),
        (["--engine", "spark", "--dashboard", "page"], "invalid int value: 'page'"),
        (["--engine", "spark", "--dashboard", "65536"], "no page can be served on this port"),
        (["--engine", "spark", "--checkpoint", ""], "a checkpoint is kept at a path\n  given:    ''"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], expected: str, windrow: Command, write: Write) -> None:
    write("options.py", COUNTS)
    done = windrow("run", "options.py", *options)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert not Path("c").exists()


def test_ctrl_c_stops_after_the_batch_at_hand(windrow: Command, write: Write) -> None:
    write("once.py", INTERRUPTED.replace("TIMES", "1"))
    done = windrow("run", "once.py")
    assert (done.code, done.out) == (130, "1\n2\n")
    assert done.err.splitlines() == [
        "windrow: stopping after the batch at hand; Ctrl-C again breaks it off",
        "numbers was stopped: 2 elements collected, 0 dropped as late, 0 dropped otherwise",
    ]


def test_a_second_ctrl_c_breaks_the_batch_off(windrow: Command, write: Write) -> None:
    write("twice.py", INTERRUPTED.replace("TIMES", "2"))
    done = windrow("run", "twice.py")
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1] == "windrow: interrupted"


def test_the_help_names_each_command_and_code(windrow: Command) -> None:
    shown = windrow("--help")
    assert shown.code == 0
    assert [word for word in (*COMMANDS, "130", "exit codes") if word not in shown.out] == []
    assert windrow().code == 2
    assert windrow("fly").code == 2


def test_a_command_imports_what_it_needs_alone(write: Write) -> None:
    write("light.py", COUNTS)
    program = (
        "import sys; from windrow_tools.command.program import main; main(sys.argv[1:]);"
        "heavy = ('pyspark', 'pyarrow', 'pandas', 'msgspec', 'windrow_tools.command');"
        "print(*sorted(name for name in sys.modules if name.startswith(heavy)))"
    )
    own = {"failures", "process", "program"}
    for arguments, modules in ((["--help"], own), (["run", "light.py"], {*own, "run", "parameters", "user_file"})):
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        imported = {name.removeprefix("windrow_tools.command.") for name in done.stdout.splitlines()[-1].split()}
        assert imported - {"windrow_tools.command"} == modules


def test_a_reader_that_has_enough_ends_the_command_quietly(write: Write) -> None:
    write("many.py", COUNTS.replace("READINGS = [", "READINGS = 100 * ["))
    command = [sys.executable, "-m", "windrow_runtime.command", "run", "many.py"]
    read, written = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(command, stdout=written, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(written)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_port_that_is_taken_is_found_before_spark_starts(windrow: Command, write: Write) -> None:
    write("counting.py", COUNTS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = windrow("run", "counting.py", "--engine", "spark", "--dashboard", taken.getsockname()[1])
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("windrow: no page can be served on this port: ")


def test_the_command_sends_events(
    windrow: Command, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        "numbers_job.py",
        "from windrow import Pipeline, from_collection\n"
        "from windrow.sinks import JsonFileSink\n"
        'pipeline = Pipeline("numbers", from_collection([1]).sink_to(JsonFileSink("out")))\n',
    )
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events.json"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    done = windrow("run", "numbers_job.py", "--lineage")
    assert done.code == 0, done.err
    events = [json.loads(line) for line in (tmp_path / "events.json").read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert events[0]["outputs"][0]["name"].endswith("/out")
    assert events[0]["inputs"] == []
