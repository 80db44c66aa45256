"""Draws the progress of a run in a thread, in a terminal or a notebook; where there is neither, nothing."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from windrow.drawing.svg import text
from windrow_runtime.bar.last_rows import LastRows, is_terminal, screen_taken
from windrow_runtime.bar.measure import Measure, line_of, texts_of
from windrow_runtime.bar.notebook import notebook_display

F = TypeVar("F")

_LOG: Final = logging.getLogger("windrow")
_TURN_SECONDS: Final = 0.25
_SECONDS_TO_END: Final = 5.0
"""How long the end of a run waits for what is drawn: an engine that does not answer holds up no result."""


class _Draw(Protocol):
    def __call__(self, measure: Measure | None, seconds: float) -> None:
        """Draws the bar, or draws it anew; the measure is None before the engine has begun."""


def html_of(name: str, measure: Measure | None, seconds: float) -> str:
    """The bar of a notebook."""
    words = texts_of(measure, seconds)
    part = None if measure is None else measure.part
    bar = "" if part is None else f' <progress value="{part:.3f}" max="1"></progress>'
    return f"<div><b>{text(name)}</b>{bar} {text(', '.join(words))}</div>"


def _screen(name: str) -> tuple[_Draw, Callable[[], None]] | None:
    """Returns the functions that draw and remove the bar in this process; None: nobody would see a bar."""
    show = notebook_display()
    if show is not None:
        return lambda measure, seconds: show(html_of(name, measure, seconds)), lambda: show("")
    if not is_terminal(sys.stderr):
        return None
    rows = LastRows(sys.stderr)
    return lambda measure, seconds: rows.draw(lambda width: [line_of(name, measure, seconds, width)]), rows.close


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
    # A terminal has one last row: of parallel runs the first one gets it.
    screen = _screen(name) if wanted else None
    if screen is None or not screen_taken.acquire(blocking=False):
        yield
        return
    draw, close = screen
    begun = started = time.monotonic()

    def measured() -> tuple[Measure | None, float]:
        nonlocal started
        newest, now = measure(), time.monotonic()
        started = now if newest is None else started
        return newest, now - (begun if newest is None else started)

    try:
        with drawn(name, measured, lambda frame: draw(*frame), close, _TURN_SECONDS, after_seconds=after_seconds):
            yield
    finally:
        screen_taken.release()


@contextmanager
def drawn(
    name: str,
    look: Callable[[], F],
    draw: Callable[[F], None],
    close: Callable[[], None],
    turn_seconds: float,
    *,
    after_seconds: float = 0.0,
) -> Iterator[None]:
    """Draws what ``look`` returns anew at each turn, in a thread, until the end of the block.

    No result depends on what is drawn: an error of these functions ends the thread alone. Where no thread can be
    started, as in a browser, nothing is drawn.
    """
    over = threading.Event()

    def turns() -> None:
        try:
            if over.wait(after_seconds):
                return
            try:
                while True:
                    frame = look()
                    if over.is_set():
                        return
                    draw(frame)
                    if over.wait(turn_seconds):
                        return
            finally:
                close()
        except Exception:
            # The terminal was closed, or the session of Spark stopped.
            _LOG.debug("pipeline %s cannot be shown any more", name, exc_info=True)

    thread = threading.Thread(target=turns, name="windrow shows a run", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        _LOG.debug("no thread can be started to show a run", exc_info=True)
    try:
        yield
    finally:
        over.set()
        if thread.ident is not None:
            thread.join(_SECONDS_TO_END)
