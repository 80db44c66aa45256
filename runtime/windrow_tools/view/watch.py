"""Watches a running pipeline in a terminal or in a notebook."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from windrow_runtime.bar.notebook import notebook_display
from windrow_tools.view.follow import Follower, Running, history_of
from windrow_tools.view.history import RunHistory
from windrow_tools.view.terminal import shown_in_terminal
from windrow_tools.view.texts import html_of

_LOG: Final = logging.getLogger("windrow")
_TURN_SECONDS: Final = 0.5


def watch(running: Running) -> None:
    """Shows a live table of a running pipeline.

    In a terminal it waits until the pipeline ends, as ``await_termination`` does. Ctrl-C ends the view, and the
    pipeline goes on. The table is drawn on stderr; where that is no terminal, nothing is shown. In a notebook it
    returns at once, and what the cell shows follows the run.

    Args:
        running: What :meth:`~windrow_runtime.spark.SparkRunner.start` returned.

    Raises:
        UnsupportedOperationError: If ``rich`` is not installed, of which a notebook has no need, or the pipeline makes
            no reports, as :attr:`~windrow_runtime.spark.RunningPipeline.progress`.
        WindrowError: In a terminal, if the pipeline has failed.
    """
    show = notebook_display()
    if show is not None:
        history = Follower(running).history
        show(html_of(history.snapshot()))
        threading.Thread(target=_update, args=(history, show), name="windrow updates a notebook", daemon=True).start()
        return
    with history_of(running) as (history, refresh), shown_in_terminal(history):
        try:
            running.await_termination()
        finally:
            refresh()


def _update(history: RunHistory, show: Callable[[str], None]) -> None:
    """Updates what a cell shows until the run has ended."""
    version = -1
    try:
        while history.version > version or not history.is_over:
            version = history.wait(version, _TURN_SECONDS)
            show(html_of(history.snapshot()))
            if not history.is_over:
                time.sleep(_TURN_SECONDS)
    except Exception:
        _LOG.exception("a notebook cannot be updated any more; pipeline %s goes on", history.pipeline.name)
