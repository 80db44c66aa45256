"""Values that a plan has allowed to be pickled: ``Pipeline(..., allow_pickled_state=True)``."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark import cloudpickle

from windrow.errors import UnsupportedOperationError
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.storage.stored_classes import refused
from windrow_runtime.storage.values import StateCodec

# Any throughout this module: values and classes of the user's.


def state_codec(classes: Iterable[UserClass], *, allow_pickled: bool) -> StateCodec:
    """Returns the codec for the state of a plan that names some classes, and may allow that others are pickled."""
    known = tuple(classes)
    return StateCodec(known, pickles=PlanPickle(known) if allow_pickled else None)


class PlanPickle:
    """Pickles values of any class.

    A class that the plan's functions use is written by its name, and is the plan's own when it is read, in whichever
    process that is: a class of the main program has another module there. Any other class of the main program goes by
    value.
    """

    def __init__(self, classes: Iterable[UserClass]) -> None:
        self._kinds = {f"{known.kind.__module__}:{known.qualified}": known.kind for known in classes}
        self._names = {kind: name for name, kind in self._kinds.items()}

    def dumps(self, kind: type[Any], values: Sequence[Any]) -> bytes:
        """Returns values of a class as bytes; refuses values that cannot be pickled."""
        buffer = io.BytesIO()
        try:
            _Pickler(buffer, self._names).dump(list(values))  # type: ignore[no-untyped-call]  # Spark's copy has no types
        except Exception as error:  # pickle, and the methods of the user's class that it calls, may raise anything
            raise UnsupportedOperationError(
                "a value of the state cannot be stored",
                given=f"{kind.__module__}.{kind.__qualname__}: {type(error).__name__}: {error}",
                expected="values that pickle can carry",
                hint="keep open files, connections, locks and functions out of accumulators and state",
            ) from error
        return buffer.getvalue()

    def loads(self, data: bytes) -> list[Any]:
        """Returns the values that :meth:`dumps` was given. It runs code from the bytes: the plan has allowed that."""
        return list(_Unpickler(io.BytesIO(data), self._kinds).load())


class _Pickler(cloudpickle.CloudPickler):
    def __init__(self, file: io.BytesIO, names: Mapping[type[Any], str]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]  # as above
        self._plan_names = names

    def persistent_id(self, obj: Any) -> str | None:
        return self._plan_names.get(obj) if isinstance(obj, type) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, kinds: Mapping[str, type[Any]]) -> None:
        super().__init__(file)
        self._plan_kinds = kinds

    def persistent_load(self, pid: Any) -> type[Any]:
        try:
            return self._plan_kinds[pid]
        except KeyError:
            raise refused(str(pid)) from None
