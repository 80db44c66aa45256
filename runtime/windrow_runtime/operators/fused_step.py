"""Defines the base class of a fragment's steps, which work on lists of elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FunctionType
from typing import Any, TypeAlias

from windrow.facts.code import facts
from windrow.functions import RuntimeContext
from windrow.plan import Step
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.errors import USER_ERRORS, function_failed, raise_call_error, shortened

# Any in this module: elements of every type.
Values: TypeAlias = list[Any]
Timestamps: TypeAlias = list[int | None]


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
        self.function = function
        self._constant = is_constant_type(step.node.element_type) if constant is None else constant
        # Calls the function for each value in turn. A result is copied before the next call.
        self._calls: Callable[[Values], Iterable[Any]] = iter
        if function is None:
            return
        if self._constant or (not emits and _only_reads(function)):
            self._calls = partial(map, function)
        elif emits:
            self._calls = lambda values: map(own, map(function, values))
        else:
            self._calls = lambda values: map(function, self._copies(values))

    def push(self, values: Values, timestamps: Timestamps) -> None:
        """Process elements, and push the results to the steps downstream."""
        self._forward(values, timestamps)

    def open(self, runtime: RuntimeContext) -> None:
        """Opens resources of the step itself; the user's function is open already."""

    def close(self) -> None:
        """Closes the resources that :meth:`open` opened."""

    def _forward(self, values: Values, timestamps: Timestamps) -> None:
        if not values or not self.then:
            return
        *others, last = self.then
        for step in others:
            step.push(self._copies(values), timestamps)
        last.push(values, timestamps)

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

    def _for_each(self, values: Values, check: Callable[[Any], Any], results: Sequence[Any]) -> list[Any]:
        """Checks the results that the function returned for values; an error names the value."""
        checked: list[Any] = []
        try:
            checked.extend(map(check, results))
        except USER_ERRORS as error:
            raise_call_error(self.step, error, f"element {shortened(values[len(checked)])}")
        return checked


def _only_reads(function: object) -> bool:
    """Returns whether a function certainly does not change its argument: it only reads fields and computes."""
    if isinstance(function, (operator.attrgetter, operator.itemgetter)):
        return True
    return type(function) is FunctionType and facts(function).only_reads
