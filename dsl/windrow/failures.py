"""What becomes of an element for which a function of a step raised an exception: the policy ``on_error`` of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from windrow.errors import AN_INSTANCE, InvalidArgumentError, similar_name
from windrow.functions.retries import AsyncRetryStrategy
from windrow.tags import OutputTag

__all__ = ["ErrorPolicy", "Failed", "OnError", "Retry"]

# Any: a policy without a tag is for elements of every type.
T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", covariant=True)

Then: TypeAlias = Literal["fail", "drop"]


@dataclass(frozen=True)  # without slots, so that Failed[int](...) may be called
class Failed(Generic[T_co]):
    """An element for which a function of a step raised an exception, as the side output of ``on_error=tag`` has it.

    It is Beam's dead letter of ``with_exception_handling``, and has what Kafka Streams' ``ErrorHandlerContext`` tells.

    Attributes:
        element: The element, as the function left it: a function that changes its argument shows here. After tries of
            a :class:`Retry` it is the element as it came: each try gets a copy.
        error: The class of the exception, and the first line of its text, as in ``ValueError: no number``.
        step: The name of the step, or its id where it has no name.
        origin: Where the source read it: the file with the line or the row, as in ``readings.json:17``, or the topic
            with partition and offset. None where the source cannot tell, and downstream of keyed steps.
    """

    element: T_co
    error: str
    step: str
    origin: str | None = None


@dataclass(frozen=True)
class Retry(Generic[T]):
    """Calls a function that raised an exception again for the same element, and waits in between.

    The worker waits: no other element of its partition or key group goes on meanwhile.

    Attributes:
        strategy: How often and when the function is called again, and after which exceptions: a
            :class:`~windrow.functions.FixedDelayRetryStrategy`, an
            :class:`~windrow.functions.ExponentialBackoffDelayRetryStrategy`, or your own.
        then: What becomes of the element after the last try: ``"fail"``, ``"drop"`` or a tag.

    Example:
        >>> from datetime import timedelta
        >>> from windrow import from_collection
        >>> from windrow.failures import Retry
        >>> from windrow.functions import FixedDelayRetryStrategy
        >>> again = Retry(FixedDelayRetryStrategy(3, timedelta(milliseconds=10)), then="drop")
        >>> from_collection(["1", "two", "3"]).map(int, on_error=again).collect()
        [1, 3]

    Raises:
        InvalidArgumentError: If the strategy is none, or judges results, or what follows is no other policy.
    """

    strategy: AsyncRetryStrategy
    then: Then | OutputTag[Failed[T]] = "fail"

    def __post_init__(self) -> None:
        # The plan needs this module while it is imported.
        from windrow.plan.location import AtCaller

        with AtCaller():
            self._check()

    def _check(self) -> None:
        if not isinstance(self.strategy, AsyncRetryStrategy):
            raise InvalidArgumentError(
                "a strategy decides about retries",
                given=self.strategy,
                expected="an AsyncRetryStrategy",
                hint="Retry(FixedDelayRetryStrategy(3, timedelta(seconds=1)))",
            )
        if _judges_results(self.strategy):
            raise InvalidArgumentError(
                "on_error calls a function again after an exception alone",
                given=self.strategy,
                expected="a strategy that does not judge results",
                hint="raise an exception in the function where its result is not good enough",
            )
        if not isinstance(self.then, OutputTag) and not is_word(self.then):
            raise InvalidArgumentError(
                "a retry ends with one of the other policies",
                given=self.then,
                expected='then="fail", then="drop" or then=tag',
                hint=policy_hint(self.then),
            )


OnError: TypeAlias = Then | OutputTag[Failed[T]] | Retry[T]
"""What becomes of an element whose function raised. The run fails, or the element is counted and left out
(``failed_records_dropped``), or it goes to the side output of a tag, or the function is called again before that."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The policy of a step that does more than to fail, as nodes carry it.

    Attributes:
        retry: Decides about further tries; None: there are none.
        tag: The side output of failed elements; None: there is none.
        drops: Whether failed elements are counted and left out. Without it, and without a tag, the run fails.
    """

    # Any: elements of every type.
    retry: AsyncRetryStrategy | None = None
    tag: OutputTag[Any] | None = None
    drops: bool = False

    def describe(self) -> str:
        """A few words for ``explain()``."""
        then = "drop" if self.drops else "fail" if self.tag is None else f"to {self.tag.name!r}"
        return f"on error: {then}" if self.retry is None else f"on error: {self.retry.describe()}, then {then}"


def policy_hint(given: object) -> str | None:
    """What is meant by a value that is no policy."""
    if isinstance(given, str):
        return similar_name(given.lower(), ("fail", "drop"))
    if isinstance(given, AsyncRetryStrategy):
        return "on_error=Retry(strategy)"
    return AN_INSTANCE if isinstance(given, type) else None


def is_word(value: object) -> bool:
    """Whether a value is one of the policies that are words."""
    # Arrays compare element by element.
    return isinstance(value, str) and value in {"fail", "drop"}


def _judges_results(strategy: AsyncRetryStrategy) -> bool:
    """Returns whether a strategy may call for another try after a result."""
    judge: Callable[..., bool] = type(strategy).retries_result
    if judge is AsyncRetryStrategy.retries_result:
        return False
    # The strategies of windrow's own judge results if they are given a function for it.
    return not judge.__module__.startswith("windrow.") or getattr(strategy, "retry_result", None) is not None
