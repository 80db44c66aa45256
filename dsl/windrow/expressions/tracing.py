"""Recognises what a function computes of an element, without running it on one.

The code of the function is looked at first. A copy of it is then called with a proxy that records what is asked of it,
once for each way through its decisions, and the results are put together to one expression. Where in doubt the answer
is *opaque*, and the function is called for each element.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from windrow.expressions.bytecode import callable_with_proxies
from windrow.expressions.recorder import Budget, Decisions, ItemRecorder, Recorder, RefusedError, chosen, result_of
from windrow.expressions.surroundings import Surroundings
from windrow.expressions.tree import Constant, Element, Expression, Record
from windrow.functions.rich import RichFunction

__all__ = ["Opaque", "made_record", "recognise"]

# Any in this module: functions of elements of every type.

_MOST_WAYS: Final = 64
_MOST_PARTS: Final = 1_000
"""The most values that a function on columns may compute of an element: each is a column while a batch is computed."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A function that must be called to know what it gives.

    Attributes:
        reason: What it does that is no plain expression.
    """

    reason: str


def recognise(selector: Callable[[Any], Any]) -> Expression | Opaque:
    """Recognises what ``selector`` computes of an element.

    Variables around the function count with the values that they have now. A function is tried once, and again if one
    of these has changed.

    Returns:
        An expression that gives for every element what the selector gives, and raises where it raises, though maybe
        another error where several parts would; or why there is none.
    """
    if isinstance(selector, RichFunction):
        return Opaque("is a rich function")
    if isinstance(selector, (operator.attrgetter, operator.itemgetter)):
        return _tried(partial(_same, selector), None)
    if type(selector) is not FunctionType:
        return Opaque("is not a plain function")
    known = _KNOWN.get(selector)
    if known is not None and known[1].is_current(selector):
        return known[0]
    around = Surroundings(selector)
    found = _tried(lambda: callable_with_proxies(selector, around), around)
    _KNOWN[selector] = found, around
    return found


_KNOWN: Final[WeakKeyDictionary[FunctionType, tuple[Expression | Opaque, Surroundings]]] = WeakKeyDictionary()
"""What functions were recognised as, with the values that variables around them had."""


def _tried(make: Callable[[], Callable[[Any], Any]], around: Surroundings | None) -> Expression | Opaque:
    """Recognises what a callable gives that ``make`` makes."""
    try:
        found = _Ways(make(), around).found(())
        if isinstance(found, Constant):
            return Opaque("gives something else than a value of the element")
        if len(found.parts()) > _MOST_PARTS:
            return Opaque(f"computes more than {_MOST_PARTS} values")
        return found if around is None else around.named(found)
    except RefusedError as refused:
        return Opaque(str(refused))
    except Exception as error:
        if around is not None and around.formats and around.has_texts and isinstance(error, TypeError):
            return Opaque("may format a text")
        # A selector that raises for a proxy is no plain expression of fields and constants.
        return Opaque(f"raises {type(error).__name__} when it is tried")


def made_record(function: Callable[[Any], Any]) -> type[Any] | None:
    """The class of the records that a function makes on each way through its decisions; None where it may do else."""
    found = recognise(function)
    return found.target if isinstance(found, Record) and found.target is not tuple else None


class _Ways:
    """Calls a function once for each way through its decisions."""

    def __init__(self, call: Callable[[Any], Any], around: Surroundings | None) -> None:
        self._call = call
        self._calls = 0
        self._budget = Budget(_MOST_PARTS) if around is None else around.budget
        self._has_tuples = around is not None and around.has_tuples
        formats = around is not None and around.formats and around.has_texts
        self._recorder: type[Recorder] = Recorder if formats else ItemRecorder

    def found(self, answers: tuple[bool, ...]) -> Expression:
        """The expression of what the function gives if its first decisions have these answers."""
        self._calls += 1
        if self._calls > _MOST_WAYS:
            raise RefusedError(f"has more than {_MOST_WAYS} ways through its decisions")
        decisions = Decisions(self._budget, answers, has_tuples=self._has_tuples)
        found = result_of(self._call(self._recorder(Element(), decisions)))
        decisions.check_used(found)
        made = decisions.made
        for place in reversed(range(len(answers), len(made))):
            test, _ = made[place]
            others = self.found((*(answer for _, answer in made[:place]), False))
            found = chosen(test, found, others)
        return found


def _same(getter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return getter
