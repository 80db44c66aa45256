"""Runs windows whose function has an error policy: a call that fails changes nothing, and the window goes on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from windrow.functions.marked import CoGroup, split
from windrow.plan import Step, WindowNode
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.errors import USER_ERRORS, call_description, first_line, shortened
from windrow_runtime.operators.guarded.guard import NO_RESULT, Guard
from windrow_runtime.operators.operator import OperatorOutput
from windrow_runtime.operators.state.model import KeyState, WindowEntry
from windrow_runtime.operators.state.undo import UndoLog
from windrow_runtime.operators.windows.general import WindowOperator

# Any in this module: keys, windows, elements and results of every type.


class _Held(OperatorOutput):
    """Holds what a call emits, until it has succeeded."""

    def __init__(self) -> None:
        self.emitted: list[tuple[str | None, Any, int | None]] = []

    def collect(self, value: Any, timestamp: int | None) -> None:
        self.emitted.append((None, own(value), timestamp))

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        self.emitted.append((tag, own(value), timestamp))


class GuardedWindowOperator(WindowOperator):
    """Evaluates windows, and discards what a call of the window function that fails has emitted and stored.

    The window has fired: it keeps its elements until its trigger purges it or its time is over.
    """

    def __init__(self, step: Step, node: WindowNode) -> None:
        assert node.error_policy is not None, "the caller has asked"
        super().__init__(step, node)
        self._policy = node.error_policy
        self._guard = Guard(step, node.error_policy, self._put_out)

    def _put_out(self, tag: str, failed: object, timestamp: int | None) -> None:
        self.output.side_output(tag, failed, timestamp)

    def _evaluate(
        self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, elements: Sequence[Any]
    ) -> None:
        once = partial(self._once, key, key_state, window, entry, elements)
        self._evaluate_by(once, lambda: self._failing(elements), key, window)

    def _failing(self, elements: Sequence[Any]) -> Any:
        """Returns the elements of a window as the side output of failed calls has them."""
        copies = own_all(list(elements))
        return tuple(map(list, split(copies))) if isinstance(self.process, CoGroup) else copies

    def _evaluate_by(self, once: Callable[[], Any], failing: Callable[[], Any], key: Hashable, window: Any) -> None:
        """Emits what a call for a window gives; if it fails, its element is what ``failing`` gives."""
        try:
            emitted = once()
        except USER_ERRORS as error:
            emitted = self._settle(
                error,
                failing(),
                window.max_timestamp(),
                once,
                partial(call_description, key, window=window),
                lambda error: f"{first_line(error)} (key {shortened(key)}, {window})",
            )
        if emitted is not NO_RESULT:
            for tag, value, time in emitted:
                if tag is None:
                    self.output.collect(value, time)
                else:
                    self.output.side_output(tag, value, time)

    def _settle(
        self,
        error: BaseException,
        element: Any,
        timestamp: int | None,
        again: Callable[[], Any],
        given: Callable[[], str],
        text: Callable[[BaseException], str] = first_line,
    ) -> Any:
        """Returns the result of a later try, or ``NO_RESULT`` for what failed, which the observer is told."""
        self._guard.metrics = self.metrics
        result = self._guard.settle(error, element, timestamp, again, given=given, text=text)
        if result is NO_RESULT and self.observer is not None:
            self.observer.failed(self._policy)
        return result

    def _once(
        self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, elements: Sequence[Any]
    ) -> Any:
        """Returns what a call emitted: the tag, None for the main output, and value and timestamp of each."""
        output, self.output = self.output, (held := _Held())
        undo = UndoLog()
        self._window_context.note_changes(undo)
        try:
            # The function may change its elements, and a further try, or the side output, has them as they were.
            super()._evaluate(key, key_state, window, entry, own_all(list(elements)))
        except BaseException:
            undo.take_back()
            raise
        finally:
            self.output = output
            self._window_context.note_changes(None)
        return held.emitted
