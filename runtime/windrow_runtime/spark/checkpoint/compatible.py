"""Compares the plan of a run with the stored one, and finds changes that keep it from reading the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windrow_runtime.spark.checkpoint.plan_shape import Shape

# Any in this module: what JSON holds.
_TYPES = ("key type", "record type", "accumulator type")
_HASHED = ("dict", "set", "frozenset")


def step_changes(before: Shape, now: Shape) -> Iterator[str]:
    """Yields the changes that keep a step from reading the state that it stored as ``before``; see :mod:`plan_shape`.

    A field that is new in a record, and has a default, does no harm: stored records get the default. So does state that
    is new or gone in a function. Unknown parts (None) are not compared.
    """
    for part in dict.fromkeys((*before, *now)):
        old, new = before.get(part), now.get(part)
        if part in _TYPES:
            yield from _type_changes(part, old, new, grows=part != "key type")
        elif part == "state":
            yield from _state_changes(old or {}, new or {})
        elif part == "evictor":
            if old != new:
                yield _change(part, "none" if old is None else "one", "none" if new is None else "one")
        elif old is not None and new is not None and _compared(old) != _compared(new):
            unit = " ms" if part == "allowed lateness" else ""
            yield _change(part, f"{_text(old)}{unit}", f"{_text(new)}{unit}")


def merged(before: Shape, now: Shape) -> Shape:
    """Returns the shape to store for a step whose changes do no harm: the new one, with unknown parts from before."""
    return {part: before.get(part) if value is None else value for part, value in now.items()} | {
        "state": {**(before.get("state") or {}), **(now.get("state") or {})}
    }


def _compared(value: Any) -> Any:
    """Returns a part of a plan without the text for people."""
    if isinstance(value, Mapping):
        return {key: _compared(inner) for key, inner in value.items() if key != "text"}
    return value


def _text(value: Any) -> str:
    return str(value["text"]) if isinstance(value, Mapping) else str(value)


def _change(part: str, old: str, new: str) -> str:
    return f"{part} was {old} and is {new}"


def _state_changes(before: Shape, now: Shape) -> Iterator[str]:
    for name, old in before.items():
        new: Any = now.get(name, old)
        if old["kind"] != new["kind"]:
            yield _change(f"state {name!r}", f"{old['kind']} state", f"{new['kind']} state")
        elif len(old["types"]) == 2:
            yield from _type_changes(f"key of state {name!r}", old["types"][0], new["types"][0], grows=False)
            yield from _type_changes(f"value of state {name!r}", old["types"][1], new["types"][1])
        else:
            yield from _type_changes(f"state {name!r}", old["types"][0], new["types"][0])


def _type_changes(path: str, before: Any, now: Any, *, grows: bool = True) -> Iterator[str]:
    """Yields the changes that keep values of type ``before`` from being read as ``now``.

    Args:
        path: Names the type in the descriptions of changes.
        before: The type with which they were stored, as :func:`~plan_shape.type_shape` gives it.
        now: The type in the plan of this run.
        grows: Whether a record may have new fields with a default. A key may not: it would be another key.
    """
    if before is None or now is None or before == now:
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping) and before["class"] == now["class"]:
        if "fields" in before and "fields" in now:
            yield from _field_changes(path, before, now, grows=grows)
            return
        parts, others = before.get("parts", ()), now.get("parts", ())
        if len(parts) == len(others) > 0:
            for number, (old, new) in enumerate(zip(parts, others, strict=True)):
                # The first part of a dict is its key.
                is_key = number == 0 and before["class"].startswith(_HASHED)
                yield from _type_changes(f"{path}[{number}]", old, new, grows=grows and not is_key)
            return
    yield _change(path, _text(before), _text(now))


def _field_changes(path: str, before: Any, now: Any, *, grows: bool) -> Iterator[str]:
    # A class whose constructor does more than set its fields is stored as a whole.
    name = path if ": " in path else f"{path}: {before['class'].removesuffix(' | None')}"
    for field, old in before["fields"].items():
        new = now["fields"].get(field)
        if new is None:
            yield f"{name}.{field} was {_text(old['type'])} and is gone"
        else:
            yield from _type_changes(f"{name}.{field}", old["type"], new["type"], grows=grows)
    if before["by field"] and not now["by field"]:
        yield f"{name} was stored by field, and now its constructor does more than set them"
    for field, new in now["fields"].items():
        if field in before["fields"]:
            continue
        if not before["by field"]:
            yield f"{name}.{field} is new, and the class is stored as a whole"
        elif not grows:
            yield f"{name}.{field} is new, and keys with another field are other keys"
        elif not new["default"]:
            yield f"{name}.{field} is new and has no default, and no factory such as list"
