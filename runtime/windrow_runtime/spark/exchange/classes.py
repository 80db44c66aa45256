"""Gives the user's classes names, by which processes of a query refer to them in values that they exchange.

Pickle names a class by its module. That fails in a Spark worker for the classes of the user's main program, because a
worker's ``__main__`` is Spark's own, and for classes made inside functions. Spark ships both kinds by value with the
functions that use them; so each process that gets them registers them here, and from then on values of these classes
travel under the class's name. Classes that nobody registered go by value, which works and is slow.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable
from functools import lru_cache
from inspect import get_annotations
from typing import Any, get_type_hints

from pyspark import cloudpickle

from windrow_runtime.codecs.records import UserClass
from windrow_runtime.spark.daemon import DAEMON_MODULE

_PROTOCOL = 5
_MAIN = "__main__"
# Main modules of the daemons that workers are copies of, and of the processes that Spark runs beside the driver.
_WORKER_PROGRAMS = ("pyspark.", DAEMON_MODULE)

_registered: dict[str, type[Any]] = {}  # Any: classes of the user's


def register_classes(classes: Iterable[UserClass]) -> None:
    """Makes classes known by their name in this process, on the driver and in workers alike.

    In a worker, classes of the main program are also put where pickle looks for them.
    """
    main = sys.modules[_MAIN]
    # A worker outlives a query, and a notebook defines a class of the same name again.
    in_worker = main.__spec__ is not None and main.__spec__.name.startswith(_WORKER_PROGRAMS)
    for user_class in classes:
        kind = user_class.kind
        # Over Spark Connect a class that was made inside a function arrives without the function's name.
        if kind.__qualname__ != user_class.qualified:
            kind.__qualname__ = user_class.qualified
        name = _full_name(kind)
        # This is done each time: a class that arrives again by value has its unresolved annotations again.
        _resolve_annotations(user_class)
        if _registered.get(name) is kind and getattr(main, kind.__qualname__, kind) is kind:
            continue
        _registered[name] = kind
        _class_name.cache_clear()
        find_class.cache_clear()
        if kind.__module__ == _MAIN and "." not in kind.__qualname__ and in_worker:
            setattr(main, kind.__qualname__, kind)


def _resolve_annotations(user_class: UserClass) -> None:
    kind = user_class.kind
    try:
        get_type_hints(kind)
    except NameError:
        own = get_annotations(kind)
        kind.__annotations__ = {name: user_class.hints.get(name, hint) for name, hint in own.items()}


def pickle_any(value: object) -> bytes:
    """Pickles a value; by value where pickle cannot name a part (a lambda, a class that is not registered)."""
    try:
        return pickle.dumps(value, _PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        by_value: bytes = cloudpickle.dumps(value, _PROTOCOL)  # type: ignore[no-untyped-call]  # Spark's copy has no types
        return by_value


def _full_name(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def class_name(kind: type[Any]) -> bytes:
    """Returns the bytes that stand for a class, for :func:`find_class` in this process or another."""
    return _class_name(kind)  # type: ignore[arg-type]  # mypy takes a class for its instances here: classes are hashable


@lru_cache(maxsize=1024)
def _class_name(kind: type[Any]) -> bytes:
    name = _full_name(kind)
    return b"@" + name.encode() if _registered.get(name) is kind else pickle_any(kind)


@lru_cache(maxsize=1024)
def find_class(name: bytes) -> type[Any]:
    """Returns the class that :func:`class_name` named."""
    kind: type[Any] = _registered[name[1:].decode()] if name.startswith(b"@") else pickle.loads(name)
    return kind
