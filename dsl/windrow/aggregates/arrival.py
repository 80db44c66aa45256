"""Defines aggregates of elements in their order of arrival: first, last, all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final, overload

from windrow.aggregates.declared import Declaration, DeclaredAggregate, check_selector
from windrow.aggregates.selectors import gives_none, selected_type
from windrow.plan.fitting import holds_none

T = TypeVar("T")
V = TypeVar("V")

# Any: what selectors give, whose type is the aggregate's parameter and not the accumulator's.
One = tuple[Any, ...]
"""A value, which may be None, or nothing."""


@final
@dataclass(frozen=True, repr=False)
class Edge(DeclaredAggregate[T, One, V, None], Generic[T, V]):
    """See :func:`first` and :func:`last`."""

    selector: Callable[[T], V] | None
    newest: bool
    ignore_nulls: bool

    def create_accumulator(self) -> One:
        return ()

    def add(self, value: T, accumulator: One) -> One:
        if accumulator and not self.newest:
            return accumulator
        selected = value if self.selector is None else self.selector(value)
        return accumulator if selected is None and self.ignore_nulls else (selected,)

    def get_result(self, accumulator: One) -> V | None:
        return accumulator[0] if accumulator else None

    def merge(self, a: One, b: One) -> One:
        return (b or a) if self.newest else (a or b)

    @property
    def declaration(self) -> Declaration:
        selectors = () if self.selector is None else (("value", self.selector),)
        parameters = (("ignore_nulls", True),) if self.ignore_nulls else ()
        return Declaration("last" if self.newest else "first", selectors, parameters)

    def gives_none(self, element_type: object | None, *, may_be_empty: bool = False) -> bool | None:
        if may_be_empty:
            return True
        if self.selector is None:
            return None if element_type is None else holds_none(element_type)
        return gives_none(self.selector, element_type)

    def _value_type(self, element_type: object | None) -> object | None:
        return element_type if self.selector is None else selected_type(self.selector, element_type)


@final
@dataclass(frozen=True, repr=False)
class CollectList(DeclaredAggregate[T, list[Any], list[V], list[V]], Generic[T, V]):
    """See :func:`collect_list`."""

    # Any in the accumulator: combine and into take every accumulator, and V would be solved by that as Any.
    selector: Callable[[T], V | None] | None

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: T, accumulator: list[Any]) -> list[Any]:
        selected = value if self.selector is None else self.selector(value)
        if selected is not None:
            accumulator.append(selected)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[V]:
        return list(accumulator)

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [*a, *b]

    @property
    def declaration(self) -> Declaration:
        return Declaration("collect_list", () if self.selector is None else (("value", self.selector),))

    def _value_type(self, element_type: object | None) -> object | None:
        type_form = element_type if self.selector is None else selected_type(self.selector, element_type)
        items: object | None = None if type_form is None else list.__class_getitem__(type_form)
        return items


@overload
def first(*, ignore_nulls: bool = False) -> Edge[T, T]: ...
@overload
def first(selector: Callable[[T], V], *, ignore_nulls: bool = False) -> Edge[T, V]: ...
def first(selector: Callable[[T], V] | None = None, *, ignore_nulls: bool = False) -> Edge[T, T] | Edge[T, V]:
    """The element that arrived first, or what ``selector`` gives for it; None without elements.

    Where windows merge, the elements of the window that was there first count as the earlier ones.

    Args:
        selector: What to take from the element.
        ignore_nulls: Whether elements for which it gives None are passed over.
    """
    if selector is None:
        return Edge[T, T](None, newest=False, ignore_nulls=ignore_nulls)
    check_selector(selector, "first")
    return Edge(selector, newest=False, ignore_nulls=ignore_nulls)


@overload
def last(*, ignore_nulls: bool = False) -> Edge[T, T]: ...
@overload
def last(selector: Callable[[T], V], *, ignore_nulls: bool = False) -> Edge[T, V]: ...
def last(selector: Callable[[T], V] | None = None, *, ignore_nulls: bool = False) -> Edge[T, T] | Edge[T, V]:
    """The element that arrived last, or what ``selector`` gives for it; see :func:`first`.

    Args:
        selector: What to take from the element; None: the element itself.
        ignore_nulls: Whether elements for which it gives None are passed over.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    if selector is None:
        return Edge[T, T](None, newest=True, ignore_nulls=ignore_nulls)
    check_selector(selector, "last")
    return Edge(selector, newest=True, ignore_nulls=ignore_nulls)


@overload
def collect_list() -> CollectList[T, T]: ...
@overload
def collect_list(selector: Callable[[T], V | None]) -> CollectList[T, V]: ...
def collect_list(selector: Callable[[T], V | None] | None = None) -> CollectList[T, T] | CollectList[T, V]:
    """The elements in order of arrival, or what ``selector`` gives for them; an empty list without elements.

    None is left out. Where windows merge, the contents of the window that was there first come first. The window keeps
    all that it collects.

    Args:
        selector: Takes a value from an element, or None; without it, the elements themselves are collected.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    if selector is None:
        return CollectList[T, T](None)
    check_selector(selector, "collect_list")
    return CollectList(selector)
