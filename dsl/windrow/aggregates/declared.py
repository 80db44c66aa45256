"""Declared aggregates are aggregate functions that engines can compute themselves: a declaration says what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from windrow.aggregates.selectors import selector_text
from windrow.calls.attributes import attribute_of
from windrow.errors import require_callable
from windrow.functions.aggregate import AggregateFunction
from windrow.functions.rich import RichFunction, RuntimeContext
from windrow.plan.location import caller_location
from windrow.plan.types import base_argument

# Any in this module: selectors of elements of every type.

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")
E = TypeVar("E", default=Any)
K = TypeVar("K", default=object)


@dataclass(frozen=True, slots=True)
class Declaration:
    """Describes what an aggregate computes, for engines that can compute it themselves, and for ``explain()``.

    Attributes:
        kind: The name of the function that made it, such as ``mean``; ``function`` for an aggregate function of
            yours inside a combination.
        selectors: What it takes from an element, by role: ``value`` is aggregated, ``by`` is compared. Without
            ``value`` it is the element itself. :func:`windrow.aggregates.recognise` says which fields these read.
        parameters: Its other parameters.
        members: The aggregates that it combines, with the fields that they fill; the name is empty where they go by
            position.
        target: What a combination makes from the results; None: a tuple.
    """

    kind: str
    selectors: tuple[tuple[str, Callable[[Any], Any]], ...] = ()
    parameters: tuple[tuple[str, object], ...] = ()
    members: tuple[tuple[str, Declaration], ...] = ()
    target: Callable[..., Any] | None = None

    def describe(self) -> str:
        """The call that made it, such as ``into(Climate, low=min(.celsius), n=count())``."""
        arguments: list[str] = []
        if self.target is not None:
            arguments.append(attribute_of(self.target, "__name__", type(self.target).__name__))
        for name, member in self.members:
            arguments.append(f"{name}={member.describe()}" if name else member.describe())
        for role, selector in self.selectors:
            text = selector_text(selector)
            arguments.append(f"{role}={text}" if arguments else text)
        for name, value in self.parameters:
            arguments.append(f"{name}={value.__name__ if isinstance(value, type) else repr(value)}")
        return f"{self.kind}({', '.join(arguments)})"


class DeclaredAggregate(AggregateFunction[T, A, R, E, K], ABC, Generic[T, A, R, E, K]):
    """An aggregate function that says what it computes.

    It runs everywhere as any other aggregate function. ``merge`` changes neither of its arguments, but for
    the sets of ``count_distinct`` and ``collect_set``, which it makes one of.
    """

    @property
    @abstractmethod
    def declaration(self) -> Declaration:
        """The description of what it computes."""

    def gives_none(self, element_type: object | None, *, may_be_empty: bool = False) -> bool | None:
        """Whether the result may be None; None where annotations do not say.

        Args:
            element_type: The type of the elements, where it is known.
            may_be_empty: Whether an evictor may remove all elements of a window.
        """
        return False

    def result_type(
        self, element_type: object | None, *, key_type: object | None = None, may_be_empty: bool = False
    ) -> object | None:
        """The type of the result; None where annotations do not say.

        Args:
            element_type: The type of the elements, where it is known.
            key_type: The type of the key, where it is known.
            may_be_empty: Whether an evictor may remove all elements of a window.
        """
        type_form = self._value_type(element_type)
        return type_form if self.gives_none(element_type, may_be_empty=may_be_empty) is False else optional(type_form)

    def _value_type(self, element_type: object | None) -> object | None:
        """The type of a result that is not None."""
        return base_argument(self, AggregateFunction, 2)

    def describe(self) -> str:
        return self.declaration.describe()

    def __repr__(self) -> str:
        return self.describe()

    def open(self, runtime_context: RuntimeContext) -> None:
        for _, selector in self.declaration.selectors:
            if isinstance(selector, RichFunction):
                selector.open(runtime_context)

    def close(self) -> None:
        for _, selector in self.declaration.selectors:
            if isinstance(selector, RichFunction):
                selector.close()


def check_selector(selector: object, aggregate: str) -> None:
    """Refuse a selector that cannot be called.

    Raises:
        InvalidArgumentError: If it cannot.
    """
    expected = "a function of an element, such as lambda r: r.celsius"
    require_callable(selector, f"the selector of {aggregate}", expected, takes="element", where=caller_location())


def optional(type_form: object | None) -> object | None:
    """``X | None`` for ``X``; None where the type is not known."""
    if type_form is None:
        return None
    # Any: typing has no type for what can stand in a union.
    present: Any = type_form
    union: object = present | None
    return union
