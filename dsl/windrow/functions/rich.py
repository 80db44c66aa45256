"""Rich functions have ``open`` and ``close``, which are called around the elements of their step."""

from __future__ import annotations

from typing import Protocol

from windrow.state import KeyedStateStore


class Counter(Protocol):
    """A number that only grows."""

    def inc(self, n: int = 1) -> None:
        """Add ``n``.

        Args:
            n: How much to add.
        """
        ...


class MetricGroup(Protocol):
    """The metrics of a step."""

    def counter(self, name: str) -> Counter:
        """The counter of that name; made at first use. Its total is in the result of the run.

        Args:
            name: The name of the counter in the step.
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
