"""Defines the builder of patterns, with the model of Flink's CEP library."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, Self, final, overload

from typing_extensions import TypeVar

from windrow.errors import InvalidArgumentError, UnsupportedOperationError, no_attribute, similar_name
from windrow.patterns.parts import Condition, Part, Relation, describe_parts
from windrow.patterns.skip import AfterMatchSkipStrategy
from windrow.plan.location import refusal
from windrow.time import duration_text, positive_millis

# Any: Pattern.begin("small", lambda event: ...) says no type; Pattern[Payment].begin(...) does.
T = TypeVar("T", default=Any)


@final
class Pattern(Generic[T]):
    """Parts that elements of a key match one after the other, in event time.

    A pattern is immutable: each call gives another one. :meth:`begin` makes its first part, :meth:`next`,
    :meth:`followed_by` and :meth:`followed_by_any` a further one, and :meth:`not_next` and :meth:`not_followed_by` one
    that must not come. The other calls are about the last part. A part is a name with a condition, or a whole pattern,
    which is a group. ``stream.key_by(...).pattern(pattern)`` looks for it.

    A condition is a function of an element, or of an element and of what was matched before: a mapping from the
    names of parts to lists of elements, without the element in question. A part without one takes every element.

    ``Pattern[Payment].begin(...)`` tells type checkers of which type the elements are.

    Example:
        >>> from datetime import timedelta
        >>> from typing import NamedTuple
        >>> from windrow import WatermarkStrategy, from_collection
        >>> from windrow.patterns import Pattern
        >>> class Payment(NamedTuple):
        ...     card: str
        ...     at: int
        ...     amount: float
        >>> class Probe(NamedTuple):
        ...     small: Payment
        ...     large: Payment
        >>> payments = from_collection([Payment("a", 1_000, 0.5), Payment("a", 9_000, 900.0)])
        >>> stamped = payments.assign_timestamps_and_watermarks(
        ...     WatermarkStrategy.for_monotonous_timestamps(), lambda payment: payment.at
        ... )
        >>> pattern = (
        ...     Pattern[Payment]
        ...     .begin("small", lambda payment: payment.amount < 1)
        ...     .followed_by("large", lambda payment: payment.amount > 500)
        ...     .within(timedelta(minutes=1))
        ... )
        >>> [probe] = stamped.key_by(lambda payment: payment.card).pattern(pattern).select(Probe).collect()
        >>> probe.large.amount
        900.0
    """

    __slots__ = ("_parts", "_within")

    def __init__(self, parts: tuple[Part, ...], within: int | None = None) -> None:
        self._parts = parts
        self._within = within

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts in their order."""
        return self._parts

    @property
    def within_millis(self) -> int | None:
        """The milliseconds in which a whole match lies, or None if there is no limit."""
        return self._within

    # Parts

    @overload
    @classmethod
    def begin(cls, part: str, condition: Callable[[T], bool] | None = None) -> Pattern[T]: ...
    @overload
    @classmethod
    def begin(cls, part: str, condition: Callable[[T, Mapping[str, list[T]]], bool]) -> Pattern[T]: ...
    @overload
    @classmethod
    def begin(cls, part: Pattern[T]) -> Pattern[T]: ...
    # Any: a condition takes an element, and perhaps what was matched before.
    @classmethod
    def begin(cls, part: str | Pattern[T], condition: Callable[..., Any] | None = None) -> Pattern[T]:
        """The first part of a pattern, or of a group.

        Args:
            part: The name of the part, or a pattern, which is a group then.
            condition: What its elements meet; None, every element does.

        Raises:
            InvalidArgumentError: If the name is empty, or the condition no function.
        """
        return Pattern(())._followed(Relation.BEGIN, part, condition)

    @overload
    def next(self, part: str, condition: Callable[[T], bool] | None = None) -> Pattern[T]: ...
    @overload
    def next(self, part: str, condition: Callable[[T, Mapping[str, list[T]]], bool]) -> Pattern[T]: ...
    @overload
    def next(self, part: Pattern[T]) -> Pattern[T]: ...
    def next(self, part: str | Pattern[T], condition: Callable[..., Any] | None = None) -> Pattern[T]:
        """A part whose first element is the very next element of the key.

        Args:
            part: The name of the part, or a pattern, which is a group then.
            condition: What its elements meet; None, every element does.

        Raises:
            InvalidArgumentError: If the name is empty or taken, or the condition no function.
        """
        return self._followed(Relation.NEXT, part, condition)

    @overload
    def followed_by(self, part: str, condition: Callable[[T], bool] | None = None) -> Pattern[T]: ...
    @overload
    def followed_by(self, part: str, condition: Callable[[T, Mapping[str, list[T]]], bool]) -> Pattern[T]: ...
    @overload
    def followed_by(self, part: Pattern[T]) -> Pattern[T]: ...
    def followed_by(self, part: str | Pattern[T], condition: Callable[..., Any] | None = None) -> Pattern[T]:
        """A part whose first element is the first later element of the key that meets the condition.

        Args:
            part: The name of the part, or a pattern, which is a group then.
            condition: What its elements meet; None, every element does.

        Raises:
            InvalidArgumentError: If the name is empty or taken, or the condition no function.
        """
        return self._followed(Relation.FOLLOWED_BY, part, condition)

    @overload
    def followed_by_any(self, part: str, condition: Callable[[T], bool] | None = None) -> Pattern[T]: ...
    @overload
    def followed_by_any(self, part: str, condition: Callable[[T, Mapping[str, list[T]]], bool]) -> Pattern[T]: ...
    @overload
    def followed_by_any(self, part: Pattern[T]) -> Pattern[T]: ...
    def followed_by_any(self, part: str | Pattern[T], condition: Callable[..., Any] | None = None) -> Pattern[T]:
        """A part whose first element is any later element that meets the condition: a match for each.

        Args:
            part: The name of the part, or a pattern, which is a group then.
            condition: What its elements meet; None, every element does.

        Raises:
            InvalidArgumentError: If the name is empty or taken, or the condition no function.
        """
        return self._followed(Relation.FOLLOWED_BY_ANY, part, condition)

    @overload
    def not_next(self, part: str, condition: Callable[[T], bool] | None = None) -> Pattern[T]: ...
    @overload
    def not_next(self, part: str, condition: Callable[[T, Mapping[str, list[T]]], bool]) -> Pattern[T]: ...
    def not_next(self, part: str, condition: Callable[..., Any] | None = None) -> Pattern[T]:
        """A part that the very next element must not meet. At the end a match is complete with that element.

        It cannot stand behind an optional part.

        Args:
            part: The name of the part.
            condition: What the next element must not meet; None, there must be no next element.

        Raises:
            InvalidArgumentError: If the name is empty or taken, or the condition no function.
            UnsupportedOperationError: If the part before it is optional.
        """
        self._refuse_behind_optional("not_next")
        return self._followed(Relation.NOT_NEXT, part, condition)

    @overload
    def not_followed_by(self, part: str, condition: Callable[[T], bool] | None = None) -> Pattern[T]: ...
    @overload
    def not_followed_by(self, part: str, condition: Callable[[T, Mapping[str, list[T]]], bool]) -> Pattern[T]: ...
    def not_followed_by(self, part: str, condition: Callable[..., Any] | None = None) -> Pattern[T]:
        """A part that no element meets until the element of the next part comes.

        At the end of a pattern it needs :meth:`within` or :meth:`within_previous`: a match is complete when that time
        is up. It cannot stand behind an optional part.

        Args:
            part: The name of the part.
            condition: What no element must meet.

        Raises:
            InvalidArgumentError: If the name is empty or taken, or the condition no function.
            UnsupportedOperationError: If the part before it is optional.
        """
        self._refuse_behind_optional("not_followed_by")
        return self._followed(Relation.NOT_FOLLOWED_BY, part, condition)

    def _refuse_behind_optional(self, call: str) -> None:
        """Refuse a part that must not come behind a part that may be left out, as Flink does."""
        if self._parts and self._parts[-1].is_optional:
            raise UnsupportedOperationError(
                f"{call} cannot stand behind an optional part",
                given=self.describe(),
                expected="a part before it that cannot be left out",
                hint="two patterns do it: one with the optional part, one without",
            )

    def _followed(self, relation: Relation, part: object, condition: object) -> Pattern[T]:
        if isinstance(part, Pattern):
            if condition is not None:
                raise InvalidArgumentError(
                    "a group has no condition of its own",
                    given=condition,
                    expected=f"{relation.value}(pattern), whose parts have conditions",
                )
            added = Part(relation=relation, group=part._parts)
            limits = [each for each in (self._within, part._within) if each is not None]
        elif isinstance(part, str) and part:
            function = Condition.of(condition, f"the condition of the part {part!r}")
            added = Part(relation=relation, name=part, condition=function)
            limits = [] if self._within is None else [self._within]
        else:
            raise InvalidArgumentError(
                "a part of a pattern has a name, or is a pattern",
                given=part,
                expected=f'{relation.value}("large", lambda event: ...), or {relation.value}(pattern)',
            )
        parts = (*self._parts, added)
        names = Counter(leaf.name for each in parts for leaf in each.leaves())
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise InvalidArgumentError(
                "two parts of a pattern have the same name", given=twice[0], expected="a name of its own for each part"
            )
        return Pattern(parts, min(limits, default=None))

    # The number of elements of the last part

    def one_or_more(self, *, gap: timedelta | None = None) -> Self:
        """The last part has one element or more; every number that there can be is a match.

        Args:
            gap: Two elements of the part, one after the other, are less than this apart.

        Raises:
            InvalidArgumentError: If the number was said before, or the part must not come.
        """
        return self._quantified("one_or_more", 1, None, gap)

    def times(self, least: int, most: int | None = None, *, gap: timedelta | None = None) -> Self:
        """The last part has so many elements, or from ``least`` to ``most`` ones.

        Args:
            least: How many, above zero; with ``most`` zero as well, which makes the part optional.
            most: How many at most; None: as many as ``least``.
            gap: Two elements of the part, one after the other, are less than this apart.

        Raises:
            InvalidArgumentError: If a number is out of range or was said before, or the part must not come.
        """
        _check_count(least, 0 if most is not None else 1)
        if most is not None:
            _check_count(most, max(1, least))
        quantified = self._quantified("times", max(1, least), least if most is None else most, gap)
        return quantified if least else quantified._with(is_optional=True)

    def times_or_more(self, least: int, *, gap: timedelta | None = None) -> Self:
        """The last part has so many elements or more.

        Args:
            least: How many at least, above zero.
            gap: Two elements of the part, one after the other, are less than this apart.

        Raises:
            InvalidArgumentError: If the number is out of range or was said before, or the part must not come.
        """
        _check_count(least, 1)
        return self._quantified("times_or_more", least, None, gap)

    def _quantified(self, call: str, least: int, most: int | None, gap: timedelta | None) -> Self:
        self._refuse(call, "a part that must not come has no number of elements", self._last.relation.forbids)
        self._refuse(call, "a part has one number of elements", self._last.has_quantifier)
        millis = None if gap is None else positive_millis(gap, f"gap of {call}")
        return self._with(least=least, most=most, has_quantifier=True, gap=millis)

    def optional(self) -> Self:
        """The last part may be left out. The relation of the part after it counts from the element before it then.

        Raises:
            InvalidArgumentError: If that was said before, the part must not come, or the part before it is greedy.
        """
        last = self._last
        self._refuse("optional", "a part that must not come cannot be optional", last.relation.forbids)
        self._refuse("optional", "the part is optional already", last.is_optional)
        is_behind_greedy = len(self._parts) > 1 and self._parts[-2].is_greedy
        self._refuse("optional", "an optional part cannot stand behind a greedy one", is_behind_greedy)
        return self._with(is_optional=True)

    def greedy(self) -> Self:
        """No element that the last part could have taken is left to the parts behind it.

        Precisely: from the last element of the part until the element of the next part, that one included, no element
        may meet the part's condition. It has no effect at the end of the pattern, nor for ``times(n)``.

        Raises:
            InvalidArgumentError: If the part has no number of elements, is a group, or allows combinations.
        """
        last = self._last
        self._refuse("greedy", "greedy needs one_or_more, times or times_or_more before it", not last.has_quantifier)
        self._refuse("greedy", "a group cannot be greedy", bool(last.group))
        combines = last.between is Relation.FOLLOWED_BY_ANY
        self._refuse("greedy", "greedy does not go with allow_combinations", combines)
        return self._with(is_greedy=True)

    @overload
    def until(self, condition: Callable[[T], bool]) -> Self: ...
    @overload
    def until(self, condition: Callable[[T, Mapping[str, list[T]]], bool]) -> Self: ...
    def until(self, condition: Callable[..., Any]) -> Self:
        """Ends the last part, which is a loop, with the first element that meets a condition; it is not taken.

        What was taken before goes on to the next part, which may take that element. Before the first element of the
        part it ends nothing: see the page about patterns.

        Args:
            condition: A function of an element, or of an element and what was matched before.

        Raises:
            InvalidArgumentError: If the part is no loop, or the condition no function.
        """
        self._refuse("until", "until is for one_or_more and times_or_more", not self._last.is_loop)
        self._refuse("until", "a loop has one until", self._last.until is not None)
        if condition is None:
            raise InvalidArgumentError("until needs a condition", expected="a function of an element")
        return self._with(until=Condition.of(condition, "the condition of until"))

    def consecutive(self) -> Self:
        """Nothing may come between the elements of the last part.

        Raises:
            InvalidArgumentError: If the part has no number of elements, or another such call was made.
        """
        return self._contiguous("consecutive", Relation.NEXT)

    def allow_combinations(self) -> Self:
        """Elements that the last part could take may also be passed over: each combination is a match.

        Raises:
            InvalidArgumentError: If the part has no number of elements, is greedy, or another such call was made.
        """
        self._refuse("allow_combinations", "greedy does not go with allow_combinations", self._last.is_greedy)
        return self._contiguous("allow_combinations", Relation.FOLLOWED_BY_ANY)

    def _contiguous(self, call: str, between: Relation) -> Self:
        last = self._last
        self._refuse(call, f"{call} needs one_or_more, times or times_or_more before it", not last.has_quantifier)
        self._refuse(call, "one of consecutive and allow_combinations is said, once", last.is_contiguity_set)
        return self._with(between=between, is_contiguity_set=True)

    # Time

    def within(self, duration: timedelta) -> Self:
        """A whole match lies in less than this time. Said several times, the shortest counts.

        A partial match times out when the watermark, or an element, reaches the timestamp of its first element and
        this time.

        Args:
            duration: From the first element to the last one.

        Raises:
            InvalidArgumentError: If it is not positive.
        """
        millis = positive_millis(duration, "the time of a pattern")
        return type(self)(self._parts, millis if self._within is None else min(millis, self._within))

    def within_previous(self, duration: timedelta) -> Self:
        """The first element of the last part comes less than this after the element matched before it.

        For :meth:`not_followed_by` at the end of the pattern it is the time in which no element may come.

        Args:
            duration: From the element matched before.

        Raises:
            InvalidArgumentError: If it is not positive, or there is no part before.
        """
        last = self._last
        self._refuse("within_previous", "the first part has none before it", last.relation is Relation.BEGIN)
        is_not_next = last.relation is Relation.NOT_NEXT
        self._refuse("within_previous", "not_next looks at one element, whenever it comes", is_not_next)
        millis = positive_millis(duration, "the time since the part before")
        limits = [each for each in (millis, last.within_previous) if each is not None]
        return self._with(within_previous=min(limits))

    # The whole

    def check(self, skip: AfterMatchSkipStrategy) -> None:
        """Refuse a pattern that cannot be looked for. ``stream.key_by(...).pattern(...)`` calls it.

        Args:
            skip: What becomes of other matches.

        Raises:
            InvalidArgumentError: If it ends with :meth:`not_followed_by` and has no time, if a time between elements
                is longer than :meth:`within`, or if the skip strategy names a part that has no elements.
        """
        ending = _last_leaf(self._parts)
        if ending.relation is Relation.NOT_FOLLOWED_BY and self._within is None and ending.within_previous is None:
            raise InvalidArgumentError(
                "a pattern ends with not_followed_by, and nothing says within what time",
                given=self.describe(),
                expected="within(...), or within_previous(...) behind that part",
            )
        for part in (each for whole in self._parts for each in whole.leaves()):
            is_inside = part.relation is Relation.NOT_FOLLOWED_BY and part is not ending
            if is_inside and part.within_previous is not None:
                raise InvalidArgumentError(
                    "within_previous of not_followed_by counts at the end of a pattern alone",
                    given=part.describe(),
                    expected="within_previous behind the part that comes, or within(...)",
                )
        self._check_times()
        names = self.names
        if skip.part is not None and skip.part not in names:
            raise InvalidArgumentError(
                "the skip strategy names a part that no match has",
                given=skip.part,
                expected=f"one of {', '.join(names)}",
                hint=similar_name(skip.part, names),
            )

    def _check_times(self) -> None:
        """Refuse a time between two elements that is longer than that of the whole match, and so says nothing."""
        for part in (each for whole in self._parts for each in whole.all_parts()):
            longest = max((each for each in (part.within_previous, part.gap) if each is not None), default=0)
            if self._within is not None and longest > self._within:
                raise InvalidArgumentError(
                    "the time between two elements is longer than that of the whole match",
                    given=part.describe(),
                    expected=f"at most {duration_text(self._within)}, as within says",
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts that have elements, in their order."""
        leaves = [leaf for part in self._parts for leaf in part.leaves()]
        return tuple([leaf.name for leaf in leaves if leaf.name is not None and not leaf.relation.forbids])

    def describe(self) -> str:
        """Describes the pattern as the calls that make it, without conditions."""
        return describe_parts(self._parts)

    def __repr__(self) -> str:
        return f"Pattern({self.describe()})"

    @property
    def _last(self) -> Part:
        return self._parts[-1]

    # Any: fields of a part of several types.
    def _with(self, **changes: Any) -> Self:
        return type(self)((*self._parts[:-1], replace(self._last, **changes)), self._within)

    def _refuse(self, call: str, message: str, is_wrong: bool) -> None:
        if is_wrong:
            raise InvalidArgumentError(
                message, given=f"{call} behind {self.describe()}", expected="a part to which the call applies"
            )

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of Flink's."""
            raise no_attribute(self, name, _ELSEWHERE)


_ELSEWHERE: Mapping[str, str] = {
    "where": "the condition is an argument: begin(name, condition)",
    "or_": "the condition is an argument: begin(name, lambda event: ... or ...)",
    "subtype": "begin(name, lambda event: isinstance(event, ...))",
}
"""What to write instead of Flink's names."""


# Any: calls of every signature.
def _on_a_pattern(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, which refuses the class in place of a pattern: ``Pattern[Payment].next(...)``."""

    @functools.wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not args or not isinstance(args[0], Pattern):
            raise refusal(
                "a pattern has a first part",
                given=f"Pattern.{call.__name__}(...)",
                expected="Pattern.begin(name, condition), and then the other calls",
                hint=f"Pattern.begin(name, condition).{call.__name__}(...)",
            )
        return call(*args, **kwargs)

    return checked


for _name, _call in tuple(vars(Pattern).items()):
    if isinstance(_call, FunctionType) and not _name.startswith("_"):
        setattr(Pattern, _name, _on_a_pattern(_call))


def _last_leaf(parts: tuple[Part, ...]) -> Part:
    last = parts[-1]
    return _last_leaf(last.group) if last.group else last


def _check_count(count: object, least: int) -> None:
    if type(count) is not int or count < least:
        raise InvalidArgumentError(
            "a part has a number of elements", given=count, expected=f"an int of {least} or more"
        )
