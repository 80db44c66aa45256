"""Refuses values of Avro that take all memory or stack: billions of items without bytes, records nested too deep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from windrow_kafka.registry.avro_schema import AvroType
from windrow_runtime.codecs.malformed import UnfitError

_MOST_EMPTY: Final = 1 << 20
"""How many items of arrays a value may have that take no bytes. Any other item takes at least one."""

_DEEPEST: Final = 200
"""How many records, arrays and maps may be within each other in a recursive schema; fastavro's stack takes some 300."""

_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


def avro_limits(root: AvroType, path: str) -> Callable[[bytes], None] | None:
    """Returns a function that checks the bytes of a value after the first five; None: no value needs a check."""
    reached = _reached(root)
    empty = {each for each in reached if _is_empty(each, frozenset())}
    has_empty_items = any(each.kind == "array" and each.parts[0] in empty for each in reached)
    if not has_empty_items and not any(_contains_itself(each) for each in reached if each.kind == "record"):
        return None
    return lambda value: _Walk(value, empty, path).check(root)


def _inner(avro_type: AvroType) -> list[AvroType]:
    return [*avro_type.parts, *(part for _, part in avro_type.fields)]


def _reached(root: AvroType) -> set[AvroType]:
    reached: set[AvroType] = set()
    unread = [root]
    while unread:
        avro_type = unread.pop()
        if avro_type not in reached:
            reached.add(avro_type)
            unread += _inner(avro_type)
    return reached


def _contains_itself(record: AvroType) -> bool:
    return any(record in _reached(part) for part in _inner(record))


def _is_empty(avro_type: AvroType, within: frozenset[AvroType]) -> bool:
    """Returns whether each value of a type takes no bytes; a record within itself takes more than there are."""
    if avro_type.kind == "record":
        inner = within | {avro_type}
        return avro_type not in within and all(_is_empty(part, inner) for _, part in avro_type.fields)
    return avro_type.kind == "null" or (avro_type.kind == "fixed" and avro_type.size == 0)


class _Walk:
    """Walks over the bytes of one value, without its own recursion, and keeps nothing of them."""

    def __init__(self, value: bytes, empty: set[AvroType], path: str) -> None:
        self._value, self._empty, self._path = value, empty, path
        self._place = 5
        self._empty_items = 0

    def check(self, root: AvroType) -> None:
        waiting = [(root, 1, 0)]  # a type, how many of it come here, and in how many others they are
        while waiting:
            avro_type, count, depth = waiting.pop()
            if depth > _DEEPEST:
                raise self._refused(f"more than {_DEEPEST} records, arrays and maps are within each other")
            if count > 1:
                waiting.append((avro_type, count - 1, depth))
            waiting += self._step(avro_type, depth)

    def _step(self, avro_type: AvroType, depth: int) -> list[tuple[AvroType, int, int]]:
        """Passes over a scalar, or over what says how much comes in another type; returns what comes."""
        kind = avro_type.kind
        if kind == "record":
            return [(part, 1, depth + 1) for _, part in reversed(avro_type.fields)]
        if kind == "union":
            number = self._number()
            if not 0 <= number < len(avro_type.parts):
                raise self._refused(f"a union has no branch {number}")
            return [(avro_type.parts[number], 1, depth)]
        if kind in ("array", "map"):
            item = avro_type.parts[0]
            if kind == "array":
                items, below = self._items(item), depth + 1
            else:
                items, below = self._block(), depth
                item = AvroType("record", fields=[("key", AvroType("string")), ("value", item)])
            return [(avro_type, 1, depth), (item, items, below)] if items else []
        if kind in ("int", "long", "enum"):
            self._number()
        else:
            self._skip(self._number() if kind in ("bytes", "string") else _SIZES.get(kind, avro_type.size))
        return []

    def _items(self, item: AvroType) -> int:
        """Returns how many items are in the next block of an array; one stands for all that take no bytes."""
        items = self._block()
        if item not in self._empty:
            return items
        self._empty_items += items
        if self._empty_items > _MOST_EMPTY:
            raise self._refused(f"arrays have {self._empty_items} items without bytes, more than {_MOST_EMPTY}")
        return min(items, 1)

    def _block(self) -> int:
        items = self._number()
        if items < 0:
            self._number()  # the size of the block
        return abs(items)

    def _number(self) -> int:
        number = shift = 0
        while True:
            if self._place >= len(self._value) or shift > 63:
                raise self._refused("it is cut off within a number")
            byte = self._value[self._place]
            number |= (byte & 0x7F) << shift
            self._place, shift = self._place + 1, shift + 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)

    def _skip(self, size: int) -> None:
        if not 0 <= size <= len(self._value) - self._place:
            raise self._refused(f"{size} bytes are due where {len(self._value) - self._place} are left")
        self._place += size

    def _refused(self, reason: str) -> UnfitError:
        return UnfitError(self._path, reason)
