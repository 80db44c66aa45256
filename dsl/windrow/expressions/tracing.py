"""Traces functions into expressions: calls them with proxies instead of elements.

The code of the function is looked at first. A copy of it is then called with a proxy that records what is asked of it,
once for each path through its decisions, and the results are put together to one expression. Where in doubt the answer
is *opaque*, and the function is called for each element.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from windrow.expressions.node import Expression
from windrow.expressions.recorder import Budget, Decisions, ItemRecorder, Recorder, RefusedError, chosen, result_of
from windrow.expressions.surroundings import Surroundings
from windrow.expressions.tree import Argument, Conditional, Constant, Element, Record
from windrow.facts.code import FunctionFacts, facts
from windrow.facts.copies import callable_with_proxies
from windrow.functions.rich import RichFunction

# Any in this module: functions of elements of every type.

_MOST_PATHS: Final = 64
_MOST_PARTS: Final = 1_000
"""The most values that a function on columns may compute of an element: each is a column while a batch is computed."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A function for which there is no expression, so that engines must call it.

    Attributes:
        reason: What it does that is no plain expression.
    """

    reason: str


def recognise(selector: Callable[..., Any], arguments: int = 1) -> Expression | Opaque:
    """Recognises what ``selector`` computes of an element.

    Variables around the function count with the values that they have now. A function is traced once, and again if one
    of these has changed.

    Args:
        selector: A function of one element. Others than plain functions, and getters of ``operator``, are not
            recognised.
        arguments: How many elements it takes.

    Returns:
        An expression that gives for every element what the selector gives, and raises where it raises, though maybe
        another error where several parts would; or why there is none.
    """
    if isinstance(selector, RichFunction):
        return Opaque("is a rich function")
    if type(selector) is FunctionType:
        code = facts(selector)
        if len(code.parameters) != arguments or code.takes_more:
            return Opaque("takes other arguments than an element")
    computed = _computed(selector)
    if isinstance(computed, Opaque):
        return computed
    return computed.expression if computed.reason is None else Opaque(computed.reason)


def traced(function: Callable[..., Any]) -> Expression | Opaque:
    """Traces a function of any number of arguments, to find the type of its results; or says why it cannot be read.

    The first argument is the :class:`Element` if there is no other one, else each is an :class:`Argument`. Engines
    compute less: see :func:`recognise`.
    """
    computed = _computed(function)
    return computed if isinstance(computed, Opaque) else computed.expression


@dataclass(frozen=True, slots=True)
class _Computed:
    """The expression that a function computes.

    Attributes:
        expression: The expression.
        reason: Why engines compute no such expression; None: they may.
    """

    expression: Expression
    reason: str | None


def _computed(function: Callable[..., Any]) -> _Computed | Opaque:
    if isinstance(function, (operator.attrgetter, operator.itemgetter)):
        return _of_getter(function)
    return TRACER.answer_for(function) if type(function) is FunctionType else Opaque("is not a plain function")


def arguments_of(function: Callable[..., Any]) -> Sequence[Element | Argument]:
    """The nodes for the arguments of a function, those with a default left out."""
    if type(function) is not FunctionType:
        return (Element(),)
    parameters = facts(function).parameters
    names = parameters[: len(parameters) - len(function.__defaults__ or ()) or 1]
    return (Element(),) if len(names) == 1 else tuple(map(Argument, names))


Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class _Answer(Generic[Found]):
    """What tracing a function gave, with the values that variables around it had."""

    answer_value: Found
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
        # An answer is kept as long as a function has it.
        self._latest: WeakValueDictionary[FunctionFacts, _Answer[Found]] = WeakValueDictionary()

    def answer_for(self, function: FunctionType) -> Found:
        """Returns what tracing a function gave; traces it if that is not known, or out of date."""
        answer = self._answers.get(function)
        if answer is not None and answer.around.is_current(function):
            return answer.answer_value
        answer = self._latest.get(facts(function))
        if answer is None or not answer.around.is_current(function):
            self.traced += 1
            around = Surroundings(function)
            answer = self._latest[facts(function)] = _Answer(self._trace(function, around), around)
        self._answers[function] = answer
        return answer.answer_value


def _trace(function: FunctionType, around: Surroundings) -> _Computed | Opaque:
    return _of_paths(lambda: callable_with_proxies(function, around), around, arguments_of(function))


TRACER: Final = Tracer(_trace)


@lru_cache(maxsize=1_000)
def _of_getter(getter: Callable[[Any], Any]) -> _Computed | Opaque:
    return _of_paths(lambda: getter, None, (Element(),))


def _of_paths(
    make: Callable[[], Callable[..., Any]], around: Surroundings | None, arguments: Sequence[Element | Argument]
) -> _Computed | Opaque:
    """Traces the callable that ``make`` returns, on all paths through its decisions."""
    try:
        expression = _Paths(make(), around, arguments).expression(())
        nodes = expression.parts()
        if len(nodes) > _MOST_PARTS:
            return Opaque(f"computes more than {_MOST_PARTS} values")
        reason = "gives something else than a value of the element" if isinstance(expression, Constant) else None
        reason = reason or next(filter(None, map(_only_for_types, nodes)), None)
        return _Computed(expression if around is None else around.named(expression), reason)
    except RefusedError as refused:
        return Opaque(str(refused))
    except Exception as error:
        if around is not None and around.formats and around.has_texts and isinstance(error, TypeError):
            return Opaque("may format a text")
        # A selector that raises for a proxy is no plain expression of fields and constants.
        return Opaque(f"raises {type(error).__name__} when it is tried")


def _only_for_types(part: Expression) -> str | None:
    """Says why engines do not compute a node whose type is nevertheless known; None: they do."""
    if isinstance(part, Record) and part.target is list:
        return "computes with a constant of type list"
    if isinstance(part, Constant) and isinstance(part.value, bytes):
        return "computes with a constant of type bytes"
    if not isinstance(part, Conditional) or not any(isinstance(side, Record) for side in part.sides):
        return None
    is_one_of_several = all(isinstance(side, Record) for side in part.sides)
    return "makes one of several records" if is_one_of_several else "makes a record or gives something else"


class _Paths:
    """Calls a function once for each path through its decisions."""

    def __init__(
        self, call: Callable[..., Any], around: Surroundings | None, arguments: Sequence[Element | Argument]
    ) -> None:
        self._call = call
        self._arguments = arguments
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
        result = result_of(self._call(*[self._recorder(each, decisions) for each in self._arguments]))
        decisions.check_used(result)
        for number in reversed(range(len(answers), len(decisions.answered))):
            test, _ = decisions.answered[number]
            if_false = self.expression((*(answer for _, answer in decisions.answered[:number]), False))
            result = chosen(test, result, if_false)
        return result
