"""Draws a live table of a run in a terminal, by rich."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TextIO

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError
from windrow_runtime.bar.last_rows import LastRows, is_terminal, screen_taken
from windrow_runtime.bar.measure import harmless
from windrow_runtime.view.history import RunHistory
from windrow_runtime.view.snapshot import Snapshot
from windrow_runtime.view.texts import HEADS, cells, figures, spark_line, state_text

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["check_rich", "rendered", "shown_in_terminal"]

_LOG: Final = logging.getLogger("windrow")
_TURN_SECONDS: Final = 0.5
_COLOURS: Final = {"waiting": "dim", "running": "green", "ended": "dim", "failed": "red"}
_ALL_COLUMNS: Final = 100
_NARROW: Final = frozenset({"step", "in", "out", "late", "lag"})
"""The columns that a terminal of fewer characters than that has."""
_WARNING_FROM: Final = HEADS.index("late")
_WARNING_TO: Final = HEADS.index("dropped")


def check_rich() -> None:
    """Raises an ``UnsupportedOperationError`` where rich is not installed."""
    try:
        import rich  # noqa: F401
    except ImportError as error:
        raise UnsupportedOperationError(
            "a terminal shows runs by rich", expected="rich", hint=install_hint("view")
        ) from error


@contextmanager
def shown_in_terminal(history: RunHistory) -> Iterator[None]:
    """Shows a run in the terminal that stderr is, until the end of the block; elsewhere nothing.

    What is printed within the block, by workers too, stands above the table, and the last table stays.

    Raises:
        UnsupportedOperationError: If rich is not installed.
    """
    check_rich()
    if not is_terminal(sys.stderr) or not screen_taken.acquire(blocking=False):
        yield
        return
    try:
        with _Table(history, sys.stderr):
            yield
    finally:
        screen_taken.release()


class _Table(threading.Thread):
    """Draws the table in the last rows of a terminal until the end of a block, and writes it there once more then."""

    def __init__(self, history: RunHistory, stream: TextIO) -> None:
        super().__init__(name="windrow shows a run", daemon=True)
        self._history = history
        self._stream = stream
        self._rows = LastRows(stream)
        self._over = threading.Event()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        with suppress(OSError):  # the terminal was closed
            width = os.get_terminal_size(self._stream.fileno()).columns
            self._stream.write("\n".join([*self._lines(width), ""]))
            self._stream.flush()

    def run(self) -> None:
        try:
            try:
                while not self._over.is_set():
                    self._rows.draw(self._lines)
                    self._over.wait(_TURN_SECONDS)
            finally:
                self._rows.close()
        except Exception:
            # No result depends on the view, whose terminal may be closed.
            _LOG.debug("pipeline %s cannot be shown any more", self._history.pipeline.name, exc_info=True)

    def _lines(self, width: int) -> list[str]:
        # It is imported where a view is asked for, since users need not have it.
        from rich.console import Console

        console = Console(file=io.StringIO(), force_terminal=True, width=width)
        with console.capture() as capture:
            console.print(rendered(self._history.snapshot(), width))
        return capture.get().splitlines()


def rendered(snapshot: Snapshot, width: int) -> RenderableType:
    """What a terminal of a width shows of a run at one moment."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    colour = _COLOURS[snapshot.state]
    parts: list[RenderableType] = [
        Text.assemble((harmless(snapshot.pipeline), "bold"), "  ", (state_text(snapshot), colour))
    ]
    shown = figures(snapshot)
    if shown:
        parts.append(Columns([Text.assemble((f"{name} ", "dim"), value) for name, value in shown], padding=(0, 3)))
        rates = spark_line([sample.rows_per_second for sample in snapshot.samples])
        times = spark_line([sample.duration_ms for sample in snapshot.samples])
        parts.append(Text.assemble(("rows a second ", "dim"), (rates, "blue")))
        parts.append(Text.assemble(("time of a batch ", "dim"), (times, "yellow")))
    if snapshot.steps:
        steps = Table(box=None, pad_edge=False, header_style="dim")
        places = [place for place, head in enumerate(HEADS) if width >= _ALL_COLUMNS or head in _NARROW]
        rows = [cells(step) for step in snapshot.steps]
        for place in places:
            # Where the terminal is too narrow, names of steps take several lines, and no numbers.
            steps.add_column(HEADS[place], justify="right" if place else "left", no_wrap=place > 0)
        for row in rows:
            steps.add_row(*(_cell(place, row[place]) for place in places))
        parts.append(steps)
    if snapshot.error is not None:
        parts.append(Text(harmless(snapshot.error), "red"))
    return Group(*parts)


def _cell(place: int, content: str) -> RenderableType:
    """A cell of the table of steps; elements that are lost are marked. What users wrote is no markup."""
    from rich.text import Text

    is_loss = _WARNING_FROM <= place <= _WARNING_TO and content != "0"
    return Text(harmless(content), "bold red" if is_loss else "")
