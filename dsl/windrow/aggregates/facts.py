"""Defines the facts of a window (key, start, end), which stand in a result beside aggregates of its elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Never, NoReturn, final

from typing_extensions import TypeVar

from windrow.aggregates.arithmetic import count
from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.calls.attributes import attribute_of
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.functions.aggregate import AggregateFunction
from windrow.functions.type_names import type_name
from windrow.functions.window_function import ProcessWindowContext, ProcessWindowFunction
from windrow.plan.fitting import is_value_of
from windrow.plan.types import parameter_types

# Any in this module: keys, elements and results are of every type.

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")
Key = TypeVar("Key", default=Never)


@final
@dataclass(frozen=True, repr=False)
class WindowFact(DeclaredAggregate[T, None, R, R, K], Generic[T, R, K]):
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

    def result_type(
        self, element_type: object | None, *, key_type: object | None = None, may_be_empty: bool = False
    ) -> object | None:
        return key_type if self.kind == "key" else int


# The type variables below are solved by the call around: pyright would have them replaced by object, and then infers
# object for the elements of the aggregates beside.
def key() -> WindowFact[T, Key, Key]:  # pyright: ignore[reportInvalidTypeVarUse]
    """The key of the window; None if the stream has no keys.

    It stands in :func:`into` or :func:`combine`, beside aggregates: ``into(Coldest, sensor=key(), low=min(...))``. By
    position the type checker compares the type of the key with the field. By name the plan does, where it knows both;
    where it does not, the first result with a key of another class is an
    :class:`~windrow.errors.InvalidArgumentError`.
    """
    return WindowFact("key")


def window_start() -> WindowFact[T, int, object]:  # pyright: ignore[reportInvalidTypeVarUse]
    """The start of the window in epoch milliseconds; it stands in :func:`into` or :func:`combine`, as :func:`key`."""
    return WindowFact("window_start")


def window_end() -> WindowFact[T, int, object]:  # pyright: ignore[reportInvalidTypeVarUse]
    """The end of the window in epoch milliseconds, which is no longer in it; otherwise as :func:`window_start`."""
    return WindowFact("window_end")


@final
@dataclass(frozen=True)
class FilledWindow(ProcessWindowFunction[tuple[Any, ...], Any, Any, Any]):
    """Makes the result of a combination from its aggregates' results and the facts of the window.

    Attributes:
        combined: The combination, or the fact that stands alone.
        places: For each member the place of its result among those of the aggregates, or the kind of the fact.
        key_fields: The fields for the key with their types, where the plan does not know the type of the key.
    """

    combined: Combined[Any, Any, Any, Any] | WindowFact[Any, Any, Any]
    places: tuple[int | str, ...]
    key_fields: tuple[tuple[str, object], ...] = ()

    def process(
        self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[tuple[Any, ...]]
    ) -> Iterable[Any]:
        (results,) = elements
        for name, type_form in self.key_fields:
            if not is_value_of(key, type_form):
                raise InvalidArgumentError(
                    f"field {name} of {attribute_of(self.target, '__name__', 'the result')} cannot take the key",
                    given=f"{key!r:.200}, which is of type {type(key).__name__}",
                    expected=type_name(type_form),
                    hint="give the key to a field of its type; key_by(selector, key_type=...) tells the plan",
                )
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
        """The callable that makes the result; None: the result is a tuple, or the fact itself."""
        return None if isinstance(self.combined, WindowFact) else self.combined.target

    def describe(self) -> str:
        return self.combined.describe()


def filled(
    function: AggregateFunction[Any, Any, Any, Any, Any], key_type: object | None
) -> tuple[Combined[Any, Any, Any, Any], FilledWindow] | None:
    """Splits an aggregate with facts into one of elements, and a function that adds the facts; None: it has none.

    Args:
        function: The aggregate.
        key_type: The type of the key, where the plan knows it.

    Raises:
        InvalidArgumentError: For facts in a combination within a combination.
    """
    if isinstance(function, WindowFact):
        return Combined((("", count()),), None), FilledWindow(function, (function.kind,))
    if not isinstance(function, Combined):
        return None
    for _, member in function.members:
        if isinstance(member, Combined) and filled(member, None) is not None:
            raise InvalidArgumentError(
                "a combination within another one has no window",
                given=member.describe(),
                expected="key(), window_start() and window_end() directly in the outer one",
            )
    places: list[int | str] = []
    aggregates: list[tuple[str, AggregateFunction[Any, Any, Any, Any, Any]]] = []
    for _, member in function.members:
        if isinstance(member, WindowFact):
            places.append(member.kind)
        else:
            places.append(len(aggregates))
            aggregates.append(("", member))
    if len(aggregates) == len(places):
        return None
    # Some aggregate has to hold that there are elements.
    inner: Combined[Any, Any, Any, Any] = Combined(tuple(aggregates) or (("", count()),), None)
    return inner, FilledWindow(function, tuple(places), () if key_type is not None else _key_fields(function))


def _key_fields(combined: Combined[Any, Any, Any, Any]) -> tuple[tuple[str, object], ...]:
    """The fields that a combination fills with the key, and their types where annotations say them."""
    if combined.target is None:
        return ()
    expected = parameter_types(combined.target)
    named = combined.fields_of(combined.target)
    return tuple(
        (field, expected[field])
        for field, member in named
        if isinstance(member, WindowFact) and member.kind == "key" and field in expected
    )
