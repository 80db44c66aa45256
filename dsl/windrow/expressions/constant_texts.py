"""Writes constants, sets and dicts as texts for plans, errors and checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

# Any in this module: items of every type.

Scalar: TypeAlias = "bool | int | float | str | None"

_LONGEST: Final = 200  # characters of a text; that of a tree whose parts are used twice would double with each
_LONGEST_CONSTANT: Final = 40
_LONGEST_INT: Final = 128  # bits; longer ones take time to write, and Python refuses the longest
_MOST_SORTED: Final = 10_000


def shortened_text(text: str, longest: int = _LONGEST) -> str:
    """A text, or its beginning and three dots."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def constant_text(value: Scalar) -> str:
    """The text of a constant, shortened."""
    if type(value) is int and value.bit_length() > _LONGEST_INT:
        return f"an int of {value.bit_length()} bits"
    # A slice: the text of a long one would be made for nothing.
    shown = value[: _LONGEST_CONSTANT + 1] if type(value) is str else value
    return shortened_text(repr(shown), _LONGEST_CONSTANT)


def _item_texts(values: Collection[Any]) -> list[str]:
    items = values.items() if isinstance(values, Mapping) else None
    return sorted(map(repr, values) if items is None else (f"{key!r}: {value!r}" for key, value in items))


def collection_text(values: Collection[Any]) -> str:
    """The text of a set or a dict that stands in code, shortened."""
    if len(values) > _MOST_SORTED:
        return f"{{... {len(values)} in all}}"
    shown = [shortened_text(text, _LONGEST_CONSTANT) for text in _item_texts(values)]
    if len(shown) <= 4:
        return f"{{{', '.join(shown)}}}"
    return f"{{{', '.join(shown[:3])}, ... {len(shown)} in all}}"


def collection_digest(values: Collection[Any]) -> str:
    """Returns a digest of a set or a dict of constants, which is the same for equal ones alone."""
    return hashlib.sha256(repr(_item_texts(values)).encode("utf-8", "surrogatepass")).hexdigest()
