"""Defines the base class of a fragment's steps, which work on lists of elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import compress
from types import FunctionType
from typing import Any, TypeAlias

from windrow.facts.code import facts
from windrow.failures import ErrorPolicy
from windrow.functions import RuntimeContext
from windrow.plan import Step
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.errors import USER_ERRORS, function_failed, raise_call_error, shortened
from windrow_runtime.operators.guarded.guard import NO_RESULT, Guard
from windrow_runtime.operators.guarded.trail import Places, Trail

# Any in this module: elements of every type.
Values: TypeAlias = list[Any]
Timestamps: TypeAlias = list[int | None]
PutAside: TypeAlias = Callable[[str, Values, Timestamps], None]
"""Passes on elements of a side output, by the name of its tag."""


class FusedStep:
    """One step of a fragment; this class itself passes elements unchanged to the steps in ``then``.

    ``emits`` says whether it passes on results of the function instead of the elements; ``constant`` whether all
    elements that it passes on are constants (None: their type decides).
    """

    def __init__(
        self,
        step: Step,
        then: Sequence[FusedStep] = (),
        function: Callable[[Any], Any] | None = None,
        *,
        emits: bool = False,
        constant: bool | None = None,
    ) -> None:
        self.step = step
        self.then = then
        self.trail = Trail()  # the fragment sets its own
        self._kept: bytearray | None = None  # the elements of the last push that have a result; None: all
        self.guard: Guard | None = None  # applies the step's error policy; None: errors fail the run
        self._failed: tuple[Values, Timestamps] = ([], [])
        self._put_aside: PutAside | None = None
        self.function = function
        self._emits = emits
        self._constant = is_constant_type(step.node.element_type) if constant is None else constant
        # Calls the function for each value in turn. A result is copied before the next call.
        self._calls: Callable[[Any], Iterable[Any]] = iter
        if function is None:
            return
        if self._constant or (not emits and _only_reads(function)):
            self._calls = partial(map, function)
        elif emits:
            self._calls = lambda values: map(own, map(function, values))
        else:
            self._calls = lambda values: map(function, self._copies(values))

    def guard_by(self, policy: ErrorPolicy, put_aside: PutAside) -> None:
        """Applies an error policy; ``put_aside`` passes on failed elements, by the name of their tag."""
        self.guard = Guard(self.step, policy, self._set_aside)
        self._put_aside = put_aside
        if self._emits and self.guard.gives_copies:
            calls = self._calls
            self._calls = lambda values: calls(map(own, values))

    def _set_aside(self, tag: str, failed: object, timestamp: int | None) -> None:
        values, timestamps = self._failed
        values.append(failed)
        timestamps.append(timestamp)

    def _pass_failed(self) -> None:
        """Passes on the elements that failed, after the results of the others."""
        values, timestamps = self._failed
        if values:
            assert self.guard is not None, "it has set them aside"
            assert self._put_aside is not None, "the same"
            self._failed = ([], [])
            self._put_aside(self.guard.tag, values, timestamps)

    def push(self, values: Values, timestamps: Timestamps) -> None:
        """Process elements, and push the results to the steps downstream."""
        self._forward(values, timestamps)

    def open(self, runtime: RuntimeContext) -> None:
        """Opens resources of the step itself; the user's function is open already."""

    def close(self) -> None:
        """Closes the resources that :meth:`open` opened."""

    def _forward(self, values: Values, timestamps: Timestamps, places: Places | None = None) -> None:
        """Passes on elements; ``places`` finds out of which element of the push each was made; None: of its own."""
        if not values or not self.then:
            return
        way = self.trail.steps
        way.append(places)
        *others, last = self.then
        for step in others:
            step.push(self._copies(values), timestamps)
        last.push(values, timestamps)
        way.pop()

    def _copies(self, values: Values) -> Values:
        """Returns copies of elements for one of several readers; constants are not copied."""
        if self._constant:
            return values
        try:
            return own_all(values)
        except USER_ERRORS as error:
            raise function_failed(self.step, error, f"one of {len(values)} elements, to be copied") from error

    def _apply(self, values: Values) -> list[Any]:
        """Calls the function for each value; an error names the value that failed."""
        results: list[Any] = []
        try:
            results.extend(self._calls(values))
        except USER_ERRORS as error:
            raise_call_error(self.step, error, f"element {shortened(values[len(results)])}")
        if len(results) < len(values):
            # map takes a StopIteration of the function for the end of the values, and would silently lose the others.
            raise_call_error(self.step, StopIteration(), f"element {shortened(values[len(results)])}")
        return results

    def _apply_guarded(self, values: Values, timestamps: Timestamps) -> tuple[list[Any], Values, Timestamps]:
        """Calls the function for each value; returns the results, and the values and timestamps that have one.

        Where the step has an error policy, an element whose call raises has none. Each element is given to the function
        once, and once for each further try: the iterator of the calls goes on behind the call that raised.
        """
        guard, self._kept = self.guard, None
        if guard is None:
            return self._apply(values), values, timestamps
        results: list[Any] = []
        failed: list[int] = []
        calls = iter(self._calls(values))
        while len(results) + len(failed) < len(values):
            error: BaseException = StopIteration()  # of the function, which ends an iterator over calls
            try:
                results.extend(calls)
            except USER_ERRORS as raised:
                error = raised
            index = len(results) + len(failed)
            if index == len(values):
                break
            value = values[index]
            again = partial(self._again, value)
            given, origin = partial(_element_text, value), partial(self.trail.origin_of, index)
            result = guard.settle(error, value, timestamps[index], again, given=given, origin=origin)
            if result is NO_RESULT:
                failed.append(index)
            else:
                results.append(result)
        if not failed:
            return results, values, timestamps
        is_kept = bytearray(b"\1") * len(values)
        for index in failed:
            is_kept[index] = False
        self._kept = is_kept
        return results, list(compress(values, is_kept)), list(compress(timestamps, is_kept))

    def _again(self, value: Any) -> Any:
        return next(iter(self._calls([value])))

    def _for_each(self, values: Values, check: Callable[[Any], Any], results: Sequence[Any]) -> list[Any]:
        """Checks the results that the function returned for values; an error names the value."""
        checked: list[Any] = []
        try:
            checked.extend(map(check, results))
        except USER_ERRORS as error:
            raise_call_error(self.step, error, f"element {shortened(values[len(checked)])}")
        return checked


def _element_text(value: object) -> str:
    return f"element {shortened(value)}"


def _only_reads(function: object) -> bool:
    """Returns whether a function certainly does not change its argument: it only reads fields and computes."""
    if isinstance(function, (operator.attrgetter, operator.itemgetter)):
        return True
    return type(function) is FunctionType and facts(function).only_reads
