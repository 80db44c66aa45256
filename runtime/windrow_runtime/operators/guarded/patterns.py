"""Runs patterns with an error policy: an element whose condition raises is passed over, and a match may fail alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

from windrow.plan import PatternNode, Step
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, call_description, first_line, raise_call_error, shortened
from windrow_runtime.operators.guarded.guard import NO_RESULT, Guard
from windrow_runtime.operators.ordered.buffer import several
from windrow_runtime.operators.ordered.matcher import Match
from windrow_runtime.operators.ordered.pattern_operator import PatternOperator

# Any in this module: elements and results of every type.


class GuardedPatternOperator(PatternOperator):
    """Gives elements to a matcher, which forgets one for which a condition raises, as if it had not come.

    Matches are held until the element that completes them was taken; then the function is called for each.
    """

    def __init__(self, step: Step, node: PatternNode) -> None:
        assert node.error_policy is not None, "the caller has asked"
        super().__init__(step, node)
        self._policy = node.error_policy
        self._guard = Guard(step, node.error_policy, self._put_out)
        self._held: list[Match] = []

    def _put_out(self, tag: str, failed: object, timestamp: int | None) -> None:
        self.output.side_output(tag, failed, timestamp)

    def _release(self, key: Hashable, cells: dict[str, Any], reached: list[tuple[int, Any]]) -> int | None:
        matcher = self._matcher
        matcher.load(cells)
        for timestamp, waiting in reached:
            for value in self._ordered(key, timestamp, several(waiting)):
                self._guarded(key, [value], timestamp, partial(self._take, value, timestamp))
                self._pass_on(key)
        try:
            matcher.advance(self.current_watermark)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key))
        self._pass_on(key)
        matcher.store(cells)
        return matcher.due()

    def _ordered(self, key: Hashable, timestamp: int, values: Sequence[Any]) -> Sequence[Any]:
        """Returns the elements of one timestamp in their order; those for which ``tie_break`` raises are left out."""
        if self._tie_break is None:
            return values
        ranked = [(self._guarded(key, [value], timestamp, partial(self._rank, value)), value) for value in values]
        try:
            # What cannot be compared is no error of one element: it fails the run, as without a policy.
            ranked = sorted([each for each in ranked if each[0] is not NO_RESULT], key=itemgetter(0))
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key))
        return [value for _, value in ranked]

    def _rank(self, value: Any) -> Any:
        assert self._tie_break is not None, "the caller has asked"
        return self._tie_break(own(value) if self._guard.gives_copies else value)

    def _take(self, value: Any, timestamp: int) -> None:
        mark = self._matcher.mark()
        try:
            self._matcher.element(own(value) if self._guard.gives_copies else value, timestamp)
        except BaseException:
            self._matcher.back_to(mark)
            self._held.clear()
            raise

    def _emit(self, match: Match) -> None:
        self._held.append(match)

    def _pass_on(self, key: Hashable) -> None:
        """Makes the records of the matches that were held."""
        held, self._held = self._held, []
        for match in held:
            if not match.is_whole:
                super()._emit(match)
                continue
            elements = list(chain.from_iterable(match.parts.values()))
            text = partial(_text_of_match, key)
            result = self._guarded(key, elements, match.timestamp, partial(self._made, match.parts), text)
            if result is not NO_RESULT:
                self.output.collect(result, match.timestamp)

    def _made(self, parts: dict[str, list[Any]]) -> Any:
        copies = self._guard.gives_copies or not self._makes_record
        return self._function(own(parts) if copies else parts)

    def _guarded(
        self,
        key: Hashable,
        elements: list[Any],
        timestamp: int,
        call: Callable[[], Any],
        text: Callable[[BaseException], str] = first_line,
    ) -> Any:
        """Returns the result of a call; ``NO_RESULT`` if it has failed."""
        try:
            return call()
        except USER_ERRORS as error:
            self._guard.metrics = self.metrics
            given = partial(call_description, key, element=elements[0] if len(elements) == 1 else elements)
            result = self._guard.settle(error, own(elements), timestamp, call, given=given, text=text)
            if result is NO_RESULT and self.observer is not None:
                self.observer.failed(self._policy)
            return result


def _text_of_match(key: Hashable, error: BaseException) -> str:
    return f"{first_line(error)} (key {shortened(key)}, a match)"
