"""Recognises what a function computes of an element, without running it on one.

The code of the function is looked at first. A copy of it is then called with a proxy that records what is asked of it,
once for each path through its decisions, and the results are put together to one expression. Where in doubt the answer
is *opaque*, and the function is called for each element.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from windrow.expressions.bytecode import callable_with_proxies
from windrow.expressions.node import Expression, Fact
from windrow.expressions.recorder import (
    Budget,
    Decisions,
    ItemRecorder,
    Recorder,
    RefusedError,
    chosen,
    result_of,
    typed_expression,
)
from windrow.expressions.surroundings import Surroundings
from windrow.expressions.tree import Constant, Element
from windrow.expressions.type_stand_ins import TypeStandIns
from windrow.expressions.typed_nodes import Argument
from windrow.functions.rich import RichFunction

__all__ = ["TRACER", "Opaque", "Way", "arguments_of", "recognise", "ways_of"]

# Any in this module: functions of elements of every type.

_MOST_PATHS: Final = 64
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

    Variables around the function count with the values that they have now. A function is traced once, and again if one
    of these has changed.

    Args:
        selector: A function of one element. Others than plain functions, and getters of ``operator``, are not
            recognised.

    Returns:
        An expression that gives for every element what the selector gives, and raises where it raises, though maybe
        another error where several parts would; or why there is none.
    """
    if isinstance(selector, RichFunction):
        return Opaque("is a rich function")
    if isinstance(selector, (operator.attrgetter, operator.itemgetter)):
        return _of_getter(selector)
    return TRACER.answer_for(selector) if type(selector) is FunctionType else Opaque("is not a plain function")


@dataclass(frozen=True, slots=True)
class Way:
    """One way through the decisions of a function, as far as the types of its results go.

    Attributes:
        facts: What was decided.
        result: What the function gives then.
    """

    facts: tuple[Fact, ...]
    result: Expression


def ways_of(function: Callable[..., Any]) -> Sequence[Way] | Opaque:
    """The ways through a function of any number of arguments; or why they cannot be told.

    Its first argument is the :class:`Element` if there is no other one, else each is an :class:`Argument`.
    """
    if isinstance(function, (operator.attrgetter, operator.itemgetter)):
        expression = _of_getter(function)
        return expression if isinstance(expression, Opaque) else (Way((), expression),)
    return _TYPES.answer_for(function) if type(function) is FunctionType else Opaque("is not a plain function")


def arguments_of(function: Callable[..., Any]) -> Sequence[Element | Argument]:
    """The nodes for the arguments of a function, those with a default left out."""
    if type(function) is not FunctionType:
        return (Element(),)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount - len(function.__defaults__ or ()) or 1]
    return (Element(),) if len(names) == 1 else tuple(map(Argument, names))


Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class _Answer(Generic[Found]):
    """What was found of a function, with the values that variables around it had."""

    found: Found
    around: Surroundings


class Tracer(Generic[Found]):
    """Traces functions, and keeps the answers: each function is traced once, and again if what it reads has changed.

    Functions of one code share an answer where all that they read is the same, as those that a factory makes anew.

    Attributes:
        traced: How many functions were traced.
    """

    def __init__(self, trace: Callable[[FunctionType, Surroundings], Found]) -> None:
        self.traced = 0
        self._trace = trace
        self._answers: WeakKeyDictionary[FunctionType, _Answer[Found]] = WeakKeyDictionary()
        # As long as a function has them.
        self._latest: WeakValueDictionary[CodeType, _Answer[Found]] = WeakValueDictionary()

    def answer_for(self, function: FunctionType) -> Found:
        """Returns what was found of a function, or traces it."""
        answer = self._answers.get(function)
        if answer is not None and answer.around.is_current(function):
            return answer.found
        answer = self._latest.get(function.__code__)
        if answer is None or not answer.around.is_current(function):
            self.traced += 1
            around = Surroundings(function)
            answer = self._latest[function.__code__] = _Answer(self._trace(function, around), around)
        self._answers[function] = answer
        return answer.found


def _expression(function: FunctionType, around: Surroundings) -> Expression | Opaque:
    return _traced(lambda: callable_with_proxies(function, around), around)


def _ways(function: FunctionType, around: Surroundings) -> Sequence[Way] | Opaque:
    code = function.__code__
    decisions = Decisions(around.budget, types_only=True)
    arguments = arguments_of(function)
    ways: list[Way] = []
    waiting: list[tuple[bool, ...]] = [()]
    try:
        if code.co_flags & _NOT_CALLED or code.co_kwonlyargcount:
            raise RefusedError("takes arguments by name or of any number, waits or yields")
        call = callable_with_proxies(function, around, TypeStandIns(decisions, around))
        while waiting:
            begun = waiting.pop()
            decisions.begin(begun)
            result = typed_expression(call(*[ItemRecorder(each, decisions) for each in arguments]))
            answered = decisions.answered
            ways.append(Way(tuple(answered), result))
            if len(result.parts()) > _MOST_PARTS:
                raise RefusedError(f"computes more than {_MOST_PARTS} values")
            if len(ways) + len(waiting) > _MOST_PATHS:
                raise RefusedError(f"has more than {_MOST_PATHS} ways through its decisions")
            answers = [answer for _, answer in answered]
            waiting.extend([(*answers[:number], False) for number in range(len(begun), len(answers))])
    except RefusedError as refused:
        return Opaque(str(refused))
    except Exception as error:
        return Opaque(f"raises {type(error).__name__} when it is tried")
    return ways


_NOT_CALLED: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE

TRACER: Final = Tracer(_expression)
_TYPES: Final = Tracer(_ways)


@lru_cache(maxsize=1_000)
def _of_getter(getter: Callable[[Any], Any]) -> Expression | Opaque:
    return _traced(lambda: getter, None)


def _traced(make: Callable[[], Callable[[Any], Any]], around: Surroundings | None) -> Expression | Opaque:
    """Recognises what the callable that ``make`` returns computes."""
    try:
        expression = _Paths(make(), around).expression(())
        if isinstance(expression, Constant):
            return Opaque("gives something else than a value of the element")
        if len(expression.parts()) > _MOST_PARTS:
            return Opaque(f"computes more than {_MOST_PARTS} values")
        return expression if around is None else around.named(expression)
    except RefusedError as refused:
        return Opaque(str(refused))
    except Exception as error:
        if around is not None and around.formats and around.has_texts and isinstance(error, TypeError):
            return Opaque("may format a text")
        # A selector that raises for a proxy is no plain expression of fields and constants.
        return Opaque(f"raises {type(error).__name__} when it is tried")


class _Paths:
    """Calls a function once for each path through its decisions."""

    def __init__(self, call: Callable[[Any], Any], around: Surroundings | None) -> None:
        self._call = call
        self._calls = 0
        self._budget = Budget(_MOST_PARTS) if around is None else around.budget
        self._has_tuples = around is not None and around.has_tuples
        formats = around is not None and around.formats and around.has_texts
        self._recorder: type[Recorder] = Recorder if formats else ItemRecorder

    def expression(self, answers: tuple[bool, ...]) -> Expression:
        """Returns what the function gives if its first decisions have these answers."""
        self._calls += 1
        if self._calls > _MOST_PATHS:
            raise RefusedError(f"has more than {_MOST_PATHS} ways through its decisions")
        decisions = Decisions(self._budget, answers, has_tuples=self._has_tuples)
        result = result_of(self._call(self._recorder(Element(), decisions)))
        decisions.check_used(result)
        for number in reversed(range(len(answers), len(decisions.answered))):
            test, _ = decisions.answered[number]
            if_false = self.expression((*(answer for _, answer in decisions.answered[:number]), False))
            result = chosen(test, result, if_false)
        return result
