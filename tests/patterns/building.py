"""Builds the patterns of conformance cases."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from windrow.patterns import AfterMatchSkipStrategy, Pattern

# Any in this module: cases are JSON.

Case: TypeAlias = dict[str, Any]


class Event(NamedTuple):
    """An element of a case."""

    id: str
    key: str
    type: str
    value: int
    ts: int


Matched: TypeAlias = Mapping[str, list[Event]]

_COMPARE: Final = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def key_of(event: Event) -> str:
    """The key of an element."""
    return event.key


def value_of(event: Event) -> int:
    """The value of an element, by which some cases order those of one timestamp."""
    return event.value


def needs_matched(condition: Case) -> bool:
    """Whether a condition looks at what was matched before."""
    inner = [*condition.get("and", ()), *condition.get("or", ())]
    if "not" in condition:
        inner.append(condition["not"])
    own = any(name in condition for name in ("sum_of", "count_of")) or any("_of" in name for name in condition)
    return own or any(map(needs_matched, inner))


def meets(condition: Case, event: Event, matched: Matched) -> bool:
    """Whether an element meets a condition."""
    if "and" in condition:
        return all(meets(each, event, matched) for each in condition["and"])
    if "or" in condition:
        return any(meets(each, event, matched) for each in condition["or"])
    if "not" in condition:
        return not meets(condition["not"], event, matched)
    if "count_of" in condition or "sum_of" in condition:
        return _meets_total(condition, event, matched)
    actual = getattr(event, condition["field"])
    for name, expected in condition.items():
        if name == "field":
            continue
        compare = _COMPARE[name[:2]]
        if name in _COMPARE:
            return bool(compare(actual, expected))
        others = matched[expected]
        if not others:
            return False
        return bool(compare(actual, getattr(others[-1 if name.endswith("last_of") else 0], condition["field"])))
    raise AssertionError(condition)


def _meets_total(condition: Case, event: Event, matched: Matched) -> bool:
    events = list(matched[condition.get("count_of") or condition["sum_of"]])
    if condition.get("with_this"):
        events.append(event)
    total = len(events) if "count_of" in condition else sum(getattr(each, condition["field"]) for each in events)
    (name,) = set(condition) & set(_COMPARE)
    return bool(_COMPARE[name](total, condition[name]))


def condition_of(condition: Case | None) -> Any:
    """Makes the function of a condition."""
    if condition is None:
        return None
    if needs_matched(condition):
        return lambda event, matched: meets(condition, event, matched)
    return lambda event: meets(condition, event, {})


def pattern_of(parts: Sequence[Case], within: int | None = None) -> Pattern[Event]:
    """Builds a pattern."""
    pattern: Any = Pattern[Event]
    for part in parts:
        call: Callable[..., Pattern[Event]] = getattr(pattern, part["relation"])
        if "group" in part:
            pattern = call(pattern_of(part["group"]))
        else:
            pattern = call(part["name"], condition_of(part.get("condition")))
        pattern = _with_words(pattern, part)
        for word, *arguments in part.get("calls", ()):
            pattern = _said(pattern, word, *arguments)
    return pattern.within(timedelta(milliseconds=within)) if within else pattern  # type: ignore[no-any-return]


def _with_words(pattern: Any, part: Case) -> Any:
    for word in ("one_or_more", "times", "times_or_more"):
        if word in part and part[word] is not False:
            gap = part.get("loop_gap_ms")
            pattern = _said(pattern, word, part[word], gap=None if gap is None else timedelta(milliseconds=gap))
    for word in ("optional", "consecutive", "allow_combinations", "greedy"):
        if part.get(word):
            pattern = _said(pattern, word)
    if "until" in part:
        pattern = _said(pattern, "until", part["until"])
    if part.get("within_ms"):
        pattern = pattern.within(timedelta(milliseconds=part["within_ms"]))
    if part.get("within_previous_ms"):
        pattern = pattern.within_previous(timedelta(milliseconds=part["within_previous_ms"]))
    return pattern


def _said(pattern: Any, word: str, argument: Any = None, **more: Any) -> Any:
    call = getattr(pattern, word)
    if word == "until":
        return call(condition_of(argument))
    if word in {"times", "times_or_more"}:
        return call(*(argument if isinstance(argument, list) else [argument]), **more)
    return call(**more) if word == "one_or_more" else call()


def skip_of(skip: Case | None) -> AfterMatchSkipStrategy:
    """Makes the skip strategy of a case."""
    if skip is None:
        return AfterMatchSkipStrategy.no_skip()
    arguments = [skip["part"]] if "part" in skip else []
    strategy: AfterMatchSkipStrategy = getattr(AfterMatchSkipStrategy, skip["strategy"])(*arguments)
    return strategy.throw_exception_on_miss() if skip.get("throw_on_miss") else strategy
