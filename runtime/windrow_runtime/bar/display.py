"""Draws the progress of a run in a thread, on a screen: a terminal or a notebook; where there is neither, nothing."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from windrow.drawing.svg import text
from windrow_runtime.bar.last_rows import LastRows, is_terminal, screen_taken
from windrow_runtime.bar.measure import Measure, line_of, texts_of
from windrow_runtime.bar.notebook import notebook_display

__all__ = ["Screen", "html_of", "progress_shown"]

_LOG: Final = logging.getLogger("windrow")
_TURN_SECONDS: Final = 0.25
_SECONDS_TO_END: Final = 5.0
"""How long the end of a run waits for its bar: an engine that does not answer holds up no result."""


class Screen(Protocol):
    """Where a bar is drawn."""

    def draw(self, name: str, measure: Measure | None, seconds: float) -> None:
        """Draws the bar, or draws it anew; the measure is None before the engine has begun."""
        ...

    def close(self) -> None:
        """Takes the bar away."""
        ...


class _TerminalBar:
    def __init__(self) -> None:
        self._rows = LastRows(sys.stderr)

    def draw(self, name: str, measure: Measure | None, seconds: float) -> None:
        self._rows.draw(lambda width: [line_of(name, measure, seconds, width)])

    def close(self) -> None:
        self._rows.close()


class _NotebookBar:
    def __init__(self, display: Callable[[str], Callable[[str], None]]) -> None:
        self._display = display
        self._update: Callable[[str], None] | None = None

    def draw(self, name: str, measure: Measure | None, seconds: float) -> None:
        html = html_of(name, measure, seconds)
        if self._update is None:
            self._update = self._display(html)
        else:
            self._update(html)

    def close(self) -> None:
        if self._update is not None:
            self._update("")


def html_of(name: str, measure: Measure | None, seconds: float) -> str:
    """The bar of a notebook."""
    words = texts_of(measure, seconds)
    part = None if measure is None else measure.part
    bar = "" if part is None else f' <progress value="{part:.3f}" max="1"></progress>'
    return f"<div><b>{text(name)}</b>{bar} {text(', '.join(words))}</div>"


def _screen() -> Screen | None:
    """Returns where bars are drawn in this process; None: nobody would see one."""
    display = notebook_display()
    if display is not None:
        return _NotebookBar(display)
    return _TerminalBar() if is_terminal(sys.stderr) else None


@contextmanager
def progress_shown(
    name: str, measure: Callable[[], Measure | None], *, wanted: bool, after_seconds: float = 1.0
) -> Iterator[None]:
    """Shows how far a run is, until the end of the block, in a terminal or a notebook.

    Args:
        name: The name of the pipeline.
        measure: Is called in a thread of its own, a few times in a second; returns None before the run has begun.
        wanted: Whether to show it at all.
        after_seconds: After this time it is shown: shorter runs need no bar.
    """
    # There is one last row: of runs side by side the first has it.
    screen = _screen() if wanted else None
    if screen is None or not screen_taken.acquire(blocking=False):
        yield
        return
    bar = _Bar(name, measure, screen, after_seconds=after_seconds)
    try:
        bar.start()
        yield
    finally:
        bar.end()
        screen_taken.release()


class _Bar(threading.Thread):
    def __init__(
        self, name: str, measure: Callable[[], Measure | None], screen: Screen, *, after_seconds: float
    ) -> None:
        super().__init__(name="windrow shows progress", daemon=True)
        self._pipeline = name
        self._measure = measure
        self._screen = screen
        self._after_seconds = after_seconds
        self._over = threading.Event()

    def start(self) -> None:
        """Starts the thread; where there are none, as in a browser, nothing is shown."""
        try:
            super().start()
        except RuntimeError:
            _LOG.debug("no thread can be started to show progress", exc_info=True)

    def run(self) -> None:
        begun = started = time.monotonic()
        try:
            if self._over.wait(self._after_seconds):
                return
            try:
                while True:
                    measure, now = self._measure(), time.monotonic()
                    if self._over.is_set():
                        return
                    started = now if measure is None else started
                    self._screen.draw(self._pipeline, measure, now - (begun if measure is None else started))
                    if self._over.wait(_TURN_SECONDS):
                        return
            finally:
                self._screen.close()
        except Exception:
            # No result depends on the bar: the terminal was closed, or the session of Spark stopped.
            _LOG.debug("the progress of pipeline %s cannot be shown any more", self._pipeline, exc_info=True)

    def end(self) -> None:
        """Ends the bar, and takes it away."""
        self._over.set()
        if self.ident is not None:
            self.join(_SECONDS_TO_END)
