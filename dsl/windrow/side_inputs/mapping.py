"""Defines the mapping that functions get of a side input: read-only, and pickled where an element keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from windrow.rows.equality import as_stored, is_same

K = TypeVar("K")
V = TypeVar("V")


class ViewMapping(Mapping[K, V], Generic[K, V]):
    """A read-only mapping in which all NaNs are one key, and two hours that a clock shows alike are two.

    It equals other mappings, such as dictionaries, with the same items.
    """

    __slots__ = ("_items",)

    # Any: what stands for all keys that are one.
    def __init__(self, items: Mapping[Any, tuple[K, V]]) -> None:
        """Make a mapping of keys and values, by what is stored for all keys that are one."""
        self._items: dict[Any, tuple[K, V]] = dict(items)

    def __getitem__(self, key: K) -> V:
        try:
            return self._items[as_stored(key)][1]
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return len(self) == len(other) and all(
            key in self and is_same(self[key], value) for key, value in other.items()
        )

    __hash__ = None  # type: ignore[assignment]  # as of all mappings that are compared by their items

    def __repr__(self) -> str:
        return f"ViewMapping({dict(self._items.values())!r})"
