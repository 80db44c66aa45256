"""Defines the stage of a keyed stream in which a pattern is looked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from windrow.builder.arguments import check_function, check_kind, error_policy
from windrow.builder.stage import Stage
from windrow.failures import OnError
from windrow.patterns import AfterMatchSkipStrategy, Pattern
from windrow.patterns.ordered_nodes import PatternNode
from windrow.patterns.selecting import MatchFunction, Shape, misfit, selected, shape_type, shapes_of
from windrow.plan.fitting import accepts_none, can_fit
from windrow.plan.location import AtCaller, refusal
from windrow.plan.nodes import KeyByNode
from windrow.plan.render import node_line
from windrow.plan.types import made_type, parameter_types
from windrow.tags import OutputTag

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
R = TypeVar("R")

# Any: the settings are carried, and the stage has proved that they fit.


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternSettings:
    """What ``pattern`` of a keyed stream was given."""

    pattern: Pattern[Any]
    skip: AfterMatchSkipStrategy
    tie_break: Callable[[Any], Any] | None
    late: OutputTag[Any] | None
    timed_out: OutputTag[Any] | None

    def check(self) -> None:
        """Refuse settings of other classes, and patterns that cannot be looked for.

        Raises:
            InvalidArgumentError: If one is wrong.
        """
        check_kind(self.pattern, Pattern, "pattern looks for a pattern", 'Pattern.begin("small", lambda event: ...)')
        check_kind(self.skip, AfterMatchSkipStrategy, "skip says what a match drops", "an AfterMatchSkipStrategy")
        if self.tie_break is not None:
            check_function(self.tie_break, "tie_break", "element")
        tags = {"late elements go": self.late, "partial matches that time out go": self.timed_out}
        for what, tag in tags.items():
            if tag is not None:
                check_kind(tag, OutputTag, f"{what} to the side output of a tag", "an OutputTag")
        if self.late is not None and self.late == self.timed_out:
            raise refusal(
                "late elements and partial matches go to one side output",
                given=self.late.name,
                expected="a tag for each",
            )
        with AtCaller():
            self.pattern.check(self.skip)


class PatternStream(Stage, Generic[T]):
    """A keyed stream in which a pattern is looked for; ``select`` or ``apply`` says what is made of a match."""

    __slots__ = ("_node", "_settings")

    def __init__(self, node: KeyByNode, settings: PatternSettings) -> None:
        self._node = node
        self._settings = settings

    def __repr__(self) -> str:
        return node_line(type(self).__name__, self._node)

    def select(
        self, match: Callable[..., R], *, on_error: OnError[list[T]] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make a record of each match, with a field for each part.

        A part of one element gives the element, an optional one the element or None, and one that may have several
        elements a list, which is empty where it was left out. Fields may leave out parts.

        Args:
            match: A record class with fields of the names of parts, or a function with such parameters.
            on_error: What becomes of an element for which a condition or the order of elements raises, and which then
                is passed over as if it had not come; or of a match for which ``match`` raises, as the list of its
                elements. See :data:`~windrow.failures.OnError`.
            name: Names the step.

        Returns:
            The records. Their timestamps are those of the elements that completed the matches; of matches that are
            completed by time, that time.

        Raises:
            InvalidArgumentError: If a field has not the name of a part, or cannot take what a match has of it.

        Example:
            >>> from typing import NamedTuple
            >>> from windrow import WatermarkStrategy, from_collection
            >>> from windrow.patterns import Pattern
            >>> class Rise(NamedTuple):
            ...     low: int
            ...     higher: list[int]
            >>> numbers = from_collection([1, 2, 3]).assign_timestamps_and_watermarks(
            ...     WatermarkStrategy.for_monotonous_timestamps(), lambda number: number
            ... )
            >>> rise = Pattern[int].begin("low", lambda number: number == 1).next("higher").times(2)
            >>> numbers.key_by(lambda number: 0).pattern(rise).select(Rise).collect()
            [Rise(low=1, higher=[2, 3])]
        """
        check_function(match, "select")
        with AtCaller():
            function = selected(match, self._settings.pattern)
            self._check_fields(match)
        return self._stream(function, made_type(match), name, on_error)

    def apply(
        self,
        function: Callable[[dict[str, list[T]]], R],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Make a record of each match by a function of its elements.

        Args:
            function: Takes a dict of lists of elements by the names of parts, in the order of the pattern. A part
                without elements is absent.
            on_error: As of :meth:`select`.
            name: Names the step.

        Returns:
            What the function returned, with the timestamps that :meth:`select` gives.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.
        """
        check_function(function, "apply", "elements")
        return self._stream(MatchFunction(function), made_type(function, self._match_type()), name, on_error)

    def _match_type(self) -> object | None:
        element_type = self._node.element_type
        if element_type is None:
            return None
        of_part: Any = shape_type(Shape.SEVERAL, element_type)
        return dict.__class_getitem__((str, of_part))

    def _check_fields(self, match: Callable[..., Any]) -> None:
        """Refuse a field that cannot take what a match has of its part, as far as types are known."""
        element_type = self._node.element_type
        if element_type is None:
            return
        wanted_types = parameter_types(match)
        for name, shape in shapes_of(self._settings.pattern).items():
            wanted = wanted_types.get(name)
            if wanted is None:
                continue
            lacks = shape is Shape.ONE_OR_NONE and not accepts_none(wanted)
            if lacks or not can_fit(shape_type(shape, element_type), wanted):
                raise misfit(match, name, shape, wanted, element_type)

    def _stream(
        self, function: MatchFunction, element_type: object | None, name: str | None, on_error: OnError[list[T]]
    ) -> DataStream[Any]:
        settings = self._settings
        return self._stream_of(
            PatternNode(
                input=self._node,
                pattern=settings.pattern,
                skip=settings.skip,
                function=function,
                tie_break=settings.tie_break,
                late_tag=settings.late,
                timed_out_tag=settings.timed_out,
                on_error=error_policy(on_error),
                element_type=element_type,
                name=name,
            )
        )
