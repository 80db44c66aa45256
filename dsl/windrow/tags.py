"""Tags of side outputs."""

from __future__ import annotations

from typing import Any, ForwardRef, Generic, TypeVar, get_args, overload

from typing_extensions import TypeForm

from windrow.errors import InvalidArgumentError

T = TypeVar("T")


class OutputTag(Generic[T]):
    """Names a side output and the type of its elements.

    Two tags with the same name are the same output.

    Args:
        name: The name, unique within a step.
        element_type: The type of the elements, as an alternative to ``OutputTag[Reading]("late")``. One of the two
            is needed where the output goes to a sink with a schema and the plan cannot know the type otherwise.

    Raises:
        InvalidArgumentError: If the name is empty.

    Example:
        >>> late = OutputTag("late", int)
        >>> late
        OutputTag('late', int)
    """

    # Python sets __orig_class__ after the constructor, if a subscript such as OutputTag[Reading] is called.
    __slots__ = ("__orig_class__", "_element_type", "name")

    @overload
    def __init__(self, name: str) -> None: ...
    @overload
    def __init__(self, name: str, element_type: TypeForm[T]) -> None: ...
    def __init__(self, name: str, element_type: object | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError("an output tag needs a name", given=name, expected="a non-empty string")
        self.name = name
        self._element_type = element_type

    @property
    def element_type(self) -> object | None:
        """The type of the elements, as the constructor or its subscript names it; None if neither does."""
        if self._element_type is not None:
            return self._element_type
        # Any: a type or None, as Python's typing module keeps it.
        subscripts: tuple[Any, ...] = get_args(getattr(self, "__orig_class__", None))
        types = [kind for kind in subscripts if kind is not Any and not isinstance(kind, (TypeVar, ForwardRef))]
        return types[0] if types else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.name == self.name

    def __hash__(self) -> int:
        return hash((OutputTag, self.name))

    def __repr__(self) -> str:
        type_form = self.element_type
        if type_form is None:
            return f"OutputTag({self.name!r})"
        return f"OutputTag({self.name!r}, {type_form.__name__ if isinstance(type_form, type) else type_form})"
