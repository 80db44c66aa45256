"""Registers the user's classes under names, by which exchanged values and pickled state refer to them.

Pickle names a class by its module. That fails in a Spark worker for the classes of the user's main program, because a
worker's ``__main__`` is Spark's own, and for classes made inside functions. Spark ships both by value with the
functions that use them; so each process that receives them registers them here, and from then on values of these
classes are exchanged under the class's name. Classes that are not registered are sent by value, which is slow. State is
pickled only if the plan has allowed it: ``Pipeline(..., allow_pickled_state=True)``.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import get_annotations
from typing import Any, get_type_hints

from pyspark import cloudpickle

from windrow.errors import UnsupportedOperationError
from windrow_runtime.codecs.records import UserClass
from windrow_spark.daemon import DAEMON_MODULE
from windrow_spark.storage.stored_classes import moved_classes, refused
from windrow_spark.storage.values import StateCodec

_PROTOCOL = 5
_MAIN = "__main__"
# Main modules of the daemons that fork workers, and of the processes that Spark runs beside the driver.
_WORKER_PROGRAMS = ("pyspark.", DAEMON_MODULE)

_registered: dict[str, type[Any]] = {}  # Any: classes of the user's
_of_plan: set[str] = set()  # the names of the plan whose task runs in this process


def register_classes(classes: Iterable[UserClass]) -> None:
    """Registers the classes of a plan by name in this process, the driver or a worker.

    In a worker, classes of the main program also become attributes of the main module, where pickle looks for them.
    A worker runs tasks of several plans, one after the other. Values are sent under the names of the newest plan alone,
    because the worker that reads them may know no other plan.
    """
    classes = tuple(classes)
    names = {_full_name(each) for each in classes}
    if names != _of_plan:
        _of_plan.clear()
        _of_plan.update(names)
        _class_name.cache_clear()
    main = sys.modules[_MAIN]
    # A worker outlives a query, and a notebook defines a class of the same name again.
    in_worker = main.__spec__ is not None and main.__spec__.name.startswith(_WORKER_PROGRAMS)
    for user_class in classes:
        class_ = user_class.class_
        # Over Spark Connect the `__qualname__` of a class made inside a function lacks the function's name.
        if class_.__qualname__ != user_class.qualified:
            class_.__qualname__ = user_class.qualified
        name = _full_name(user_class)
        # This is done each time: a class that arrives again by value has its unresolved annotations again.
        _resolve_annotations(user_class)
        if _registered.get(name) is class_ and getattr(main, class_.__qualname__, class_) is class_:
            continue
        _registered[name] = class_
        _class_name.cache_clear()
        find_class.cache_clear()
        if class_.__module__ == _MAIN and "." not in class_.__qualname__ and in_worker:
            setattr(main, class_.__qualname__, class_)


def _resolve_annotations(user_class: UserClass) -> None:
    class_ = user_class.class_
    try:
        get_type_hints(class_)
    except NameError:
        own = get_annotations(class_)
        class_.__annotations__ = {name: user_class.hints.get(name, hint) for name, hint in own.items()}


def pickle_any(value: object) -> bytes:
    """Pickles a value, with lambdas and other functions and classes that pickle cannot name by value."""
    try:
        return pickle.dumps(value, _PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        by_value: bytes = cloudpickle.dumps(value, _PROTOCOL)  # type: ignore[no-untyped-call]  # Spark's copy has no types
        return by_value


def _full_name(user_class: UserClass) -> str:
    return f"{user_class.class_.__module__}:{user_class.qualified}"


def class_name(class_: type[Any]) -> bytes:
    """Returns the bytes that stand for a class, for :func:`find_class` in this process or another."""
    return _class_name(class_)  # type: ignore[arg-type]  # mypy takes a class for its instances here: classes are hashable


@lru_cache(maxsize=1024)
def _class_name(class_: type[Any]) -> bytes:
    name = f"{class_.__module__}:{class_.__qualname__}"
    is_known = name in _of_plan and _registered.get(name) is class_
    return b"@" + name.encode() if is_known else pickle_any(class_)


@lru_cache(maxsize=1024)
def find_class(name: bytes) -> type[Any]:
    """Returns the class that :func:`class_name` named."""
    class_: type[Any] = _registered[name[1:].decode()] if name.startswith(b"@") else pickle.loads(name)
    return class_


# Any throughout this module: values and classes of the user's.


def state_codec(classes: Iterable[UserClass], *, allow_pickled: bool) -> StateCodec:
    """Returns the codec for the state of a plan that names these classes, and may allow to pickle values of others."""
    plan_classes = tuple(classes)
    return StateCodec(plan_classes, pickles=PlanPickle(plan_classes) if allow_pickled else None)


class PlanPickle:
    """Pickles values of any class.

    A class that the plan names is written by its name, and looked up in the plan when it is read: the main program is
    another module in other processes. Any other class of the main program is pickled by value.
    """

    def __init__(self, classes: Sequence[UserClass]) -> None:
        self._kinds = {f"{each.class_.__module__}:{each.qualified}": each.class_ for each in classes}
        self._names = {kind: name for name, kind in self._kinds.items()}
        self._moved = moved_classes(classes)

    def dumps(self, class_: type[Any], values: Sequence[Any]) -> bytes:
        """Returns values of a class as bytes; refuses values that cannot be pickled."""
        buffer = io.BytesIO()
        try:
            _Pickler(buffer, self._names).dump(list(values))  # type: ignore[no-untyped-call]  # Spark's copy has no types
        except Exception as error:  # pickle, and the methods of the user's class that it calls, may raise anything
            raise UnsupportedOperationError(
                "a value of the state cannot be stored",
                given=f"{class_.__module__}.{class_.__qualname__}: {type(error).__name__}: {error}",
                expected="values that pickle can carry",
                hint="keep open files, connections, locks and functions out of accumulators and state",
            ) from error
        return buffer.getvalue()

    def loads(self, data: bytes) -> list[Any]:
        """Unpickles the values of :meth:`dumps`. That runs code from the bytes: the plan has allowed it."""
        return list(_Unpickler(io.BytesIO(data), self._kinds, self._moved).load())


class _Pickler(cloudpickle.CloudPickler):
    def __init__(self, file: io.BytesIO, names: Mapping[type[Any], str]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]  # as above
        self._plan_names = names

    def persistent_id(self, obj: Any) -> str | None:
        return self._plan_names.get(obj) if isinstance(obj, type) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, kinds: Mapping[str, type[Any]], moved: Mapping[str, type[Any]]) -> None:
        super().__init__(file)
        self._plan_kinds, self._moved = kinds, moved

    def persistent_load(self, pid: Any) -> type[Any]:
        class_ = self._plan_kinds.get(pid) or self._moved.get(str(pid).partition(":")[2])
        if class_ is None:
            raise refused(str(pid))
        return class_
