"""Keeps the values of outer variables that a function reads while it is traced, and the constants of its code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Final
from weakref import ref

from windrow.expressions.node import Expression
from windrow.expressions.recorder import SCALARS, Budget
from windrow.expressions.tree import Constant, Item

# Any in this module: values of variables of every type.

_MOST_VALUES: Final = 10_000  # that a function computes on all ways through its decisions
_ITSELF: Final = object()


class Surroundings:
    """The values of the global and enclosing variables that a function, and the functions that it calls, read.

    Attributes:
        budget: Counts what the function computes.
        formats: Whether it may have a text format a value of the element.
        has_texts: Whether there is any text in its code and its variables.
        has_tuples: Whether it may compare tuples or lists, which takes one object for equal to itself.
    """

    def __init__(self, function: FunctionType) -> None:
        self.budget = Budget(_MOST_VALUES)
        self.formats = self.has_texts = self.has_tuples = False
        self._function = ref(function)
        self._readings: list[tuple[FunctionType | None, Callable[[Any], object], object]] = []
        self._names: dict[bytes, str] = {}
        self._literals: set[bytes] = set()

    def read(self, owner: FunctionType, read: Callable[[FunctionType], object]) -> Any:
        """Reads a value of a variable around a function, and remembers it."""
        value = read(owner)
        function = self._function()
        # Without a reference to the function: what is kept for it would keep it.
        self._readings.append((None if owner is function else owner, read, _ITSELF if value is function else value))
        return value

    def note(self, read: Callable[[], object], value: object, name: str | None) -> None:
        """Remembers a value that was read in the set or the dict of a variable."""
        self._readings.append((None, lambda _: read(), value))
        if name is not None:
            self.name(value, name)

    def name(self, value: object, name: str) -> None:
        """Remembers the name of a value, for plans and errors."""
        if type(value) is str:
            self.has_texts = True
        if type(value) in SCALARS:
            # Any: one of the scalars.
            scalar: Any = value
            self._names.setdefault(Constant(scalar).identity, name)

    def add_code(self, constants: Iterable[object]) -> None:
        """Remembers the constants of the code of a function."""
        for each in constants:
            if isinstance(each, (tuple, frozenset)):
                self.add_code(each)
            elif type(each) in SCALARS:
                # Any: one of the scalars.
                scalar: Any = each
                self._literals.add(Constant(scalar).identity)

    def is_current(self, function: FunctionType) -> bool:
        """Returns whether all variables still have the values that were read."""
        return all(
            read(function if owner is None else owner) is (function if value is _ITSELF else value)
            for owner, read, value in self._readings
        )

    def named(self, root: Expression) -> Expression:
        """Returns a tree that shows the names of variables in place of their values."""
        changed: dict[Expression, Expression] = {}
        for part in root.parts():
            node = part.with_children(changed)
            if isinstance(node, Constant):
                node = Constant(node.value, self._text(node.value))
            elif isinstance(node, Item):
                node = Item(node.of, node.key, self._text(node.key))
            changed[part] = node
        return changed[root]

    def _text(self, value: Any) -> str | None:
        """The text that hides a constant; None: its value may be shown, since the code contains it."""
        identity = Constant(value).identity
        if value is None or type(value) is bool or identity in self._literals or not self._names:
            return None
        return self._names.get(identity, f"<{type(value).__name__}>")
