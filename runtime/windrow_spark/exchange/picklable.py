"""Makes classes picklable by value for Spark, and finds objects that cannot be pickled in functions and elements.

Classes of the main program are sent to workers by value: Spark's pickle makes an empty class and then sets its
attributes. That would lose what Python takes only from the body of a class: the fields of a msgspec.Struct, and slots.
Objects of the standard library that are compared by identity, such as ``dataclasses.MISSING``, would arrive as other
objects; and a ``NewType`` would be looked up by its name.
"""

from __future__ import annotations

import copyreg
import dataclasses
import pickle
import sys
import types
from collections.abc import Iterable
from functools import partial
from inspect import get_annotations
from io import BytesIO, TextIOWrapper
from types import GeneratorType
from typing import Any, Final, NewType, TypedDict

import msgspec
from pyspark import cloudpickle
from typing_extensions import is_typeddict

from windrow.errors import UnsupportedOperationError
from windrow.plan import Step
from windrow_runtime.codecs.records import forget_msgspec, struct_fields
from windrow_runtime.operators.errors import first_line, shortened
from windrow_runtime.operators.sending.culprits import IN_OPEN, refuse_unsendable

# Any throughout this module: classes of the user's.

_MAIN: Final = "__main__"
_CONFIGURED: Final = (
    *("frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults"),
    *("forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field"),
)


for _name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY"):
    # A reducer that returns a text names a variable in the object's module.
    copyreg.pickle(type(getattr(dataclasses, _name)), partial(lambda name, _: name, _name))


def _reduced_new_type(new_type: Any) -> Any:  # a tuple or a text, as pickle takes them
    name, module = new_type.__qualname__, new_type.__module__
    if module != _MAIN and getattr(sys.modules.get(module), name, None) is new_type:
        return name
    return _new_type, (name, module, new_type.__supertype__)


def _new_type(name: str, module: str, supertype: Any) -> Any:
    make: Any = NewType  # mypy accepts NewType only where its arguments are literals
    new_type = make(name, supertype)
    new_type.__module__ = module
    return new_type


copyreg.pickle(NewType, _reduced_new_type)


def make_picklable(class_: type[Any]) -> None:
    """Prepares a class of the main program for being pickled by value.

    Msgspec caches facts about a class on the class, and these cannot be pickled. Spark's pickle recreates a class
    from its ``__orig_bases__``, which a TypedDict lacks before Python 3.12 if it was made by a call or from another
    one. The fields of a Struct and the slots of other classes are put there, too. A Struct that cannot be recreated is
    refused.
    """
    forget_msgspec((class_,))
    if is_typeddict(class_) and "__orig_bases__" not in vars(class_):
        class_.__orig_bases__ = (TypedDict,)  # as Python 3.12 sets it
    for base in class_.__mro__:
        # Classes of other modules are pickled by name.
        if base.__module__ != _MAIN and "<locals>" not in base.__qualname__:
            continue
        if isinstance(base, msgspec.StructMeta):
            _give_fields_to_bases(base)
        elif "__slots__" in vars(base) and not issubclass(base, tuple):
            # A tuple class has empty slots only, and NamedTuple has a metaclass of its own.
            _give_slots_to_bases(base)


def _give_fields_to_bases(kind: Any) -> None:
    bases = vars(kind).get("__orig_bases__", kind.__bases__)
    if any(isinstance(base, _StructBase) for base in bases):
        return
    base = _StructBase.of(kind, bases)
    try:
        (struct,) = base.__mro_entries__(())
        struct.__module__ = __name__  # marks it as no record of the user's
        same = _facts(struct) == _facts(kind)
    except Exception as error:  # the bases are the user's, and may raise anything
        raise _not_by_value(kind, f"{type(error).__name__}: {error}") from error
    if not same:
        raise _not_by_value(kind, "its fields would change")
    kind.__orig_bases__ = (base,)


def _give_slots_to_bases(kind: Any) -> None:
    bases = vars(kind).get("__orig_bases__", kind.__bases__)
    if not any(isinstance(base, _Slots) for base in bases):
        # The other bases stay, since generic classes look for their bases there.
        kind.__orig_bases__ = (_Slots(type(kind), kind.__slots__), *bases)


def _facts(kind: Any) -> tuple[object, ...]:
    config = kind.__struct_config__
    return (
        *(kind.__struct_fields__, kind.__struct_encode_fields__, kind.__match_args__),
        len(kind.__struct_defaults__),
        *(getattr(config, name) for name in _CONFIGURED),
    )


def _not_by_value(class_: type[Any], reason: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        "a msgspec.Struct of the main program cannot be sent to Spark's workers",
        given=f"{class_.__qualname__}: {reason}",
        expected="a Struct that can be made anew from its fields",
        hint="put the class into a module that the workers can import",
    )


@dataclasses.dataclass(frozen=True)
class _StructBase:
    """Stands among the bases of a pickled Struct, and turns into a Struct with its fields when the class is recreated.

    ``fields`` has the arguments of ``msgspec.field`` for each field.
    """

    name: str
    module: str
    bases: tuple[Any, ...]
    fields: tuple[tuple[str, dict[str, Any]], ...]
    config: dict[str, Any]
    has_post_init: bool

    @classmethod
    def of(cls, kind: Any, bases: tuple[Any, ...]) -> _StructBase:
        all_fields = struct_fields(kind)
        own = [name for name in get_annotations(kind) if name in all_fields]
        config = {name: getattr(kind.__struct_config__, name) for name in _CONFIGURED}
        config["kw_only"] = any(name not in kind.__match_args__ for name in own)
        fields = tuple((name, all_fields[name]) for name in own)
        return cls(kind.__name__, kind.__module__, bases, fields, config, "__post_init__" in vars(kind))

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type[Any]]:
        space: dict[str, Any] = {name: msgspec.field(**arguments) for name, arguments in self.fields}
        # The derived class gives the types of the fields, which may name the class itself.
        space["__annotations__"] = dict.fromkeys(space, Any)
        space["__module__"] = self.module
        if self.has_post_init:
            # Msgspec looks for this method when a class is made, and pickle sets it only later.
            space["__post_init__"] = lambda instance: type(instance).__post_init__(instance)
        return (types.new_class(self.name, self.bases, self.config, lambda body: body.update(space)),)


class _Slots:
    """Stands before the bases of a pickled class, and passes the slots to the metaclass when the class is recreated."""

    def __init__(self, metaclass: type[Any], slots: str | Iterable[str]) -> None:
        self.metaclass = metaclass
        self.slots = slots if isinstance(slots, str) else tuple(slots)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type[Any]]:
        metaclass, slots = self.metaclass, self.slots

        class Making(metaclass):  # type: ignore[valid-type,misc]  # it is known at run time alone
            """Replaces the metaclass while the class is made."""

            def __new__(cls, name: str, bases: tuple[type[Any], ...], space: dict[str, Any], **arguments: Any) -> Any:
                others = tuple(base for base in bases if base is not helper)
                return metaclass(name, others, {**space, "__slots__": slots}, **arguments)

        helper = type.__new__(Making, "_Helper", (), {"__slots__": ()})
        return (helper,)


def check_picklable(
    step: Step, parts: Iterable[object], what: str = "a function of the step", hint: str = IN_OPEN
) -> None:
    """Refuse a step whose functions or objects refer to objects that cannot be sent to workers."""
    refuse_unsendable(step, parts, what, hint, failure=_failure)


def check_sendable(values: Iterable[object], where: str | None) -> None:
    """Refuse elements or keys that cannot be sent to another process; called after pickling them has failed."""
    for value in values:
        try:
            pickle.dumps(value, 5)
        except Exception as error:
            raise UnsupportedOperationError(
                "an element cannot be sent to another process",
                given=f"{shortened(value)}: {first_line(error)}",
                expected="elements that can be pickled",
                where=where,
                hint="emit what a generator yields with flat_map"
                if isinstance(value, GeneratorType)
                else "emit what open files, connections and locks give, and not the objects",
            ) from error


class _Checker(cloudpickle.CloudPickler):
    """Refuses files that are open for reading, whose remaining content cloudpickle would send."""

    # Any: pickle's protocol.
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, TextIOWrapper) and obj not in (sys.stdout, sys.stderr):
            raise TypeError(f"cannot pickle {type(obj).__name__!r} object")
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]  # Spark's copy has no types


def _failure(value: object) -> Exception | None:
    try:
        _Checker(BytesIO()).dump(value)  # type: ignore[no-untyped-call]  # Spark's copy has no types
    except Exception as error:  # pickle, and the methods of the user's class that it calls, may raise anything
        return error
    return None
