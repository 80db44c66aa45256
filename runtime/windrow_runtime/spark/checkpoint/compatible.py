"""Whether a plan can read the state that another one stored: what changed, and what of it does no harm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windrow_runtime.spark.checkpoint.plan_shape import Shape

__all__ = ["merged", "step_changes", "type_text"]

# Any in this module: what JSON holds.
_TYPES = ("key type", "record type", "accumulator type")


def step_changes(before: Shape, now: Shape) -> Iterator[str]:
    """What keeps a step from reading the state that it stored as ``before``; see :mod:`plan_shape` for both.

    A field that is new in a record, and has a default, does no harm: stored records get the default. So does state that
    is new or gone in a function. What is not known (None) is not compared.
    """
    for part in dict.fromkeys((*before, *now)):
        old, new = before.get(part), now.get(part)
        if part in _TYPES:
            yield from type_changes(part, old, new, grows=part != "key type")
        elif part == "state":
            yield from _state_changes(old or {}, new or {})
        elif part == "evictor":
            if old != new:
                yield _change(part, "none" if old is None else "one", "none" if new is None else "one")
        elif old is not None and new is not None and _compared(old) != _compared(new):
            yield _change(part, _text(part, old), _text(part, new))


def _compared(value: Any) -> Any:
    """Without what is for readers alone."""
    if isinstance(value, Mapping):
        return {key: _compared(inner) for key, inner in value.items() if key != "text"}
    return value


def _text(part: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value["text"])
    return f"{value} ms" if part == "allowed lateness" else str(value)


def _change(part: str, old: str, new: str) -> str:
    return f"{part} was {old} and is {new}"


def _state_changes(before: Shape, now: Shape) -> Iterator[str]:
    for name, old in before.items():
        new = now.get(name)
        if new is None:
            continue
        if old["kind"] != new["kind"]:
            yield _change(f"state {name!r}", f"{old['kind']} state", f"{new['kind']} state")
        elif len(old["types"]) == 2:
            yield from type_changes(f"key of state {name!r}", old["types"][0], new["types"][0], grows=False)
            yield from type_changes(f"value of state {name!r}", old["types"][1], new["types"][1])
        else:
            yield from type_changes(f"state {name!r}", old["types"][0], new["types"][0])


def type_changes(path: str, before: Any, now: Any, *, grows: bool = True) -> Iterator[str]:
    """What keeps values of type ``before`` from being read as ``now``.

    Args:
        path: Names the type in the answer.
        before: The type with which they were stored, as :func:`~plan_shape.type_shape` gives it.
        now: The type of today.
        grows: Whether a record may have new fields with a default. A key may not: it would be another key.
    """
    if before is None or now is None or before == now:
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping) and before["nullable"] == now["nullable"]:
        if "record" in before and before["record"] == now.get("record"):
            yield from _field_changes(path, before, now, grows=grows)
            return
        parts, others = before.get("parts", ()), now.get("parts", ())
        if parts and before["container"] == now.get("container") and len(parts) == len(others):
            hashed = before["container"] in {"dict", "set", "frozenset"}
            for number, (old, new) in enumerate(zip(parts, others, strict=True)):
                # The first part of a dict is its key.
                part_grows = grows and not (hashed and number == 0)
                yield from type_changes(f"{path}[{number}]", old, new, grows=part_grows)
            return
    yield _change(path, type_text(before), type_text(now))


def _field_changes(path: str, before: Any, now: Any, *, grows: bool) -> Iterator[str]:
    # A class whose constructor does more than set its fields is stored as a whole.
    name = path if ": " in path else f"{path}: {before['record']}"
    for field, old in before["fields"].items():
        new = now["fields"].get(field)
        if new is None:
            yield f"{name}.{field} was {type_text(old['type'])} and is gone"
        else:
            yield from type_changes(f"{name}.{field}", old["type"], new["type"], grows=grows)
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


def type_text(shape: Any) -> str:
    """A type as its reader would write it."""
    if not isinstance(shape, Mapping):
        return "unknown" if shape is None else str(shape)
    if "record" in shape:
        text = str(shape["record"])
    elif shape["container"] == "tuple[...]":
        text = f"tuple[{type_text(shape['parts'][0])}, ...]"
    else:
        text = f"{shape['container']}[{', '.join(map(type_text, shape['parts']))}]"
    return f"{text} | None" if shape["nullable"] else text


def merged(before: Shape, now: Shape) -> Shape:
    """What to store for a step whose changes do no harm: as it is now, with what is known from before."""
    return {part: before.get(part) if value is None else value for part, value in now.items()} | {
        "state": {**(before.get("state") or {}), **(now.get("state") or {})}
    }
