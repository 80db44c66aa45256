"""Applies the error policy of a step: decides what becomes of an element for which the user's function raised."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from windrow.calls.results import UnfitValueError, truth
from windrow.errors import AggregateOverflowError, WindrowError
from windrow.failures import ErrorPolicy, Failed
from windrow.functions import MetricGroup
from windrow.functions.marked import without_mark
from windrow.functions.retries import AsyncRetryStrategy
from windrow.plan import Step
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.errors import USER_ERRORS, encodable, first_line, raise_call_error

# Any in this module: elements and results of every type.

FAILED_DROPPED: Final = "failed_records_dropped"
"""The counter of elements that ``on_error="drop"`` leaves out."""


class _NoResult:
    """The class of ``NO_RESULT``, which stands for the result of a call that failed for good."""


NO_RESULT: Final = _NoResult()


class Guard:
    """Decides about elements whose function raised, by the policy of a step.

    ``put_out`` gets what the side output of failed elements gets, with the timestamp of the element. A step that
    ``gives_copies`` calls its function with a copy of the element, so that a further try has it as it came.
    """

    def __init__(
        self, step: Step, policy: ErrorPolicy, put_out: Callable[[str, Failed[Any], int | None], None]
    ) -> None:
        self._step = step
        self._policy = policy
        self._put_out = put_out
        self.gives_copies = policy.retry is not None and not is_constant_type(step.node.inputs[0].element_type)
        self.metrics: MetricGroup | None = None  # the engine sets it when it opens the step

    @property
    def tag(self) -> str:
        """The name of the side output of failed elements; empty if there is none."""
        return "" if self._policy.tag is None else self._policy.tag.name

    def settle(
        self,
        error: BaseException,
        element: Any,
        timestamp: int | None,
        again: Callable[[], Any] | None = None,
        *,
        given: Callable[[], str],
        text: Callable[[BaseException], str] = first_line,
        origin: Callable[[], str | None] | None = None,
    ) -> Any:
        """Returns the result of a later try, or ``NO_RESULT`` for an element that failed; raises where the run fails.

        ``again`` calls the function once more, for a policy with retries; ``given`` describes the call in an error, and
        ``text`` the error for the side output; ``origin`` says where the element comes from.
        """
        self._check(error, given)
        attempts, strategy = 1, self._policy.retry
        if strategy is not None and again is not None:
            for attempts in count(1):
                assert isinstance(error, Exception), "checked"
                try:
                    delay = _delay(strategy, error, attempts)
                except USER_ERRORS as failure:
                    raise_call_error(self._step, failure, f"{given()}, try {attempts}")
                if delay is None:
                    break
                time.sleep(delay)
                try:
                    return again()
                except BaseException as failure:
                    self._check(failure, given)
                    error = failure
        if self._policy.tag is None and not self._policy.drops:
            raise_call_error(self._step, error, f"{given()}, {attempts} tries")
        self.refuse(text(error), element, timestamp, origin)
        return NO_RESULT

    def refuse(
        self, text: str, element: Any, timestamp: int | None, origin: Callable[[], str | None] | None = None
    ) -> None:
        """Counts and drops an element that failed, or puts it out with the text of its error."""
        if self._policy.tag is not None:
            came_from = None if origin is None else origin()
            failed = Failed(without_mark(element), encodable(text), self._step.name or self._step.id, came_from)
            self._put_out(self._policy.tag.name, failed, timestamp)
        elif self.metrics is not None:
            self.metrics.counter(FAILED_DROPPED).inc()

    def _check(self, error: BaseException, given: Callable[[], str]) -> None:
        """Raises what no policy is for: windrow's own errors, a lack of memory, and what ends a program."""
        if is_failure(error):
            return
        if not isinstance(error, (Exception, SystemExit)):
            raise error
        raise_call_error(self._step, error, given())


def _delay(strategy: AsyncRetryStrategy, error: Exception, attempts: int) -> float | None:
    """Returns the seconds until an element is tried again; None: it has failed."""
    if not truth(strategy.retries_error(error)) or not truth(strategy.can_retry(attempts)):
        return None
    return max(strategy.backoff(attempts).total_seconds(), 0.0)


def is_failure(error: BaseException) -> bool:
    """Returns whether an error is one of the user's function for an element, which a policy decides about."""
    if isinstance(error, (UnfitValueError, AggregateOverflowError)):
        return True
    return isinstance(error, Exception) and not isinstance(error, (WindrowError, MemoryError))
