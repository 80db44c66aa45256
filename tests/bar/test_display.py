"""Where the progress of a run is shown: the last row of a terminal, a notebook, and nowhere else."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TextIO

import pyte
import pytest

from windrow import Pipeline, from_source
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.bar import Measure, display, progress_shown
from windrow_runtime.bar.last_rows import LastRows, is_terminal
from windrow_runtime.local import LocalRunner

ROWS, COLUMNS = 6, 60


class Terminal:
    """A terminal of few rows that stderr is, in a program of its own."""

    def __init__(self, stderr: TextIO, screen_side: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stderr = stderr
        self._monkeypatch = monkeypatch
        self._screen_side = screen_side
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.resize(ROWS)

    def take(self) -> None:
        """Has ``sys.stderr`` be this terminal: pytest sets it anew between fixtures and tests."""
        self._monkeypatch.setattr(sys, "stderr", self.stderr)

    def resize(self, rows: int) -> None:
        fcntl.ioctl(self.stderr.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
        self._screen.resize(rows, COLUMNS)

    def shown(self) -> list[str]:
        """The rows as they are, without the spaces at their ends."""
        self.stderr.flush()
        while True:
            try:
                self._stream.feed(os.read(self._screen_side, 65_536))
            except BlockingIOError:
                return [row.rstrip() for row in self._screen.display]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    screen_side, program_side = os.openpty()
    os.set_blocking(screen_side, False)
    monkeypatch.setenv("TERM", "xterm")
    with ExitStack() as stack:
        stack.callback(os.close, screen_side)
        stderr = stack.enter_context(os.fdopen(program_side, "w", encoding="utf-8"))
        yield Terminal(stderr, screen_side, monkeypatch)


def test_what_is_printed_stands_above_the_line(terminal: Terminal) -> None:
    row = LastRows(terminal.stderr)
    print("before", file=terminal.stderr)
    for turn in range(9):
        row.draw(lambda width, turn=turn: [f"turn {turn} of {width}"])  # type: ignore[misc]  # its turn
        print(f"printed {turn}", file=terminal.stderr)
    assert terminal.shown() == ["printed 5", "printed 6", "printed 7", "printed 8", "", "turn 8 of 59"]
    row.close()
    print("after", file=terminal.stderr)
    assert terminal.shown() == ["printed 5", "printed 6", "printed 7", "printed 8", "after", ""]


def test_a_line_that_is_not_ended_goes_on_where_it_was(terminal: Terminal) -> None:
    row = LastRows(terminal.stderr)
    terminal.stderr.write("\n" * (ROWS - 1) + "asked: ")
    row.draw(lambda width: ["bar"])
    terminal.stderr.write("answered")
    assert terminal.shown()[-2:] == ["asked: answered", "bar"]
    row.close()
    assert terminal.shown()[-2:] == ["asked: answered", ""]


def test_all_rows_scroll_again_after_the_line(terminal: Terminal) -> None:
    row = LastRows(terminal.stderr)
    row.draw(lambda width: ["bar"])
    row.close()
    row.close()
    terminal.stderr.write("\n".join("abcdefg"))
    assert terminal.shown() == ["b", "c", "d", "e", "f", "g"]


def test_a_terminal_that_grows_has_the_line_in_its_last_row(terminal: Terminal) -> None:
    row = LastRows(terminal.stderr)
    row.draw(lambda width: ["bar"])
    terminal.shown()
    terminal.resize(ROWS + 3)
    row.draw(lambda width: ["bar"])
    assert terminal.shown()[-1] == "bar"
    row.close()
    assert terminal.shown()[-1] == ""


def test_lines_that_become_more_and_fewer_leave_what_was_printed(terminal: Terminal) -> None:
    rows = LastRows(terminal.stderr)
    terminal.stderr.write("a\nb\nc\nd\ne\nf")
    rows.draw(lambda width: ["one"])
    assert terminal.shown() == ["b", "c", "d", "e", "f", "one"]
    rows.draw(lambda width: ["one", "two", "three"])
    assert terminal.shown() == ["d", "e", "f", "one", "two", "three"]
    terminal.stderr.write("!\ng")
    assert terminal.shown() == ["e", "f!", "g", "one", "two", "three"]
    rows.draw(lambda width: ["two"])
    terminal.stderr.write("\nh")
    assert terminal.shown() == ["e", "f!", "g", "h", "", "two"]
    rows.draw(lambda width: [str(line) for line in range(20)])
    assert terminal.shown() == ["g", "h", "0", "1", "2", "3"]
    rows.close()
    assert terminal.shown() == ["g", "h", "", "", "", ""]


def test_a_terminal_of_two_rows_has_no_line(terminal: Terminal) -> None:
    terminal.resize(2)
    LastRows(terminal.stderr).draw(lambda width: ["bar"])
    assert terminal.shown() == ["", ""]


def test_a_line_that_is_too_wide_is_cut(terminal: Terminal) -> None:
    LastRows(terminal.stderr).draw(lambda width: ["界" * COLUMNS])
    assert terminal.shown()[:-1] == [""] * (ROWS - 1)


class Shown:
    """A measure that waits until it was asked for some times, which says that the bar was drawn before."""

    def __init__(self, times: int) -> None:
        self._left = times
        self.asked = threading.Event()

    def __call__(self) -> Measure:
        self._left -= 1
        if self._left <= 0:
            self.asked.set()
        return Measure(rows=3, rows_total=4)


def test_a_run_is_shown_until_its_end(terminal: Terminal) -> None:
    terminal.take()
    measure = Shown(2)
    with progress_shown("clicks", measure, wanted=True, after_seconds=0.0):
        assert measure.asked.wait(60)
        assert terminal.shown()[-1].startswith("clicks  ██████████████████░░░░░░  75 %  3 of 4 rows")
    assert terminal.shown() == [""] * ROWS


def test_a_failure_ends_the_line(terminal: Terminal) -> None:
    terminal.take()
    measure = Shown(2)

    def fail() -> None:
        with progress_shown("clicks", measure, wanted=True, after_seconds=0.0):
            assert measure.asked.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert terminal.shown() == [""] * ROWS


def test_of_runs_side_by_side_the_first_is_shown(terminal: Terminal) -> None:
    terminal.take()
    first, second = Shown(2), Shown(1)
    with (
        progress_shown("first", first, wanted=True, after_seconds=0.0),
        progress_shown("second", second, wanted=True, after_seconds=0.0),
    ):
        assert first.asked.wait(60)
        assert not second.asked.is_set()
        assert terminal.shown()[-1].startswith("first ")


def test_a_measure_that_fails_leaves_the_run_alone(terminal: Terminal) -> None:
    terminal.take()
    asked = threading.Event()

    def measure() -> Measure:
        asked.set()
        raise ConnectionError("the session was stopped")

    with progress_shown("clicks", measure, wanted=True, after_seconds=0.0):
        assert asked.wait(60)
    assert terminal.shown() == [""] * ROWS


def test_a_measure_that_gives_no_answer_does_not_hold_up_the_end(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.take()
    monkeypatch.setattr(display, "_SECONDS_TO_END", 0.01)
    asked, answered = threading.Event(), threading.Event()
    bars: list[threading.Thread] = []

    def measure() -> Measure:
        bars.append(threading.current_thread())
        asked.set()
        answered.wait()
        return Measure(rows=3, rows_total=4)

    with progress_shown("clicks", measure, wanted=True, after_seconds=0.0):
        assert asked.wait(60)
    assert bars[0].is_alive()
    answered.set()
    bars[0].join(60)
    assert (bars[0].is_alive(), len(bars)) == (False, 1)
    assert terminal.shown() == [""] * ROWS  # a late answer is not drawn


def test_where_no_thread_can_start_nothing_is_shown(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.take()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(2):  # the second one has the screen again
        with progress_shown("clicks", never, wanted=True, after_seconds=0.0):
            assert terminal.shown() == [""] * ROWS


def never() -> Measure:
    raise AssertionError("nobody looks")


@pytest.mark.parametrize(("term", "wanted"), [("", True), ("dumb", True), ("xterm", False)])
def test_a_terminal_without_rows_or_where_the_user_says_so_shows_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, term: str, *, wanted: bool
) -> None:
    terminal.take()
    monkeypatch.setenv("TERM", term)
    with progress_shown("clicks", never, wanted=wanted, after_seconds=0.0):
        pass
    assert terminal.shown() == [""] * ROWS


def test_a_short_run_shows_nothing(terminal: Terminal) -> None:
    terminal.take()
    pipeline = Pipeline("short", from_source(CollectionSource([1], int)).sink_to(CollectSink()))
    LocalRunner().run(pipeline)
    assert terminal.shown() == [""] * ROWS


def test_what_is_no_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stderr)
    with progress_shown("clicks", never, wanted=True, after_seconds=0.0):
        assert not is_terminal(stderr)
    assert stderr.getvalue() == ""
    assert not is_terminal(None)


class _Kernel:
    kernel = object()


def test_a_notebook_shows_a_run_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display", reason="needs IPython")
    import IPython

    shown: list[str] = []

    class Handle:
        def update(self, html: object) -> None:
            shown.append(str(getattr(html, "data", html)))

    def show(html: object, *, display_id: bool) -> Handle:
        assert display_id
        handle = Handle()
        handle.update(html)
        return handle

    monkeypatch.setattr(IPython, "get_ipython", _Kernel)
    monkeypatch.setattr(display, "display", show)
    measure = Shown(2)
    with progress_shown("clicks", measure, wanted=True, after_seconds=0.0):
        assert measure.asked.wait(60)
    assert "<b>clicks</b> <progress" in shown[0]
    assert shown[-1] == ""


TERMINALS: list[Terminal] = []
DRAWN: list[str] = []


def wait_for_the_bar(value: int) -> int:
    while value == 5 and not DRAWN:
        DRAWN.extend(row for row in TERMINALS[0].shown()[-1:] if row.startswith("slow "))
    return value


def test_the_interpreter_measures_its_batches(terminal: Terminal) -> None:
    terminal.take()
    TERMINALS[:], DRAWN[:] = [terminal], []
    numbers = from_source(CollectionSource([*range(8)], int, batch_size=2)).map(wait_for_the_bar)
    LocalRunner().run(Pipeline("slow", numbers.sink_to(CollectSink())))
    assert "50 %  4 of 8 rows" in DRAWN[0]
    assert terminal.shown() == [""] * ROWS
