"""The process of the command, as shells and supervisors have it: closed streams, SIGTERM, Ctrl-C at its begin."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command.conftest import Write
from tests.command.programs import COUNTS
from windrow_tools.command.__main__ import start
from windrow_tools.command.program import main

COMMAND = f"{sys.executable} -m windrow_runtime.command"

ENDED = """\
    import os, signal
    from windrow import Pipeline, from_collection
    from windrow.sinks import CollectSink

    def end(number: int) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return number

    pipeline = Pipeline("numbers", from_collection([1, 2]).map(end).sink_to(CollectSink()))
"""


def in_shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.program
def test_what_goes_to_a_closed_stream_goes_nowhere_else(write: Write, tmp_path: Path) -> None:
    write("counting.py", COUNTS)
    silent = in_shell(tmp_path, f"{COMMAND} run counting.py 2>&-")
    assert (silent.returncode, silent.stdout) == (0, "1\n1\n1\n")  # and no summary among the results
    mute = in_shell(tmp_path, f"{COMMAND} run counting.py <&- >&-")
    assert (mute.returncode, mute.stdout) == (0, "")
    assert mute.stderr.startswith("counts ended: 3 elements collected, ")
    failed = in_shell(tmp_path, f"{COMMAND} run missing.py 2>&-")
    assert (failed.returncode, failed.stdout) == (2, "")


@pytest.mark.program
@pytest.mark.parametrize("ignoring", ["", "trap '' INT; "], ids=["foreground", "background of a shell"])
def test_sigterm_ends_a_run_of_the_interpreter(ignoring: str, write: Write, tmp_path: Path) -> None:
    write("ended.py", ENDED)
    done = in_shell(tmp_path, f"{ignoring}exec {COMMAND} run ended.py")
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "windrow: terminated\n")


@pytest.mark.program
def test_sigterm_that_is_ignored_stays_ignored(write: Write, tmp_path: Path) -> None:
    write("ended.py", ENDED)
    done = in_shell(tmp_path, f"trap '' TERM; exec {COMMAND} run ended.py")
    assert (done.returncode, done.stdout) == (0, "1\n2\n")


def test_an_error_behind_sigterm_is_no_news(capsys: pytest.CaptureFixture[str], write: Write, tmp_path: Path) -> None:
    # A supervisor that tells all processes has ended Java, which the engine reports as a failure.
    write(
        "broken.py",
        "import os, signal, contextlib\nwith contextlib.suppress(KeyboardInterrupt):\n    "
        'os.kill(os.getpid(), signal.SIGTERM)\nraise ValueError("Java is gone")\n',
    )
    before, paths = signal.getsignal(signal.SIGTERM), [*sys.path]
    try:
        assert main(["run", "broken.py"]) == 143
    finally:
        sys.path[:] = paths
    assert capsys.readouterr().err == "windrow: terminated\n"
    assert signal.getsignal(signal.SIGTERM) is before


# What `main` does first stands for the import of its module, which the same block has.
@pytest.mark.parametrize("importing", ["prepare_streams", "import_module"], ids=["the command", "a subcommand"])
def test_ctrl_c_while_it_is_imported_shows_no_stack(
    importing: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*names: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"windrow_tools.command.program.{importing}", interrupt)
    monkeypatch.setattr(sys, "argv", ["windrow", "run"])
    assert start() == 130
    assert capsys.readouterr().err == "windrow: interrupted\n"
