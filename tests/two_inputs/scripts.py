"""Scripted functions of two inputs: expressions, conditions and instructions from JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.conformance.cases import CaseError, Json, decode, encode
from tests.conformance.elements import Element, Record
from windrow import OutputTag
from windrow.errors import UnsupportedOperationError
from windrow.functions import (
    BroadcastContext,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    ProcessContext,
    ReadOnlyContext,
    TimeDomain,
)
from windrow.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

_VARIABLES: Final = ("$value", "$ts", "$key", "$watermark", "$processing_time", "$domain")
_EXPRESSIONS: Final = {"add": 2, "list": None, "get": 1, "lookup": 2, "entries": 1}
"""How many arguments an expression has; None: any number."""
_CONDITIONS: Final = {"is_null": 1, "equal": 2, "less": 2}
_TIMERS: Final = ("event_timer", "processing_timer", "delete_event_timer", "delete_processing_timer")
_INSTRUCTIONS: Final = {
    "emit": 1,
    "side": 2,
    "set": 2,
    "append": 2,
    "clear": 1,
    "if": None,
    "put": 3,
    "remove": 2,
    "for_each_key": 2,
    **dict.fromkeys(_TIMERS, 1),
}
_NAMED: Final = ("get", "side", "set", "append", "clear", "lookup", "entries", "put", "remove", "for_each_key")
"""The expressions and instructions whose first argument is a name, and so is no expression."""


@dataclass(frozen=True)
class Scripts:
    """What a function does on each call: the instructions for elements of each input, and for timers."""

    states: Mapping[str, str]  # the kind of each state of a key: ``value`` or ``list``
    tags: tuple[str, ...]  # the side outputs
    maps: tuple[str, ...]  # the maps of rules
    on_element1: list[Json]
    on_element2: list[Json]
    on_timer: list[Json]

    @property
    def uses_processing_time(self) -> bool:
        """Whether a call sets timers by the clock."""
        return '"processing_timer"' in encode([self.on_element1, self.on_element2, self.on_timer])

    def check(self) -> None:
        """See that every instruction and every name is known."""
        for kind in self.states.values():
            if kind not in ("value", "list"):
                raise CaseError(f"unknown kind of state {kind!r}")
        for instructions in (self.on_element1, self.on_element2, self.on_timer):
            self._check_all(instructions)

    def _check_all(self, instructions: Json) -> None:
        if not isinstance(instructions, list):
            raise CaseError(f"instructions are a list, not {encode(instructions)}")
        for instruction in instructions:
            self._check_instruction(instruction)

    def _check_instruction(self, instruction: Json) -> None:
        name, arguments = _parts(instruction, _INSTRUCTIONS, "instruction")
        if name == "if":
            if len(arguments) not in (2, 3):
                raise CaseError(f"an if has two or three parts: {encode(instruction)}")
            _, parts = _parts(arguments[0], _CONDITIONS, "condition")
            for part in parts:
                self._check_expression(part)
            for branch in arguments[1:]:
                self._check_all(branch)
            return
        if name in _NAMED:
            self._check_name(name, arguments.pop(0))
        if name == "for_each_key":
            self._check_all(arguments[0])
            return
        for argument in arguments:
            self._check_expression(argument)

    def _check_expression(self, expression: Json) -> None:
        if isinstance(expression, str) and expression.startswith("$") and expression not in _VARIABLES:
            raise CaseError(f"unknown variable {expression!r}")
        if not isinstance(expression, list):
            return
        name, arguments = _parts(expression, _EXPRESSIONS, "expression")
        if name in _NAMED:
            self._check_name(name, arguments.pop(0))
        for argument in arguments:
            self._check_expression(argument)

    def _check_name(self, used_by: str, name: Json) -> None:
        """A name of a map need not be declared: that it is not may be what a case is about."""
        if used_by == "side":
            known = name in self.tags
        elif used_by in ("lookup", "entries", "put", "remove"):
            known = isinstance(name, str)
        else:
            known = isinstance(name, str) and name in self.states
            known = known and (used_by != "append" or self.states[str(name)] == "list")
            known = known and (used_by != "set" or self.states[str(name)] == "value")
        if not known:
            raise CaseError(f"{used_by} has an unknown name, {encode(name)}")


def _parts(part: Json, known: Mapping[str, int | None], what: str) -> tuple[str, list[Json]]:
    """The name and the arguments of a part of a script."""
    if not isinstance(part, list) or not part or not isinstance(part[0], str) or part[0] not in known:
        raise CaseError(f"unknown {what} {encode(part)}")
    name, arguments = part[0], part[1:]
    count = known[name]
    if count is not None and len(arguments) != count:
        raise CaseError(f"{name} has {count} arguments, not {len(arguments)}: {encode(part)}")
    return name, arguments


# Any in what follows: the context of whichever call it is. A case may ask a context for what it does not have, and sees
# that it is refused, while the type checker would not let it ask.
@dataclass(frozen=True)
class _Call:
    """One call of a function."""

    scripts: Scripts
    context: Any
    timestamp: int | None
    value: Json = None
    domain: str | None = None
    key_of_rule: str | None = None  # the key at hand while a rule visits the state of all keys
    is_rule: bool = False

    def run(self, instructions: Sequence[Json]) -> Iterator[Record]:
        """Do what the instructions say; gives what they emit."""
        for instruction in instructions:
            name, arguments = _parts(instruction, _INSTRUCTIONS, "instruction")
            if name == "emit":
                yield Record("null", encode(self._value_of(arguments[0])))
            elif name == "if":
                holds = self._holds(arguments[0])
                branch = arguments[1] if holds else arguments[2] if len(arguments) > 2 else []
                assert isinstance(branch, list), "checked when it was read"
                yield from self.run(branch)
            elif name == "for_each_key":
                self._for_each_key(arguments)
            else:
                self._do(name, arguments)

    def _do(self, name: str, arguments: Sequence[Json]) -> None:
        first = arguments[0]
        if name == "side":
            self.context.output(OutputTag(str(first), str), encode(self._value_of(arguments[1])))
        elif name == "set":
            value = self._value_of(arguments[1])
            state = self._state(str(first))
            if value is None:  # as in Flink, whose value states have no null
                state.clear()
            else:
                state.update(encode(value))
        elif name == "append":
            self._state(str(first)).add(encode(self._value_of(arguments[1])))
        elif name == "clear":
            self._state(str(first)).clear()
        elif name == "put":
            self._map(first).put(self._rule_key(arguments[1]), encode(self._value_of(arguments[2])))
        elif name == "remove":
            self._map(first).remove(self._rule_key(arguments[1]))
        else:
            self._timer(name, self._value_of(first))

    def _timer(self, name: str, time: Json) -> None:
        if isinstance(time, bool) or not isinstance(time, int):
            raise CaseError(f"the time of a timer is an integer, not {encode(time)}")
        timers = self.context.timer_service
        calls: Mapping[str, Callable[[int], None]] = {
            "event_timer": timers.register_event_time_timer,
            "processing_timer": timers.register_processing_time_timer,
            "delete_event_timer": timers.delete_event_time_timer,
            "delete_processing_timer": timers.delete_processing_time_timer,
        }
        calls[name](time)

    def _for_each_key(self, arguments: Sequence[Json]) -> None:
        name, instructions = arguments
        assert isinstance(instructions, list), "checked when it was read"

        def visit(key: str, state: object) -> list[Record]:
            return list(replace(self, key_of_rule=key).run(instructions))

        self.context.apply_to_keyed_state(_descriptor(self.scripts, str(name)), visit)

    def _holds(self, condition: Json) -> bool:
        name, arguments = _parts(condition, _CONDITIONS, "condition")
        first, *others = map(self._value_of, arguments)
        if name == "is_null":
            return first is None
        if name == "equal":
            return encode(first) == encode(others[0])
        return _number(first) < _number(others[0])

    def _value_of(self, expression: Json) -> Json:
        if isinstance(expression, str) and expression.startswith("$"):
            return self._variable(expression)
        if not isinstance(expression, list):
            return expression
        name, arguments = _parts(expression, _EXPRESSIONS, "expression")
        if name == "add":
            first, second = map(self._value_of, arguments)
            return _number(first) + _number(second)
        if name == "list":
            return [self._value_of(argument) for argument in arguments]
        if name == "get":
            return self._get(str(arguments[0]))
        if name == "lookup":
            found = self._map(arguments[0]).get(self._rule_key(arguments[1]))
            return None if found is None else decode(found)
        return {key: decode(rule) for key, rule in self._map(arguments[0]).items()}

    def _variable(self, name: str) -> Json:
        if name == "$value":
            return self.value
        if name == "$ts":
            return self.timestamp
        if name == "$domain":
            return self.domain
        if name == "$key":
            key: str = self.context.key if self.key_of_rule is None else self.key_of_rule
            return decode(key)
        # Elements for all keys have no timers, but time.
        times = self.context if self.is_rule else self.context.timer_service
        time: int = times.current_watermark if name == "$watermark" else times.current_processing_time
        return time

    def _get(self, name: str) -> Json:
        state = self._state(name)
        if self.scripts.states[name] == "list":
            return [decode(value) for value in state.get()]
        value: str | None = state.value()
        return None if value is None else decode(value)

    def _state(self, name: str) -> Any:
        return self.context.get_state(_descriptor(self.scripts, name))

    def _map(self, name: Json) -> Any:
        return self.context.get_broadcast_state(MapStateDescriptor(str(name), str, str))

    def _rule_key(self, expression: Json) -> str:
        key = self._value_of(expression)
        return key if isinstance(key, str) else encode(key)


def _descriptor(scripts: Scripts, name: str) -> ListStateDescriptor[str] | ValueStateDescriptor[str]:
    return ListStateDescriptor(name, str) if scripts.states[name] == "list" else ValueStateDescriptor(name, str)


def _number(value: Json) -> int | float:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CaseError(f"a script calculates with numbers, not {encode(value)}")
    return value


class _Scripted:
    """Does what a case says, for elements of each input and for timers."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self.uses_processing_time = scripts.uses_processing_time

    def _first(self, value: Element, context: Any) -> Iterator[Record]:
        return _Call(self._scripts, context, context.timestamp, decode(value.value)).run(self._scripts.on_element1)

    def _second(self, value: Element, context: Any, *, is_rule: bool = False) -> Iterator[Record]:
        call = _Call(self._scripts, context, context.timestamp, decode(value.value), is_rule=is_rule)
        return call.run(self._scripts.on_element2)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[Record]:
        domain = "event" if context.time_domain is TimeDomain.EVENT_TIME else "processing"
        return _Call(self._scripts, context, timestamp, domain=domain).run(self._scripts.on_timer)


class ScriptedConnect(_Scripted, KeyedCoProcessFunction[str, Element, Element, Record]):
    """Does on connected keyed streams what a case says."""

    def process_element1(self, value: Element, context: KeyedProcessContext[str]) -> Iterator[Record]:
        return self._first(value, context)

    def process_element2(self, value: Element, context: KeyedProcessContext[str]) -> Iterator[Record]:
        return self._second(value, context)


class ScriptedBroadcast(_Scripted, KeyedBroadcastProcessFunction[str, Element, Element, Record]):
    """Does on a keyed stream with broadcast rules what a case says."""

    def process_element(self, value: Element, context: ReadOnlyContext[str]) -> Iterator[Record]:
        return self._first(value, context)

    def process_broadcast_element(self, value: Element, context: BroadcastContext[str, Record]) -> Iterator[Record]:
        return self._second(value, context, is_rule=True)


class _WithoutKey:
    """The context of a function without keys, which refuses state and the key instead of lacking them."""

    def __init__(self, context: ProcessContext) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._context, name):
            raise UnsupportedOperationError(
                f"a function of connected streams without keys has no {name}", expected="keyed streams"
            )
        return getattr(self._context, name)


class ScriptedConnectWithoutKeys(_Scripted, CoProcessFunction[Element, Element, Record]):
    """Does on connected streams without keys what a case says."""

    def process_element1(self, value: Element, context: ProcessContext) -> Iterator[Record]:
        return self._first(value, _WithoutKey(context))

    def process_element2(self, value: Element, context: ProcessContext) -> Iterator[Record]:
        return self._second(value, _WithoutKey(context))
