"""Tags of side outputs."""

from __future__ import annotations

from typing import Generic, TypeVar, overload

from typing_extensions import TypeForm

from windrow.errors import InvalidArgumentError

__all__ = ["OutputTag"]

T = TypeVar("T")


class OutputTag(Generic[T]):
    """Names a side output and the type of its elements.

    Two tags with the same name are the same output.

    Args:
        name: The name, unique within a step.
        element_type: The type of the elements. Needed where the output goes to a sink with a schema and the plan
            cannot know the type otherwise.

    Raises:
        InvalidArgumentError: If the name is empty.

    Example:
        >>> late = OutputTag("late", int)
        >>> late
        OutputTag('late', int)
    """

    __slots__ = ("element_type", "name")

    @overload
    def __init__(self, name: str) -> None: ...
    @overload
    def __init__(self, name: str, element_type: TypeForm[T]) -> None: ...
    def __init__(self, name: str, element_type: object | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(
                "an output tag needs a name", given=name, expected="a non-empty string"
            )
        self.name = name
        self.element_type = element_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.name == self.name

    def __hash__(self) -> int:
        return hash((OutputTag, self.name))

    def __repr__(self) -> str:
        if self.element_type is None:
            return f"OutputTag({self.name!r})"
        kind = self.element_type
        return f"OutputTag({self.name!r}, {kind.__name__ if isinstance(kind, type) else kind})"
