"""Defines the step that gives elements the values of side inputs, and the views of which these are.

The rules are those of Beam's side inputs. An element gets the view of the window into which its timestamp maps; where
windows overlap, that is the earliest one, as in ``SlidingWindows.getDefaultWindowMappingFn`` of Beam's Java SDK.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from windrow.errors import InvalidArgumentError, Location, UnsupportedOperationError
from windrow.panes.settings import DEFAULT_PANES
from windrow.plan.base_node import NAMES, Node, Words, fate_with
from windrow.plan.keyed_nodes import BroadcastInputNode, WindowNode
from windrow.plan.nodes import MapNode
from windrow.rows.equality import as_stored, is_same
from windrow.side_inputs.mapping import ViewMapping
from windrow.tags import OutputTag
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, duration_text
from windrow.triggers.composable import AfterWatermark
from windrow.windows import WindowAssigner
from windrow.windows.spec import GapWindows, WindowOfAllTime, WindowSpec

# Any in this module: views and elements of every type; the stages have proved that they fit.

K = TypeVar("K")
V = TypeVar("V")


class SideElement(NamedTuple, Generic[K, V]):
    """An element of a side input, on its way to all keys."""

    view: int  # the number of the view among those of the step
    is_withdrawn: bool
    key: K | None  # of a view by key
    value: V


class _NoClock(NamedTuple):
    """The context of assigners that do not ask for the time."""

    current_processing_time: int = MIN_TIMESTAMP


_NO_CLOCK: Final = _NoClock()


@dataclass(frozen=True, slots=True)
class ViewWindows:
    """The windows of a side input. A window is known by its last millisecond.

    Attributes:
        assigner: The assigner; None for the global window.
        at_end: Whether a view is complete when the watermark passes its window, and not before.
        from_results: Whether the elements are results of such windows, with the last timestamp of their window.
        lateness: How long views may change after the end of their window, in milliseconds.
    """

    assigner: WindowAssigner[Any, Any] | None = None
    at_end: bool = False
    from_results: bool = False
    lateness: int = 0

    def window_for(self, timestamp: int | None) -> int | None:
        """Returns the window whose view an element of the main stream sees; None where there is no window.

        Args:
            timestamp: The timestamp of the element; None only for the global window.
        """
        return min(self._assigned(timestamp), default=None)

    def windows_of(self, timestamp: int | None) -> tuple[int, ...]:
        """Returns the windows to which an element of the side input belongs.

        Args:
            timestamp: The timestamp of the element; None only for the global window.
        """
        windows = self._assigned(timestamp)
        # Results of windows that overlap carry the last timestamp of theirs.
        return (timestamp,) if self.from_results and timestamp is not None and timestamp in windows else windows

    def _assigned(self, timestamp: int | None) -> tuple[int, ...]:
        if self.assigner is None:
            return (MAX_TIMESTAMP,)
        assert timestamp is not None, "the operator refuses elements without timestamps"
        return tuple(window.max_timestamp() for window in self.assigner.assign_windows(None, timestamp, _NO_CLOCK))

    def describe(self) -> str:
        """A few words for ``explain()``."""
        if self.assigner is None:
            return "the global window"
        late = f", lateness {duration_text(self.lateness)}" if self.lateness else ""
        return f"{self.assigner.describe()}{late}"


_GLOBAL: Final = ViewWindows()


def stated_windows(assigner: WindowAssigner[Any, Any], where: Location | None) -> ViewWindows:
    """Returns the windows that the user gave for a side input.

    Raises:
        InvalidArgumentError: If timestamps do not map to such windows.
    """
    spec = WindowSpec(assigner, assigner.default_trigger(), None, DEFAULT_PANES, 0, None)
    return _windows(spec, where, from_results=False)


def windows_upstream(node: Node, where: Location | None) -> ViewWindows:
    """Finds the windows whose results the elements of a stream are; the global window where there are none.

    Raises:
        InvalidArgumentError: If timestamps do not map to such windows, or if the stream has results of several kinds.
    """
    origins: dict[int, WindowNode | None] = {}
    waiting = [node]
    while waiting:
        each = waiting.pop()
        made_of = () if each.makes_watermarks is not None else each.made_of
        waiting += made_of
        if not made_of:
            origins[id(each)] = each.windows
    kinds = [
        _GLOBAL if origin is None else _windows(origin.spec, where, from_results=True, early=origin.stamps_early)
        for origin in origins.values()
    ]
    if len({repr(kind.assigner) for kind in kinds}) > 1:
        raise InvalidArgumentError(
            "the elements of a side input are in windows of several kinds",
            given=", ".join(sorted({kind.describe() for kind in kinds})),
            expected="results of windows of one kind",
            where=where,
            hint="windows=TumblingEventTimeWindows.of(...) puts all of them into windows by their timestamps",
        )
    lateness, at_end = max(kind.lateness for kind in kinds), all(kind.at_end for kind in kinds)
    return replace(kinds[0], lateness=lateness, at_end=at_end)


def _windows(spec: WindowSpec, where: Location | None, *, from_results: bool, early: bool = False) -> ViewWindows:
    shape = spec.shape
    if isinstance(shape, WindowOfAllTime):
        return _GLOBAL
    if shape is None or isinstance(shape, GapWindows) or spec.by_clock:
        raise InvalidArgumentError(
            "no timestamp of another stream maps to the windows of this side input",
            given=spec.assigner.describe(),
            expected="windows in event time that begin at the same times for all, or the global window",
            where=where,
            hint="windows=TumblingEventTimeWindows.of(...) puts the elements into windows by their timestamps",
        )
    if early and shape.overlaps:
        raise InvalidArgumentError(
            "results of windows that overlap do not say by their timestamp of which window they are",
            given=f"{spec.assigner.describe()}, {', '.join(spec.panes.describe())}",
            expected="results with the last timestamp of their window",
            where=where,
            hint="leave timestamp_combiner(...) out",
        )
    trigger = spec.trigger
    ends_alone = isinstance(trigger, AfterWatermark) and trigger.early is None
    at_end = ends_alone or replace(spec, lateness=0).fires_once
    return ViewWindows(spec.assigner, at_end, from_results, spec.lateness)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideView(ABC):
    """What functions see of a side input. Its contents of a window are kept as a list or a dictionary.

    Attributes:
        call: The call that has made it.
        windows: The windows of the side input.
        has_timestamps: Whether its elements have timestamps.
        location: The line of the user's program that made it.
    """

    call: ClassVar[str]

    windows: ViewWindows
    has_timestamps: bool
    location: Location | None

    @abstractmethod
    def begin(self) -> Any:
        """Returns the contents of a window to which no element has come."""

    @abstractmethod
    def change(self, contents: Any, element: SideElement[Any, Any]) -> None:
        """Adds an element to the contents of its window, or takes one that is withdrawn out again."""

    def is_there(self, contents: Any) -> bool:
        """Whether functions can be given the contents of a window before it is over."""
        return True

    @abstractmethod
    def value(self, contents: Any) -> object:
        """Returns what functions see of the contents of a window, which change afterwards.

        Raises:
            UnsupportedOperationError: If it is empty, and has to have a value.
        """

    def describe(self) -> str:
        """A few words for ``explain()``."""
        return f"{self.call} in {self.windows.describe()}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SingletonView(SideView):
    """The newest element of a window.

    Attributes:
        default: What an empty window has, in a tuple; empty: that is an error.
    """

    call: ClassVar[str] = "as_singleton"

    default: tuple[object, ...] = ()

    def begin(self) -> list[Any]:
        return []

    def change(self, contents: list[Any], element: SideElement[Any, Any]) -> None:
        if not element.is_withdrawn:
            contents[:] = [element.value]
        elif contents and is_same(contents[0], element.value):
            contents.clear()

    def is_there(self, contents: list[Any]) -> bool:
        return bool(contents or self.default)

    def value(self, contents: list[Any]) -> object:
        for value in (*contents, *self.default):
            return value
        raise UnsupportedOperationError(
            "a side input has no element in the window of an element, and no default",
            given=f"{self.describe()}, at {self.location}",
            expected="an element of the side input in each window that the main stream has",
            hint="as_singleton(stream, default=None)",
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DictView(SideView):
    """The newest value of each key in a window."""

    call: ClassVar[str] = "as_dict"

    def begin(self) -> dict[Any, tuple[Any, Any]]:
        return {}  # keys and values, by what stands for all keys that are one

    def change(self, contents: dict[Any, tuple[Any, Any]], element: SideElement[Any, Any]) -> None:
        stored = as_stored(element.key)
        if not element.is_withdrawn:
            contents[stored] = element.key, element.value
        elif stored in contents and is_same(contents[stored][1], element.value):
            del contents[stored]

    def value(self, contents: dict[Any, tuple[Any, Any]]) -> Mapping[Any, Any]:
        return ViewMapping(contents)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListView(SideView):
    """All elements of a window, in order of arrival."""

    call: ClassVar[str] = "as_list"

    def begin(self) -> list[Any]:
        return []

    def change(self, contents: list[Any], element: SideElement[Any, Any]) -> None:
        if not element.is_withdrawn:
            contents.append(element.value)
            return
        place = next((place for place, each in enumerate(contents) if is_same(each, element.value)), None)
        if place is not None:
            del contents[place]

    def value(self, contents: list[Any]) -> tuple[Any, ...]:
        return tuple(contents)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideInputNode(BroadcastInputNode):
    """Gives each element the values of views; its results are tuples of an element and these values.

    Attributes:
        views: The views; elements of the broadcast stream name them by their numbers.
        allowed_lateness: How long views are kept after the end of their window, in milliseconds, if not for longer.
        late_tag: That of the side output for elements whose views are gone; None: they are counted and dropped.
    """

    kind: ClassVar[str] = "side_input"

    views: tuple[SideView, ...]
    allowed_lateness: int = 0
    late_tag: OutputTag[Any] | None = None

    @property
    def has_timestamps(self) -> bool:
        return self.input.has_timestamps

    @property
    def unmarked_types(self) -> tuple[object | None, ...]:
        return (self.input.element_type,)

    @property
    def made_of(self) -> tuple[Node, ...]:
        return (self.input,)

    def passed_aside(self, tag: OutputTag[Any]) -> tuple[Node, ...]:
        return (self.input,) if tag == self.late_tag else ()

    @property
    def stamps_early(self) -> bool:
        return self.has_timestamps

    def stamps_early_in(self, node: Node) -> bool:
        if not self.stamps_early or any(view.windows.assigner is None for view in self.views):
            return self.stamps_early
        # An element comes out before the watermark of steps downstream passes the window for which it has waited.
        of_node = {repr(each) for each in node.windows_in_time}
        return not of_node or len(of_node | {repr(each) for each in self.windows_in_time}) > 1

    @property
    def windows_in_time(self) -> tuple[WindowAssigner[Any, Any], ...]:
        return tuple(view.windows.assigner for view in self.views if view.windows.assigner is not None)

    @property
    def lateness(self) -> int:
        return self.allowed_lateness

    @property
    def drops_late(self) -> bool:
        return bool(self.windows_in_time) and self.late_tag is None

    @property
    def fate_of_late(self) -> str | None:
        return fate_with(self.late_tag) if self.windows_in_time else None

    @property
    def settings_of_state(self) -> str | None:
        return "; ".join(view.describe() for view in self.views)

    @property
    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        return () if self.late_tag is None else (self.late_tag,)

    def late_type(self, tag: OutputTag[Any]) -> object | None:
        return self.input.element_type if tag == self.late_tag else None

    def describe(self, words: Words = NAMES) -> str:
        settings = [view.describe() for view in self.views]
        if self.allowed_lateness:
            settings.append(f"allowed lateness {duration_text(self.allowed_lateness)}")
        if self.late_tag is not None:
            settings.append(f"late to {self.late_tag.name!r}")
        return ", ".join(settings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ElementNode(MapNode):
    """Takes the elements that a filter has kept from the values of views."""

    @property
    def aside_step(self) -> Node:
        return self.input
