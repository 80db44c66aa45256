"""Defines the nodes that take the elements of a key in event-time order: that order itself, and patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Any, ClassVar

from windrow.patterns import AfterMatchSkipStrategy, Pattern, SkipTo
from windrow.patterns.selecting import MatchFunction
from windrow.plan.base_node import NAMES, OneInputNode, PlainFunction, Words, fate_with
from windrow.tags import OutputTag
from windrow.time import duration_text

# Any in this module: elements of every type.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InEventTimeNode(OneInputNode):
    """Keeps elements of a key until the watermark reaches them. Its input is a :class:`KeyByNode`.

    Attributes:
        late_tag: That of the side output for late elements; None: they are counted and dropped.
    """

    is_keyed: ClassVar[bool] = True
    gives_timestamps: ClassVar[bool] = True

    late_tag: OutputTag[Any] | None = None

    @property
    def drops_late(self) -> bool:
        return self.late_tag is None

    @property
    def fate_of_late(self) -> str:
        return fate_with(self.late_tag)

    @property
    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        return () if self.late_tag is None else (self.late_tag,)

    def late_type(self, tag: OutputTag[Any]) -> object | None:
        return self.input.element_type if tag == self.late_tag else None

    def passed_aside(self, tag: OutputTag[Any]) -> tuple[OneInputNode, ...] | tuple[()]:
        return ()

    def describe_late(self) -> list[str]:
        """A few words about late elements."""
        return [] if self.late_tag is None else [f"late to {self.late_tag.name!r}"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventTimeOrderNode(InEventTimeNode):
    """Passes on the elements of a key by timestamp, as the watermark passes them.

    Attributes:
        max_buffered: How many elements of a key may wait; None: any number.
    """

    kind: ClassVar[str] = "in_event_time_order"
    keeps_elements: ClassVar[bool] = True

    max_buffered: int | None = None

    def describe(self, words: Words = NAMES) -> str:
        most = [] if self.max_buffered is None else [f"at most {self.max_buffered} of a key"]
        return ", ".join([*most, *self.describe_late()])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PatternNode(InEventTimeNode):
    """Looks for a pattern in the elements of a key, and makes a record of each match.

    Attributes:
        pattern: The pattern.
        skip: What becomes of other matches after a match.
        function: Makes the record.
        tie_break: Orders elements of one timestamp; None: they are in order of arrival.
        timed_out_tag: That of the side output for partial matches that time out; None: they vanish.
    """

    kind: ClassVar[str] = "pattern"

    pattern: Pattern[Any]
    skip: AfterMatchSkipStrategy
    function: MatchFunction
    tie_break: Callable[[Any], Any] | None = None
    timed_out_tag: OutputTag[Any] | None = None

    @property
    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        return (*[tag for tag in (self.late_tag, self.timed_out_tag) if tag is not None], *self.failed_tags)

    @property
    def failing_type(self) -> object | None:
        # A condition raises for one element, and the function of a match for all of it.
        element_type = self.input.element_type
        return None if element_type is None else GenericAlias(list, (element_type,))

    def late_type(self, tag: OutputTag[Any]) -> object | None:
        element_type = self.input.element_type
        if tag != self.timed_out_tag or element_type is None:
            return element_type if tag == self.late_tag else None
        return GenericAlias(dict, (str, GenericAlias(list, (element_type,))))

    @property
    def deciding(self) -> Mapping[str, str | Callable[..., Any]]:
        # A changed condition counts for what comes; stored partial matches are of the parts, and of their numbers.
        within = self.pattern.within_millis
        return {
            "the pattern": self.pattern.describe(),
            "the time of a match": "any" if within is None else duration_text(within),
            "what a match skips": self.skip.describe(),
        }

    @property
    def user_parts(self) -> tuple[object, ...]:
        conditions = [
            condition.function
            for part in self.pattern.parts
            for condition in part.conditions()
            if condition.function is not None
        ]
        ties = [] if self.tie_break is None else [self.tie_break]
        return (*conditions, *ties, self.function.function)

    @property
    def plain_function(self) -> PlainFunction:
        return PlainFunction(self.function.function)

    def describe(self, words: Words = NAMES) -> str:
        settings = [self.pattern.describe()]
        if self.pattern.within_millis is not None:
            settings.append(f"within {duration_text(self.pattern.within_millis)}")
        if self.skip.to is not SkipTo.NOTHING:
            settings.append(self.skip.describe())
        if self.tie_break is not None:
            settings.append(f"ties by {words.function(self.tie_break)}")
        settings += self.describe_late()
        if self.timed_out_tag is not None:
            settings.append(f"timed out to {self.timed_out_tag.name!r}")
        return ", ".join([*settings, words.function(self.function.function)])
