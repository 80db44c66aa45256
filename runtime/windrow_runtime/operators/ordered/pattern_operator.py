"""Runs steps that look for a pattern."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import groupby
from typing import Any

from windrow.plan import PatternNode, Step
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_runtime.operators.ordered.automaton import Automaton
from windrow_runtime.operators.ordered.buffer import InEventTimeOperator
from windrow_runtime.operators.ordered.matcher import Match, Matcher
from windrow_runtime.operators.state.model import NOTHING

# Any in this module: elements and results of every type.


class PatternOperator(InEventTimeOperator):
    """Gives the elements of a key, in event-time order, to a matcher, and makes a record of each match."""

    def __init__(self, step: Step, node: PatternNode) -> None:
        super().__init__(step, node, node.user_parts)
        self._function = node.function
        self._tie_break = node.tie_break
        self._timed_out_tag = node.timed_out_tag
        automaton = Automaton(node.pattern.parts)
        self._matcher = Matcher(automaton, node.pattern.within_millis, node.skip, self._emit)

    def _release(self, key: Hashable, cells: dict[str, Any], values: list[Any], times: list[int]) -> int | None:
        matcher = self._matcher
        value: Any = NOTHING
        try:
            if self._tie_break is not None and len(values) > 1:
                values = self._untied(values, times)
            matcher.load(cells)
            for value, timestamp in zip(values, times, strict=True):
                matcher.element(value, timestamp)
            value = NOTHING
            matcher.advance(self.current_watermark)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, element=value))
        matcher.store(cells)
        return matcher.due()

    def _untied(self, values: list[Any], times: list[int]) -> list[Any]:
        """Returns elements in an order in which those of one timestamp are by the user's function."""
        ordered: list[Any] = []
        for _, alike in groupby(zip(times, values, strict=True), key=_timestamp):
            tied = [value for _, value in alike]
            ordered += sorted(tied, key=self._tie_break) if len(tied) > 1 else tied
        return ordered

    def _emit(self, match: Match) -> None:
        if match.is_whole:
            self.output.collect(self._function(match.parts), match.timestamp)
        elif self._timed_out_tag is not None:
            self.output.side_output(self._timed_out_tag.name, match.parts, match.timestamp)


def _timestamp(pair: tuple[int, Any]) -> int:
    return pair[0]
