"""Defines the mapping that functions get of a side input: read-only, and pickled where an element keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from windrow.rows.equality import as_key, is_same

K = TypeVar("K")
V = TypeVar("V")


class ViewMapping(Mapping[K, V], Generic[K, V]):
    """A read-only mapping in which all NaNs are one key, and two hours that a clock shows alike are two.

    It equals other mappings, such as dictionaries, with the same items.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[tuple[K, V]]) -> None:
        """Make a mapping of keys and values."""
        # Any: what stands for all keys that are one.
        self._items: dict[Any, tuple[K, V]] = {as_key(item[0]): item for item in items}

    def __getitem__(self, key: K) -> V:
        try:
            return self._items[as_key(key)][1]
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

    def __reduce__(self) -> tuple[type[ViewMapping[Any, Any]], tuple[list[tuple[K, V]]]]:
        return ViewMapping, (list(self._items.values()),)

    def __repr__(self) -> str:
        return f"ViewMapping({dict(self._items.values())!r})"
