"""Runs keyed process functions, rolling aggregations among them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property, partial
from typing import Any

from windrow.errors import MissingTimestampError, UnsupportedOperationError
from windrow.facts.reached import reached_state
from windrow.functions import RuntimeContext, TimeDomain
from windrow.plan import BroadcastProcessNode, KeyedProcessNode, Step
from windrow.plan.emitting import records_of
from windrow.state import StateDescriptor, StateTtlConfig
from windrow.tags import OutputTag
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_runtime.operators.operator import KeyedOperator, OperatorRuntimeContext, TimerContext
from windrow_runtime.operators.state.handles import StateStore
from windrow_runtime.operators.state.model import KeyState, TimerQueue
from windrow_runtime.operators.state.time_to_live import TtlCells, TtlTimer, cell_name, clean_up

# Any in this module: elements, keys and results of every type.


class ProcessOperator(KeyedOperator):
    """Calls a process function with each key's elements and timers."""

    def __init__(self, step: Step, node: KeyedProcessNode | BroadcastProcessNode) -> None:
        super().__init__(step, (node.function,))
        self.step = step
        self._function = node.function
        self._result_type = node.element_type
        self._context = self._make_context()

    def open(self, runtime: RuntimeContext) -> None:
        if isinstance(runtime, OperatorRuntimeContext):
            runtime.store = self._context.store
        super().open(runtime)

    # Any: subclasses return the context that the function of their node takes.
    def _make_context(self) -> Any:
        return ProcessContext(self)

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        function = self._function.process_element
        collect = self.output.collect
        context = self._context
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            try:
                context.enter(key, timestamp)
                results = function(value, context)
                if results is not None:
                    for result in records_of(results, self._result_type):
                        collect(result, timestamp)
            except USER_ERRORS as error:
                raise_call_error(self.step, error, call_description(key, element=value))
            finally:
                context.leave()

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        if isinstance(namespace, TtlTimer):
            self._expire(key, namespace, time, event_time)
            return
        timestamp = time if event_time else None
        domain = TimeDomain.EVENT_TIME if event_time else TimeDomain.PROCESSING_TIME
        context = self._context
        try:
            context.enter(key, timestamp, domain, time)
            results = self._function.on_timer(time, context)
            if results is not None:
                for result in records_of(results, self._result_type):
                    self.output.collect(result, timestamp)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, f"{call_description(key)}, timer {time} in {domain.value}")
        finally:
            context.leave()

    def _expire(self, key: Hashable, timer: TtlTimer, time: int, event_time: bool) -> None:
        key_state = self.state.keys.get(key)
        if key_state is None:
            return
        descriptor = self._descriptors.get(timer.name)
        if descriptor is not None:
            # The checkpoint may be that of a program in which the state had another time to live.
            ttl = descriptor.ttl
            if ttl is None or (ttl.time_domain is TimeDomain.EVENT_TIME) != event_time:
                return  # the next call for the key converts the state
            timer = TtlTimer(timer.name, ttl.millis)
        # In event time state expires at the time of its timer, even if the watermark has advanced beyond it.
        now = time if event_time else self.current_processing_time
        domain = TimeDomain.EVENT_TIME if event_time else TimeDomain.PROCESSING_TIME
        following = clean_up(key_state.state, timer, domain, now)
        if following is not None:
            self.ttl_timers(domain).register(key, timer, following)
        if key_state.is_empty:
            del self.state.keys[key]

    @cached_property
    def _descriptors(self) -> dict[str, StateDescriptor]:
        return reached_state(self._function)

    def ttl_timers(self, domain: TimeDomain) -> TimerQueue:
        """Returns the timers in a time domain, which has those that remove expired state."""
        return self.state.event_timers if domain is TimeDomain.EVENT_TIME else self.state.processing_timers


class ProcessContext(TimerContext):
    """The context of process functions. One instance serves all calls; it has a key only during a call."""

    __slots__ = ("_domain", "_inside", "_output_timestamp", "_timers_of", "_timestamp", "store")

    def __init__(self, operator: ProcessOperator) -> None:
        super().__init__(operator)
        self.store = StateStore(self._expiring)
        self._timers_of = operator.ttl_timers
        self._inside = False
        self._timestamp: int | None = None
        self._output_timestamp: int | None = None  # of side outputs; also the time of a timer in processing time
        self._domain: TimeDomain | None = None

    def enter(
        self, key: Hashable, timestamp: int | None, domain: TimeDomain | None = None, timer: int | None = None
    ) -> None:
        """Begin a call for ``key``; ``timer`` is the time of the timer that fires."""
        key_state = self._operator.state.keys.get(key)
        self.store.at({} if key_state is None else key_state.state)
        self._key = key
        self._timestamp = timestamp
        self._output_timestamp = timestamp if timer is None else timer
        self._domain = domain
        self._inside = True

    def leave(self) -> None:
        """End the call."""
        if not self._inside:
            return
        self._inside = False
        keys, cells = self._operator.state.keys, self.store.cells
        if not cells:
            keys.pop(self._key, None)
        elif self._key not in keys:
            keys[self._key] = KeyState(state=cells)
        self.store.at(None)

    @property
    def key(self) -> Any:
        self._check_inside()
        return self._key

    @property
    def timestamp(self) -> int | None:
        return self._timestamp

    @property
    def time_domain(self) -> TimeDomain:
        if self._domain is None:
            raise UnsupportedOperationError("an element has no time domain", expected="a call of on_timer")
        return self._domain

    @property
    def timer_service(self) -> ProcessContext:
        self._check_inside()
        return self

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        self._operator.output.side_output(tag.name, value, self._output_timestamp)

    def get_state(self, descriptor: StateDescriptor) -> Any:
        if not self._inside:
            self._check_inside()
        return self.store.get_state(descriptor)

    def _expiring(self, name: str, ttl: StateTtlConfig) -> TtlCells:
        operator, domain, millis = self._operator, ttl.time_domain, ttl.millis
        if domain is TimeDomain.EVENT_TIME:
            now = self._event_time(name)
        else:
            operator.check_clock(f"a time to live of the state {name!r}")
            now = operator.current_processing_time
        set_timer = partial(self._timers_of(domain).register, self._key, TtlTimer(name, millis))
        assert self.store.cells is not None, "a call has a key"
        return TtlCells(self.store.cells, cell_name(name, ttl), millis, ttl.refresh_on_read, now, set_timer)

    def _event_time(self, name: str) -> int:
        """Returns the event time of the call: that of the element, or the watermark if that is later, or the timer's.

        A timer in event time sees the state of its time, even if the watermark has advanced beyond it.
        """
        if self._domain is TimeDomain.EVENT_TIME:
            assert self._output_timestamp is not None, "a timer has a time"
            return self._output_timestamp
        watermark = self._operator.current_watermark
        if self._timestamp is None:
            if self._domain is None and watermark == MIN_TIMESTAMP:
                raise MissingTimestampError(
                    "state expires in event time, and the element has no timestamp",
                    given=f"the state {name!r}",
                    expected="elements with timestamps",
                    hint="call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before, or "
                    "let the state expire in processing time",
                )
            return watermark
        # After the end of the input the watermark is no usable time.
        return self._timestamp if watermark == MAX_TIMESTAMP else max(self._timestamp, watermark)

    def _check_inside(self) -> None:
        if not self._inside:
            raise UnsupportedOperationError(
                "state, timers and the key exist only during a call for a key",
                expected="a call of process_element or on_timer",
                hint="do not keep the context; in open() and close() there is no key",
            )
