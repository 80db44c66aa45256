"""Defines the facts of a window (key, start, end), which stand in a result beside aggregates of its elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, ClassVar, Final, Generic, Never, NoReturn, final, overload

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
from windrow.plan.location import refusal
from windrow.plan.types import parameter_types
from windrow.rows.equality import as_moment

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
    as_datetime: bool = False  # whether a bound of the window is a datetime

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
        return Declaration(self.kind, parameters=(("as_type", datetime),) if self.as_datetime else ())

    def result_type(
        self, element_type: object | None, *, key_type: object | None = None, may_be_empty: bool = False
    ) -> object | None:
        if self.kind == "key":
            return key_type
        return datetime if self.as_datetime else int


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


@overload
def window_start() -> WindowFact[T, int, object]: ...  # pyright: ignore[reportInvalidTypeVarUse]


@overload
def window_start(as_type: type[datetime]) -> WindowFact[T, datetime, object]: ...  # pyright: ignore[reportInvalidTypeVarUse]


def window_start(as_type: type[datetime] | None = None) -> WindowFact[T, Any, object]:  # pyright: ignore[reportInvalidTypeVarUse]
    """The start of the window; it stands in :func:`into` or :func:`combine`, as :func:`key`.

    Args:
        as_type: ``datetime`` makes it an aware datetime, in the time zone of the windows where these have one, as those
            of :class:`~windrow.windows.CalendarWindows`, and in UTC elsewhere. By default it is the number of
            milliseconds since the epoch.

    Raises:
        InvalidArgumentError: If ``as_type`` is anything else.

    Example:
        >>> from datetime import datetime
        >>> from windrow.aggregates import combine, count, key, window_start
        >>> combine(key(), window_start(datetime), count())
        combine(key(), window_start(as_type=datetime), count())
    """
    return _bound("window_start", as_type)


@overload
def window_end() -> WindowFact[T, int, object]: ...  # pyright: ignore[reportInvalidTypeVarUse]


@overload
def window_end(as_type: type[datetime]) -> WindowFact[T, datetime, object]: ...  # pyright: ignore[reportInvalidTypeVarUse]


def window_end(as_type: type[datetime] | None = None) -> WindowFact[T, Any, object]:  # pyright: ignore[reportInvalidTypeVarUse]
    """The end of the window, which is no longer in it; otherwise as :func:`window_start`.

    Args:
        as_type: ``datetime`` makes it an aware datetime; by default it is the number of milliseconds since the epoch.

    Raises:
        InvalidArgumentError: If ``as_type`` is anything else.
    """
    return _bound("window_end", as_type)


def _bound(kind: str, as_type: type[datetime] | None) -> WindowFact[Any, Any, object]:
    if as_type is not None and as_type is not datetime:
        raise refusal(
            "the bounds of windows are milliseconds or datetimes",
            given=as_type,
            expected=f"{kind}() or {kind}(datetime)",
        )
    return WindowFact(kind, as_type is datetime)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@final
@dataclass(frozen=True, slots=True)
class BoundTime:
    """A bound of windows as a datetime, in a result.

    Attributes:
        kind: The kind of the fact, such as ``window_start``.
        zone: The time zone of the datetime.
    """

    kind: str
    zone: tzinfo

    def of(self, bound: int) -> datetime:
        """The datetime of a bound in milliseconds.

        Raises:
            InvalidArgumentError: If it is not within the years 1 to 9999, which ``datetime`` has.
        """
        try:
            bound_time = (_EPOCH + timedelta(milliseconds=bound)).astimezone(self.zone)
        except OverflowError:
            raise InvalidArgumentError(
                "a bound of a window is no datetime",
                given=f"{bound} ms",
                expected="a moment in the years 1 to 9999",
                hint=f"{self.kind}() gives milliseconds",
            ) from None
        return as_moment(bound_time)


@final
@dataclass(frozen=True)
class FilledWindow(ProcessWindowFunction[tuple[Any, ...], Any, Any, Any]):
    """Makes the result of a combination from its aggregates' results and the facts of the window.

    Attributes:
        combined: The combination, or the fact that stands alone.
        places: For each member the place of its result among those of the aggregates, or the fact that it is.
        key_fields: The fields for the key with their types, where the plan does not know the type of the key.
    """

    combined: Combined[Any, Any, Any, Any] | WindowFact[Any, Any, Any]
    places: tuple[int | str | BoundTime, ...]
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
                values.append(fact_of(place, context.window.start, context.window.end))
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


def fact_of(place: str | BoundTime, start: int, end: int) -> Any:
    """A bound of a window, as a result has it.

    Args:
        place: The fact.
        start: The start of the window, in milliseconds.
        end: Its end.
    """
    kind = place.kind if isinstance(place, BoundTime) else place
    bound = start if kind == "window_start" else end
    return place.of(bound) if isinstance(place, BoundTime) else bound


def filled(
    function: AggregateFunction[Any, Any, Any, Any, Any], key_type: object | None, zone: tzinfo | None = None
) -> tuple[Combined[Any, Any, Any, Any], FilledWindow] | None:
    """Splits an aggregate with facts into one of elements, and a function that adds the facts; None: it has none.

    Args:
        function: The aggregate.
        key_type: The type of the key, where the plan knows it.
        zone: The time zone of the windows; None: they have none.

    Raises:
        InvalidArgumentError: For facts in a combination within a combination.
    """
    if isinstance(function, WindowFact):
        return Combined((("", count()),), None), FilledWindow(function, (_place_of(function, zone),))
    if not isinstance(function, Combined):
        return None
    for _, member in function.members:
        if isinstance(member, Combined) and filled(member, None) is not None:
            raise InvalidArgumentError(
                "a combination within another one has no window",
                given=member.describe(),
                expected="key(), window_start() and window_end() directly in the outer one",
            )
    places: list[int | str | BoundTime] = []
    aggregates: list[tuple[str, AggregateFunction[Any, Any, Any, Any, Any]]] = []
    for _, member in function.members:
        if isinstance(member, WindowFact):
            places.append(_place_of(member, zone))
        else:
            places.append(len(aggregates))
            aggregates.append(("", member))
    if len(aggregates) == len(places):
        return None
    # Some aggregate has to hold that there are elements.
    inner: Combined[Any, Any, Any, Any] = Combined(tuple(aggregates) or (("", count()),), None)
    return inner, FilledWindow(function, tuple(places), () if key_type is not None else _key_fields(function))


def _place_of(fact: WindowFact[Any, Any, Any], zone: tzinfo | None) -> str | BoundTime:
    return BoundTime(fact.kind, zone or UTC) if fact.as_datetime else fact.kind


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
