"""Draws a live table of a run in a terminal, by rich."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError
from windrow_runtime.bar.display import drawn
from windrow_runtime.bar.last_rows import LastRows, is_terminal, screen_taken
from windrow_runtime.bar.measure import harmless
from windrow_tools.view.history import RunHistory
from windrow_tools.view.snapshot import Snapshot
from windrow_tools.view.texts import HEADS, cells, figures, spark_line, state_text

if TYPE_CHECKING:
    from rich.console import RenderableType

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
    stream = sys.stderr
    rows = LastRows(stream)
    name = history.pipeline.name
    try:
        with drawn(name, history.snapshot, lambda shown: rows.draw(partial(_lines, shown)), rows.close, _TURN_SECONDS):
            yield
    finally:
        screen_taken.release()
        with suppress(OSError):  # the terminal was closed
            width = os.get_terminal_size(stream.fileno()).columns
            stream.write("\n".join([*_lines(history.snapshot(), width), ""]))
            stream.flush()


def _lines(snapshot: Snapshot, width: int) -> list[str]:
    # rich is imported where a view is asked for, since users need not have it.
    from rich.console import Console

    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    with console.capture() as capture:
        console.print(rendered(snapshot, width))
    return capture.get().splitlines()


def rendered(snapshot: Snapshot, width: int) -> RenderableType:
    """What a terminal of a width shows of a run at one moment."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    colour = _COLOURS[snapshot.state]
    renderables: list[RenderableType] = [
        Text.assemble((harmless(snapshot.pipeline), "bold"), "  ", (state_text(snapshot), colour))
    ]
    shown = figures(snapshot)
    if shown:
        renderables.append(
            Columns([Text.assemble((f"{name} ", "dim"), value) for name, value in shown], padding=(0, 3))
        )
        rates = spark_line([sample.rows_per_second for sample in snapshot.samples])
        times = spark_line([sample.duration_ms for sample in snapshot.samples])
        renderables.append(Text.assemble(("rows a second ", "dim"), (rates, "blue")))
        renderables.append(Text.assemble(("time of a batch ", "dim"), (times, "yellow")))
    if snapshot.steps:
        steps = Table(box=None, pad_edge=False, header_style="dim")
        places = [place for place, head in enumerate(HEADS) if width >= _ALL_COLUMNS or head in _NARROW]
        rows = [cells(step) for step in snapshot.steps]
        for place in places:
            # Where the terminal is too narrow, names of steps take several lines, and no numbers.
            steps.add_column(HEADS[place], justify="right" if place else "left", no_wrap=place > 0)
        for row in rows:
            steps.add_row(*(_cell(place, row[place]) for place in places))
        renderables.append(steps)
    if snapshot.error is not None:
        renderables.append(Text(harmless(snapshot.error), "red"))
    return Group(*renderables)


def _cell(place: int, content: str) -> RenderableType:
    """A cell of the table of steps; elements that are lost are marked. What users wrote is no markup."""
    from rich.text import Text

    is_loss = _WARNING_FROM <= place <= _WARNING_TO and content != "0"
    return Text(harmless(content), "bold red" if is_loss else "")
