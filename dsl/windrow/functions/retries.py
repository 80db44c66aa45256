"""Strategies that decide whether ``map_async`` tries an element again, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from windrow.calls.results import truth
from windrow.counts import check_positive
from windrow.errors import InvalidArgumentError, require_callable
from windrow.time import duration_millis, duration_text, non_negative_millis

# Any in this module: results of every type.

RetryOn: TypeAlias = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""The errors after which an element is tried again: a class, several, or a function that decides."""


class AsyncRetryStrategy(ABC):
    """Decides whether ``map_async`` tries an element again, and how long it waits before.

    An object of it serves all elements, side by side, and is pickled on Spark. So it keeps nothing of an element.
    """

    @abstractmethod
    def can_retry(self, attempts: int) -> bool:
        """Whether another try may follow.

        Args:
            attempts: How many tries there were, 1 or more.
        """

    @abstractmethod
    def backoff(self, attempts: int) -> timedelta:
        """How long to wait before the next try.

        Args:
            attempts: How many tries there were, 1 or more.
        """

    def retries_error(self, error: Exception) -> bool:
        """Whether an element is tried again after this error; a ``TimeoutError`` where the try took too long.

        Args:
            error: What the try has raised.
        """
        return True

    def retries_result(self, result: Any) -> bool:
        """Whether an element is tried again after this result. That of the last try is emitted, whatever it is.

        Args:
            result: What the try has returned.
        """
        return False

    def describe(self) -> str:
        """A few words for ``explain()``."""
        return type(self).__name__


@dataclass(frozen=True)
class _Attempts(AsyncRetryStrategy):
    max_attempts: int
    retry_on: RetryOn = field(default=Exception, kw_only=True)
    retry_result: Callable[[Any], bool] | None = field(default=None, kw_only=True)

    def can_retry(self, attempts: int) -> bool:
        return attempts < self.max_attempts

    def retries_error(self, error: Exception) -> bool:
        if isinstance(self.retry_on, (type, tuple)):
            return isinstance(error, self.retry_on)
        return truth(self.retry_on(error))

    def retries_result(self, result: Any) -> bool:
        return self.retry_result is not None and truth(self.retry_result(result))

    def __post_init__(self) -> None:
        # The plan needs this package while it is imported.
        from windrow.plan.location import AtCaller

        with AtCaller():
            self._check()

    @abstractmethod
    def _check(self) -> None:
        """Refuses settings that make no sense."""

    def _check_attempts(self, delays: dict[str, timedelta]) -> None:
        check_positive(self.max_attempts, "the attempts of a retry strategy")
        for name, delay in delays.items():
            non_negative_millis(delay, f"the {name} of a retry strategy")
        kinds = self.retry_on if isinstance(self.retry_on, tuple) else (self.retry_on,)
        errors = all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
        if not errors and (isinstance(self.retry_on, (tuple, type)) or not callable(self.retry_on)):
            raise InvalidArgumentError(
                "a retry strategy knows the errors after which it tries again",
                given=self.retry_on,
                expected="a class of exceptions, a tuple of them, or a function of an exception",
            )
        if not errors:
            require_callable(self.retry_on, "retry_on of a retry strategy", "a function of an exception", takes="error")
        if self.retry_result is not None:
            expected = "a function of a result, or None"
            require_callable(self.retry_result, "retry_result of a retry strategy", expected, takes="result")


@dataclass(frozen=True)
class FixedDelayRetryStrategy(_Attempts):
    """Tries again after the same time each time.

    Attributes:
        max_attempts: The most tries for an element in all, the first one included.
        delay: The time between two tries.
        retry_on: The errors after which an element is tried again; by default all. A try that takes too long counts as
            a ``TimeoutError``.
        retry_result: Says of a result whether the element is tried again; None: never.
    """

    delay: timedelta = timedelta(0)

    def _check(self) -> None:
        self._check_attempts({"delay": self.delay})

    def backoff(self, attempts: int) -> timedelta:
        return self.delay

    def describe(self) -> str:
        return f"{self.max_attempts} attempts, {duration_text(duration_millis(self.delay, 'the delay'))} apart"


@dataclass(frozen=True)
class ExponentialBackoffDelayRetryStrategy(_Attempts):
    """Tries again after a time that grows with each try, so that a service that is overloaded can recover.

    Attributes:
        max_attempts: The most tries for an element in all, the first one included.
        initial_delay: The time between the first and the second try.
        max_delay: The most time between two tries.
        multiplier: How many times as long as before each time is, 1 or more.
        retry_on: The errors after which an element is tried again; by default all. A try that takes too long counts as
            a ``TimeoutError``.
        retry_result: Says of a result whether the element is tried again; None: never.
    """

    initial_delay: timedelta
    max_delay: timedelta
    multiplier: float = 2.0

    def _check(self) -> None:
        self._check_attempts({"initial delay": self.initial_delay, "longest delay": self.max_delay})
        if isinstance(self.multiplier, bool) or not isinstance(self.multiplier, (int, float)) or self.multiplier < 1:
            raise InvalidArgumentError(
                "the multiplier of a retry strategy must not make delays shorter",
                given=self.multiplier,
                expected="a number, 1 or more",
            )
        if self.initial_delay > self.max_delay:
            raise InvalidArgumentError(
                "the initial delay of a retry strategy is above the longest",
                given=self.describe(),
                expected="initial_delay <= max_delay",
                hint="the order is max_attempts, initial_delay, max_delay",
            )

    def backoff(self, attempts: int) -> timedelta:
        initial, longest = self.initial_delay.total_seconds(), self.max_delay.total_seconds()
        try:
            seconds = initial * float(self.multiplier) ** (attempts - 1)
        except OverflowError:
            seconds = longest
        return timedelta(seconds=min(seconds, longest))

    def describe(self) -> str:
        first = duration_millis(self.initial_delay, "the initial delay")
        last = duration_millis(self.max_delay, "the longest delay")
        return f"{self.max_attempts} attempts, {duration_text(first)} to {duration_text(last)} apart"
