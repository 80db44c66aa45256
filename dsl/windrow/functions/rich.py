"""Rich functions have ``open`` and ``close``, which are called around the elements of their step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from windrow.functions.distribution import USUAL_BOUNDARIES
from windrow.state import KeyedStateStore


class Counter(Protocol):
    """A number that only grows."""

    def inc(self, n: int = 1) -> None:
        """Add ``n``.

        Args:
            n: How much to add.
        """
        ...


class Gauge(Protocol):
    """A number that goes up and down, such as the size of a cache or the version of a model.

    The workers of a batch set it without knowing of each other, so there is no last value: a batch gives the highest of
    the values that were set in it. In a batch that sets none, the gauge stays as it is.
    """

    def set(self, value: float) -> None:
        """Set the gauge.

        Args:
            value: A finite number.

        Raises:
            InvalidArgumentError: If it is none.
        """
        ...


class Histogram(Protocol):
    """Counts values by size, such as the seconds that requests take."""

    def record(self, value: float) -> None:
        """Count a value.

        Args:
            value: A finite number.

        Raises:
            InvalidArgumentError: If it is none.
        """
        ...


class MetricGroup(Protocol):
    """The metrics of a step. All its workers have the same ones, and the results of a run have their totals."""

    def counter(self, name: str) -> Counter:
        """The counter of that name; made at first use. Its total is in the result of the run.

        Args:
            name: The name of the counter in the step.
        """
        ...

    def gauge(self, name: str) -> Gauge:
        """The gauge of that name; made at first use.

        Args:
            name: The name of the gauge in the step.
        """
        ...

    def histogram(self, name: str, boundaries: Sequence[float] = USUAL_BOUNDARIES) -> Histogram:
        """The histogram of that name; made at first use.

        Args:
            name: The name of the histogram in the step.
            boundaries: The highest value of each bucket, rising; another bucket takes what is above the last.

        Raises:
            InvalidArgumentError: If the boundaries do not rise, or differ from those of its first use.
        """
        ...


class RuntimeContext(KeyedStateStore, Protocol):
    """Describes the step and the worker that a function runs in.

    :meth:`get_state` gives a keyed process function a handle to keep on ``self``. It serves the key of each call, as in
    Flink. ``open`` and ``close`` have no key, so that it cannot be used there.
    """

    @property
    def step_name(self) -> str:
        """The name of the step, as ``explain()`` shows it."""
        ...

    @property
    def key_group(self) -> int | None:
        """The key group whose elements the instance processes now; None without key groups, as in the interpreter."""
        ...

    @property
    def metrics(self) -> MetricGroup:
        """The metrics of the step."""
        ...


class RichFunction:
    """A function with a life cycle: ``open`` is called before its first element, ``close`` after its last one.

    An instance may be opened many times, on other machines, from a copy. What :meth:`open` makes (a connection, a
    loaded model) is neither stored nor sent.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once on each worker before the first element.

        Args:
            runtime_context: The step, its metrics, and keyed state where it has some.
        """

    def close(self) -> None:
        """Called once on each worker after the last element, also when the step failed."""


class DescribedFunction(RichFunction):
    """A function that describes itself in ``explain()``."""

    def describe(self) -> str:
        """A few words for ``explain()``: by default the name of the class."""
        return type(self).__name__
