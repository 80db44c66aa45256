"""Runs process functions with broadcast state, which is kept once for the step, and not by key."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter as Totals
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, NoReturn

from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.functions import TimeDomain
from windrow.plan import BroadcastProcessNode, Step
from windrow.plan.emitting import records_of
from windrow.state import MapStateDescriptor, StateDescriptor
from windrow.tags import OutputTag
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error, shortened
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.process_operator import ProcessContext, ProcessOperator
from windrow_runtime.operators.state.handles import HasCells, MapHandle
from windrow_runtime.operators.state.time_to_live import other_cells

# Any in this module: elements, keys, rules and results of every type.


class BroadcastTaker(KeyedOperator):
    """Takes elements for all keys beside those of each key.

    An engine that divides the keys into parts passes the elements for all keys to each part. Each of these calls must
    begin with the same broadcast state, and ends with the same one.
    """

    @abstractmethod
    def process_broadcast(self, values: Sequence[Any], timestamps: Sequence[int | None], *, emits: bool = True) -> bool:
        """Process broadcast elements, in order, before the elements for single keys that came with them.

        Args:
            values: The elements.
            timestamps: Their timestamps.
            emits: Whether results that belong to no key are emitted; only one part of the keys emits them.

        Returns:
            Whether the call needs the state of all keys.
        """


class BroadcastOperator(ProcessOperator, BroadcastTaker):
    """Calls a process function with the elements and timers of keys, and with broadcast elements, which set rules."""

    def __init__(self, step: Step, node: BroadcastProcessNode) -> None:
        self._declared = frozenset(descriptor.name for descriptor in node.rules.descriptors)
        super().__init__(step, node)
        self._process_rule = node.function.process_broadcast_element
        self._rule_context = _RuleContext(self, self._declared)

    def _make_context(self) -> Any:
        return ReadingContext(self, self._declared)

    def process_broadcast(self, values: Sequence[Any], timestamps: Sequence[int | None], *, emits: bool = True) -> bool:
        context, collect = self._rule_context, self.output.collect
        applied = False
        for value, timestamp in zip(values, timestamps, strict=True):
            if self.observer is not None:
                self.observer.arrived(None, value, timestamp, for_all_keys=True)
            try:
                context.begin(timestamp, emits=emits)
                results = self._process_rule(value, context)
                if results is not None:
                    for result in records_of(results, self._result_type):
                        if emits:
                            collect(result, timestamp)
            except USER_ERRORS as error:
                raise_call_error(self.step, error, f"element for all keys {shortened(value)}")
            finally:
                context.end()
            applied = applied or context.applied
        return applied


class _RulesHandle(MapHandle):
    """A handle on a map of broadcast state; ``check`` raises an error if it must not be changed."""

    __slots__ = ("_check",)

    def __init__(self, store: HasCells, descriptor: MapStateDescriptor[Any, Any], check: Callable[[], None]) -> None:
        super().__init__(store, descriptor.name, descriptor)
        self._check = check

    def put(self, key: Any, value: Any) -> None:
        self._check()
        super().put(key, value)

    def remove(self, key: Any) -> None:
        self._check()
        super().remove(key)

    def clear(self) -> None:
        self._check()
        super().clear()


class _SharedStore:
    """The broadcast state of the key group that an operator works on."""

    __slots__ = ("_operator",)
    undo: ClassVar[None] = None  # a call for a key only reads broadcast state

    def __init__(self, operator: KeyedOperator) -> None:
        self._operator = operator

    @property
    def cells(self) -> dict[str, Any]:
        return self._operator.state.shared


class ReadingContext(ProcessContext):
    """The context of calls for a key, which may only read broadcast state."""

    __slots__ = ("_declared",)

    def __init__(self, operator: BroadcastOperator, declared: Collection[str]) -> None:
        super().__init__(operator)
        self._declared = declared

    def get_broadcast_state(self, descriptor: MapStateDescriptor[Any, Any]) -> _RulesHandle:
        self._check_call()
        if not isinstance(descriptor, MapStateDescriptor) or descriptor.name not in self._declared:
            raise InvalidArgumentError(
                "rules are asked for by a descriptor that was not broadcast",
                given=descriptor,
                expected=f"one of {', '.join(map(repr, sorted(self._declared)))}" if self._declared else None,
                hint="rules.broadcast(descriptor) declares it",
            )
        return _RulesHandle(_SharedStore(self._operator), descriptor, self._check_change)

    def _check_call(self) -> None:
        self._check_inside()

    def _check_change(self) -> None:
        raise UnsupportedOperationError(
            "rules were to be changed for one key",
            expected="a call of process_broadcast_element, outside of apply_to_keyed_state",
            hint="each group of keys has a copy of the rules, and all copies must stay the same",
        )


class _RuleContext(ReadingContext):
    """The context of broadcast elements. It has a key only while a function is applied to keyed state."""

    __slots__ = ("_counted", "_emits", "_is_called", "applied")

    def __init__(self, operator: BroadcastOperator, declared: Collection[str]) -> None:
        super().__init__(operator, declared)
        self._is_called = False
        self._emits = True
        self._counted = operator.metrics.values
        self.applied = False

    def begin(self, timestamp: int | None, *, emits: bool) -> None:
        """Begin a call for an element."""
        self._timestamp = self._output_timestamp = timestamp
        self._emits = emits
        self._is_called = True
        self.applied = False
        # A call that is repeated for another part of the keys does not count.
        self._counted = self._operator.metrics.values
        self._count(for_key=False)

    def end(self) -> None:
        """End the call."""
        self._is_called = False
        self._operator.metrics.values = self._counted

    def _count(self, *, for_key: bool) -> None:
        """Enables metrics for calls for a key, and for others only if results are emitted."""
        self._operator.metrics.values = self._counted if for_key or self._emits else (Totals(), {}, {})

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        if self._inside or self._emits:
            super().output(tag, value)

    def apply_to_keyed_state(
        self, descriptor: StateDescriptor, function: Callable[[Any, Any], Iterable[Any] | None]
    ) -> None:
        self._check_call()
        if self._inside:
            raise UnsupportedOperationError(
                "a function that is applied to keyed state applies another one",
                expected="a call in process_broadcast_element itself",
            )
        self.applied = True
        operator, timestamp, name = self._operator, self._timestamp, descriptor.name
        assert isinstance(operator, BroadcastOperator), "made by one"
        type_form = operator.step.node.element_type
        cells = {name, *other_cells(name, name)}
        for key in [key for key, key_state in operator.state.keys.items() if not cells.isdisjoint(key_state.state)]:
            try:
                self.enter(key, timestamp)
                self._count(for_key=True)
                state = self.get_state(descriptor)
                # The state may have expired.
                if state.holds() and (results := function(key, state)) is not None:
                    for result in records_of(results, type_form):
                        operator.output.collect(result, timestamp)
            except USER_ERRORS as error:
                raise_call_error(operator.step, error, f"{call_description(key)}, state {name!r}")
            finally:
                self.leave()
                self._count(for_key=False)

    def _event_time(self, name: str) -> int:
        # Broadcast elements often have no timestamps.
        return self._operator.current_watermark if self._timestamp is None else super()._event_time(name)

    @property
    def timer_service(self) -> NoReturn:
        raise UnsupportedOperationError(
            "an element for all keys sets no timers", expected="a call of process_element or on_timer"
        )

    @property
    def time_domain(self) -> TimeDomain:
        raise UnsupportedOperationError("an element has no time domain", expected="a call of on_timer")

    def _check_inside(self) -> None:
        if not self._inside:
            raise UnsupportedOperationError(
                "an element for all keys has no key, and no state of one",
                expected="a call of process_element or on_timer",
                hint="context.apply_to_keyed_state(descriptor, function) visits the state of all keys",
            )

    def _check_call(self) -> None:
        if not self._is_called:
            super()._check_inside()

    def _check_change(self) -> None:
        if self._inside or not self._is_called:
            super()._check_change()
