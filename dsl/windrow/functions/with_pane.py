"""Wraps window functions, so that each result comes with its key, its window and its pane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

from windrow.functions.window_function import ProcessWindowContext, ProcessWindowFunction
from windrow.panes import WindowResult


@final
class WithPane:
    """Stands where a window function does; see :func:`with_pane`.

    It is no window function itself: a type checker could not tell apart which results it is given.
    """


def with_pane() -> WithPane:
    """Gives each result of a ``reduce`` or an ``aggregate`` its key, its window and its pane.

    It goes after the function: ``windows.aggregate(sum(lambda play: play.score), with_pane())`` is a stream of
    :class:`~windrow.panes.WindowResult`. Without keys the key is None. Panes are counted where an accumulation mode was
    set or the trigger composes, and where a window fires once.
    """
    return WithPane()


# Any: the stages say which results it is given.
class ResultWithPane(ProcessWindowFunction[Any, WindowResult[Any, Any, Any], Any, Any]):
    """The window function that :func:`with_pane` stands for."""

    def process(
        self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Any]
    ) -> Iterable[WindowResult[Any, Any, Any]]:
        return [WindowResult(key, context.window, context.pane, element) for element in elements]

    def describe(self) -> str:
        return "with_pane()"
