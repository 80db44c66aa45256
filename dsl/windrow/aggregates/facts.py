"""What a window knows besides its elements: its key, its start, its end; to stand in a result beside aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from typing_extensions import final

from windrow.aggregates.arithmetic import count
from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.functions.aggregate import AggregateFunction
from windrow.functions.window import ProcessWindowContext, ProcessWindowFunction

__all__ = ["FilledWindow", "WindowFact", "filled", "key", "window_end", "window_start"]

# Any in this module: keys, elements and results are of every type.

T = TypeVar("T")
R = TypeVar("R")


@final
@dataclass(frozen=True)
class WindowFact(DeclaredAggregate[T, None, R], Generic[T, R]):
    """See :func:`key`, :func:`window_start` and :func:`window_end`."""

    commutative: ClassVar[bool] = True

    kind: str

    def create_accumulator(self) -> None:
        return None

    def add(self, value: T, accumulator: None) -> None:
        return None

    def merge(self, a: None, b: None) -> None:
        return None

    def get_result(self, accumulator: None) -> NoReturn:
        raise UnsupportedOperationError(
            f"{self.describe()} is known where a window fires, and nowhere else",
            expected="aggregate(...) of a windowed stream, alone or directly in into(...) or combine(...)",
        )

    @property
    def declaration(self) -> Declaration:
        return Declaration(self.kind)

    def result_type(self, element_type: object | None) -> object | None:
        return None if self.kind == "key" else int


# Any: the type of the key is that of the stream, which the call does not see.
def key() -> WindowFact[T, Any]:
    """The key of the window; None where the stream has no keys.

    It stands in :func:`into` or :func:`combine`, beside aggregates: ``into(Coldest, sensor=key(), low=min(...))``. The
    type checker takes it for any field.
    """
    return WindowFact("key")


def window_start() -> WindowFact[T, int]:
    """The start of the window in epoch milliseconds; it stands in :func:`into` or :func:`combine`, as :func:`key`."""
    return WindowFact("window_start")


def window_end() -> WindowFact[T, int]:
    """The end of the window in epoch milliseconds, which is no longer in it; otherwise as :func:`window_start`."""
    return WindowFact("window_end")


@final
@dataclass(frozen=True)
class FilledWindow(ProcessWindowFunction[tuple[Any, ...], Any, Any, Any]):
    """Makes the result of a combination from its aggregates' results and the facts of the window.

    Attributes:
        combined: The combination, or the fact that stands alone.
        places: For each member the place of its result among those of the aggregates, or the kind of the fact.
    """

    combined: Combined[Any, Any] | WindowFact[Any, Any]
    places: tuple[int | str, ...]

    def process(
        self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[tuple[Any, ...]]
    ) -> Iterable[Any]:
        (results,) = elements
        values: list[Any] = []
        for place in self.places:
            if isinstance(place, int):
                values.append(results[place])
            elif place == "key":
                values.append(key)
            else:
                values.append(context.window.start if place == "window_start" else context.window.end)
        return (self.made_of(values),)

    def made_of(self, values: Sequence[Any]) -> Any:
        """The result, from one value for each member."""
        if isinstance(self.combined, WindowFact):
            return values[0]
        return self.combined.made_of(values)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members; empty ones where they go by position."""
        if isinstance(self.combined, WindowFact):
            return ("",)
        return tuple(name for name, _ in self.combined.members)

    @property
    def target(self) -> Callable[..., Any] | None:
        """What makes the result; None: it is a tuple, or the fact itself."""
        return None if isinstance(self.combined, WindowFact) else self.combined.target

    def describe(self) -> str:
        return self.combined.describe()


def filled(function: AggregateFunction[Any, Any, Any]) -> tuple[Combined[Any, Any], FilledWindow] | None:
    """An aggregate with facts in it as an aggregate of elements alone, and what puts the facts in; None: it has none.

    Raises:
        InvalidArgumentError: For facts in a combination within a combination.
    """
    if isinstance(function, WindowFact):
        return Combined((("", count()),), None), FilledWindow(function, (function.kind,))
    if not isinstance(function, Combined):
        return None
    for _, member in function.members:
        if isinstance(member, Combined) and filled(member) is not None:
            raise InvalidArgumentError(
                "a combination within another one has no window",
                given=member.describe(),
                expected="key(), window_start() and window_end() directly in the outer one",
            )
    places: list[int | str] = []
    aggregates: list[tuple[str, AggregateFunction[Any, Any, Any]]] = []
    for _, member in function.members:
        if isinstance(member, WindowFact):
            places.append(member.kind)
        else:
            places.append(len(aggregates))
            aggregates.append(("", member))
    if len(aggregates) == len(places):
        return None
    # Some aggregate has to hold that there are elements.
    inner: Combined[Any, Any] = Combined(tuple(aggregates) or (("", count()),), None)
    return inner, FilledWindow(function, tuple(places))
