"""Proxies record what a function computes of an element: each operation on one returns a proxy of its expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias

from windrow.expressions.built_in import CALLS, COMPARISONS
from windrow.expressions.constant_texts import shortened_text
from windrow.expressions.node import Expression, ordered
from windrow.expressions.tree import (
    Binary,
    Call,
    Conditional,
    Constant,
    Contains,
    Element,
    Field,
    Item,
    Lookup,
    Member,
    Method,
    Record,
    Unary,
)

# Any in this module: values of every type.

SCALARS: Final = frozenset({bool, int, float, str, type(None)})

_METHODS: Final = frozenset(
    {name for name in dir(str) if not name.startswith("_")}
    | {"bit_length", "date", "hex", "isoformat", "isoweekday", "strftime", "timestamp", "total_seconds", "weekday"}
)
"""The methods of texts, numbers and times, which change nothing."""

_MOST_DECISIONS: Final = 16

Note: TypeAlias = Callable[[Callable[[], object], object, "str | None"], None]
"""Notes how a value of a variable is read, the value, and the text for it in plans and errors; None: there is none."""


class RefusedError(Exception):
    """A function asked a proxy for a value that no expression gives."""


class Budget:
    """Limits the number of operations of a function while it is traced, on all paths through its decisions together."""

    def __init__(self, values: int) -> None:
        self._values = values
        self._left = values

    def spend(self) -> None:
        """Counts one value more, or one call more of another function; refuses the function that goes beyond."""
        self._left -= 1
        if self._left < 0:
            raise RefusedError(f"computes more than {self._values} values when it is tried")


class Decisions:
    """Chooses which path a function takes through its decisions, in one call of it.

    ``wanted`` has the answers to the first decisions; to each later one the answer is yes. A test that is asked again
    gets the same answer.
    """

    def __init__(self, budget: Budget, wanted: tuple[bool, ...] = (), *, has_tuples: bool = False) -> None:
        self.budget = budget
        self.has_tuples = has_tuples  # whether comparisons may be those of tuples or lists
        self._wanted = wanted
        self.answered: list[tuple[Expression, bool]] = []
        self._computed: dict[Expression, int] = {}
        self._answers: dict[Expression, bool] = {}
        self._recorders: dict[Expression, Recorder] = {}

    def decide(self, test: Expression) -> bool:
        """Returns whether the function is to find ``test`` true."""
        answer = self._answers.get(test)
        if answer is not None:
            return answer
        number = len(self.answered)
        if number >= _MOST_DECISIONS:
            raise RefusedError(f"decides more than {_MOST_DECISIONS} things")
        answer = self._wanted[number] if number < len(self._wanted) else True
        self.answered.append((test, answer))
        self._answers[test] = answer
        return answer

    def recorder(self, class_: type[Recorder], expression: Expression) -> Recorder:
        """The proxy for a value that the function computes, which may fail.

        Python gives the same object each time that a field is read, which tuples take for equal to itself; so this
        gives the same proxy.
        """
        self.budget.spend()
        if not isinstance(expression, Field) or not isinstance(expression.of, Element):
            # A field of the element is there.
            self._computed[expression] = self._computed.get(expression, 0) + 1
        if not expression.reads_same:
            return class_(expression, self)
        recorder = self._recorders.get(expression)
        if recorder is None:
            recorder = self._recorders[expression] = class_(expression, self)
        return recorder

    def forget(self, expression: Expression) -> None:
        """Takes a value back that was no value, but a method to be called."""
        times = self._computed.pop(expression, 0)
        if times > 1:
            self._computed[expression] = times - 1

    def check_used(self, result: Expression) -> None:
        """Refuses a function that computes a value on which neither its result nor a decision depends.

        An engine would not compute it, and would not fail where the function fails.
        """
        used = ordered([result, *(test for test, _ in self.answered)], lambda node: node.children)
        if not set(used).issuperset(self._computed):
            raise RefusedError("computes something that it does not use")


class Recorder:
    """A proxy for a value of the element, without items.

    A text that is formatted takes a value with items for a dict, of which it may use nothing: then it asks the proxy
    nothing. This one it refuses.
    """

    __slots__ = ("decisions", "expression")

    def __init__(self, expression: Expression, decisions: Decisions) -> None:
        object.__setattr__(self, "expression", expression)
        object.__setattr__(self, "decisions", decisions)

    def __getattribute__(self, name: str) -> Recorder:
        if name.startswith("__") and name.endswith("__"):
            raise RefusedError(f"reads {name}")
        return _with(self, Field(_own(self), name))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise RefusedError("changes the element")

    def __hash__(self) -> NoReturn:
        # The hash would be recorded nowhere.
        raise RefusedError("takes a value for a key")

    def __bool__(self) -> bool:
        return _decisions(self).decide(_own(self))

    def __call__(self, *args: object, **kwargs: object) -> Recorder:
        method = _own(self)
        if kwargs or not isinstance(method, Field):
            raise RefusedError("calls a value, or a method with arguments by name")
        if method.name not in _METHODS:
            raise RefusedError(f"calls {method.name}, which may change something")
        _decisions(self).forget(method)
        return _with(self, Method(method.of, method.name, tuple(map(expression_of, args))))

    def __contains__(self, item: object) -> bool:
        return _decisions(self).decide(Contains(_own(self), expression_of(item)))

    def __iter__(self) -> NoReturn:
        raise RefusedError("goes through a value")

    def __str__(self) -> NoReturn:
        raise RefusedError("makes a text")

    __repr__ = __str__

    def __format__(self, format_spec: str) -> NoReturn:
        raise RefusedError("makes a text")

    def __add__(self, other: object) -> Recorder:
        return _binary("+", self, other, self)

    def __radd__(self, other: object) -> Recorder:
        return _binary("+", other, self, self)

    def __sub__(self, other: object) -> Recorder:
        return _binary("-", self, other, self)

    def __rsub__(self, other: object) -> Recorder:
        return _binary("-", other, self, self)

    def __mul__(self, other: object) -> Recorder:
        return _binary("*", self, other, self)

    def __rmul__(self, other: object) -> Recorder:
        return _binary("*", other, self, self)

    def __truediv__(self, other: object) -> Recorder:
        return _binary("/", self, other, self)

    def __rtruediv__(self, other: object) -> Recorder:
        return _binary("/", other, self, self)

    def __floordiv__(self, other: object) -> Recorder:
        return _binary("//", self, other, self)

    def __rfloordiv__(self, other: object) -> Recorder:
        return _binary("//", other, self, self)

    def __mod__(self, other: object) -> Recorder:
        return _binary("%", self, other, self)

    def __rmod__(self, other: object) -> Recorder:
        return _binary("%", other, self, self)

    def __pow__(self, other: object) -> Recorder:
        return _binary("**", self, other, self)

    def __rpow__(self, other: object) -> Recorder:
        return _binary("**", other, self, self)

    def __neg__(self) -> Recorder:
        return _with(self, Unary("-", _own(self)))

    def __pos__(self) -> Recorder:
        return _with(self, Unary("+", _own(self)))

    def __abs__(self) -> Recorder:
        return _with(self, Unary("abs", _own(self)))

    def __eq__(self, other: object) -> Recorder:  # type: ignore[override]  # a comparison is recorded, not made
        return _binary("==", self, other, self)

    def __ne__(self, other: object) -> Recorder:  # type: ignore[override]  # as above
        return _binary("!=", self, other, self)

    # `3 < r.a` comes as `r.a > 3`: constants are scalars, and compare alike from either side.
    def __lt__(self, other: object) -> Recorder:
        return _binary("<", self, other, self)

    def __le__(self, other: object) -> Recorder:
        return _binary("<=", self, other, self)

    def __gt__(self, other: object) -> Recorder:
        return _binary(">", self, other, self)

    def __ge__(self, other: object) -> Recorder:
        return _binary(">=", self, other, self)


class ItemRecorder(Recorder):
    """A proxy for a value of the element, which may have items."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Recorder:
        if type(key) is int or type(key) is str:
            return _with(self, Item(_own(self), key))
        raise RefusedError("asks for an item by something else than a number or a text")


class Made:
    """A proxy for a record that the function makes, of which it may only read fields."""

    __slots__ = ("record", "values")

    def __init__(self, record: Record, values: Mapping[str, object]) -> None:
        object.__setattr__(self, "record", record)
        object.__setattr__(self, "values", values)

    def __getattribute__(self, name: str) -> object:
        values: Mapping[str, object] = object.__getattribute__(self, "values")
        if name not in values:
            raise RefusedError(f"reads {name} of a record that it makes")
        return values[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise RefusedError("changes a record")

    def _refuse(self, *args: object) -> NoReturn:
        raise RefusedError("does more with a record than to make it")

    __hash__ = None  # type: ignore[assignment]  # unhashable, as a Recorder is
    __bool__ = __iter__ = __getitem__ = __len__ = __contains__ = __str__ = __repr__ = __format__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse


class Members:
    """A proxy for a set, of which the function may only ask whether a value is in it."""

    __slots__ = ("_name", "_note", "_values")

    def __init__(
        self, values: frozenset[Any] | set[Any] | Mapping[Any, Any], name: str | None = None, note: Note | None = None
    ) -> None:
        self._values = values
        self._name = name  # of its variable; None: it stands in the code
        self._note = note

    def __contains__(self, item: object) -> bool:
        if is_recorder(item):
            return _decisions(item).decide(Member(_own(item), self._values, self._name))
        values = self._values
        is_in = item in values
        if self._note is not None:
            self._note(lambda: item in values, is_in, None)
        return is_in

    def _refuse(self, *args: object) -> NoReturn:
        raise RefusedError("does more with a set or a dict than to look something up")

    __hash__ = None  # type: ignore[assignment]  # as that of a Recorder
    __bool__ = __iter__ = __len__ = __str__ = __repr__ = __format__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse


class Table(Members):
    """A proxy for a dict, in which the function may only look up keys."""

    __slots__ = ("_table",)

    def __init__(self, table: Mapping[Any, Any], name: str | None = None, note: Note | None = None) -> None:
        super().__init__(table, name, note)
        self._table = table

    def __getitem__(self, key: object) -> object:
        if is_recorder(key):
            return _with(key, Lookup(self._table, _own(key), shown=self._name))
        value = self._table[key]
        self._noted(key, value)
        return value

    def get(self, key: object, default: object = None) -> object:
        """Records or makes a lookup."""
        if is_recorder(key):
            return _with(key, Lookup(self._table, _own(key), expression_of(default), self._name))
        if key in self:
            return self[key]
        return default

    def _noted(self, key: object, value: object) -> None:
        table, class_ = self._table, type(key)
        if self._note is not None:
            text = shortened_text(repr(key), 40) if class_ in SCALARS else "..."
            self._note(lambda: table.get(key, Ellipsis), value, f"{self._name}[{text}]")


def call(function: str, value: object) -> object:
    """Records a call of a built-in function with a value of the element, or calls it with another value."""
    return _with(value, Call(function, _own(value))) if is_recorder(value) else CALLS[function].python(value)


def expression_of(value: object) -> Expression:
    """The expression of what a function gives, or computes with."""
    class_ = type(value)
    if is_recorder(value):
        return _own(value)
    if class_ in SCALARS or class_ is bytes:
        # Any: one of the scalars, or bytes, of which only the type is asked.
        scalar: Any = value
        return Constant(scalar)
    raise RefusedError(f"computes with a constant of type {class_.__name__}")


def result_of(value: object) -> Expression:
    """The expression of what a function returns."""
    if type(value) is Made:
        record: Record = object.__getattribute__(value, "record")
        return record
    class_ = type(value)
    if class_ is tuple or class_ is list:
        # Any: the values in it.
        items: Any = value
        return Record(class_, tuple([(str(index), result_of(item)) for index, item in enumerate(items)]))
    return expression_of(value)


def chosen(test: Expression, yes: Expression, no: Expression) -> Expression:
    """Returns a conditional expression; for two records of the same fields a record of conditional fields."""
    if isinstance(yes, Record) and isinstance(no, Record):
        names = [[name for name, _ in each.fields] for each in (yes, no)]
        if yes.target is no.target and names[0] == names[1]:
            pairs = zip(yes.fields, no.fields, strict=True)
            return Record(yes.target, tuple([(name, chosen(test, one, other)) for (name, one), (_, other) in pairs]))
    if _is_bool(test) and yes == Constant(True) and no == Constant(False):
        return test
    return Conditional(test, yes, no)


def _is_bool(test: Expression) -> bool:
    """Whether a test always gives a bool; a comparison of objects may give anything."""
    return isinstance(test, Contains | Member)


def _own(recorder: Any) -> Expression:
    expression: Expression = object.__getattribute__(recorder, "expression")
    return expression


def _decisions(recorder: Any) -> Decisions:
    decisions: Decisions = object.__getattribute__(recorder, "decisions")
    return decisions


def is_recorder(value: object) -> bool:
    """Returns whether a value is a proxy; ``isinstance`` would ask it for its class."""
    return issubclass(type(value), Recorder)


def _with(recorder: Any, expression: Expression) -> Recorder:
    return _decisions(recorder).recorder(type(recorder), expression)


def _binary(symbol: str, left: object, right: object, recorder: Recorder) -> Recorder:
    may_be_same = symbol in COMPARISONS and _decisions(recorder).has_tuples
    return _with(recorder, Binary(symbol, expression_of(left), expression_of(right), may_be_same))
