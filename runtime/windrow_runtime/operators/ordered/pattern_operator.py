"""Runs steps that look for a pattern."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from windrow.patterns import SkipTo
from windrow.patterns.parts import Part, Relation
from windrow.plan import PatternNode, Step
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_runtime.operators.ordered.automaton import Automaton
from windrow_runtime.operators.ordered.buffer import InEventTimeOperator, several
from windrow_runtime.operators.ordered.matcher import Match, Matcher
from windrow_runtime.operators.state.model import NOTHING

# Any in this module: elements and results of every type.


class PatternOperator(InEventTimeOperator):
    """Gives the elements of a key, in event-time order, to a matcher, and makes a record of each match."""

    def __init__(self, step: Step, node: PatternNode) -> None:
        super().__init__(step, node, node.user_parts)
        self._function = node.function
        self._makes_record = isinstance(node.function.function, type)
        self._tie_break = node.tie_break
        self._timed_out_tag = node.timed_out_tag
        # With a policy a condition is called once for an element, when it is its turn; one that fails changes nothing.
        self._matters = _filter_of(node) if node.error_policy is None else None
        gives_copies = node.error_policy is not None and not is_constant_type(node.input.element_type)
        automaton = Automaton(node.pattern.parts)
        self._matcher = Matcher(automaton, node.pattern.within_millis, node.skip, self._emit, gives_copies=gives_copies)

    def _release(self, key: Hashable, cells: dict[str, Any], reached: list[tuple[int, Any]]) -> int | None:
        matcher, ties = self._matcher, self._tie_break
        take = matcher.element
        value: Any = NOTHING
        try:
            matcher.load(cells)
            for timestamp, waiting in reached:
                value = NOTHING  # an error of the order of several is none of the element before
                for value in several(waiting) if ties is None else sorted(several(waiting), key=ties):
                    take(value, timestamp)
            value = NOTHING
            matcher.advance(self.current_watermark)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, element=value))
        matcher.store(cells)
        return matcher.due()

    def _emit(self, match: Match) -> None:
        if match.is_whole:
            # A function may change what it is handed, and other matches may have the same elements.
            parts = match.parts if self._makes_record else own(match.parts)
            self.output.collect(self._function(parts), match.timestamp)
        elif self._timed_out_tag is not None:
            self.output.side_output(self._timed_out_tag.name, match.parts, match.timestamp)


def _filter_of(node: PatternNode) -> Callable[[Any], bool] | None:
    """Makes the function that says whether an element can matter, so that others need not wait; None: each can.

    An element that meets no condition is passed over, where none has to be the very next one. With a skip strategy
    each element may release a match.
    """
    if node.skip.to is not SkipTo.NOTHING or any(map(_looks_at_each, node.pattern.parts)):
        return None
    conditions = [condition for part in node.pattern.parts for condition in part.conditions()]
    functions = [condition.function for condition in conditions if condition.function is not None]

    def matters(value: Any) -> bool:
        try:
            # It is called for each element: a generator in any() takes twice as long.
            for function in functions:
                if function(value):
                    return True
        except USER_ERRORS:
            # The condition may not be asked for this element, or fails there, with the key.
            return True
        return False

    return matters


def _looks_at_each(part: Part) -> bool:
    """Returns whether each element counts for a part, whatever conditions it meets."""
    if part.relation in {Relation.NEXT, Relation.NOT_NEXT} or part.between is Relation.NEXT:
        return True
    if any(condition.sees_matched for condition in part.conditions()):
        return True
    return any(map(_looks_at_each, part.group)) if part.group else part.condition.function is None
