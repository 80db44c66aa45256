"""Window functions from JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from tests.conformance.cases import CaseError, Fields, Json, decode, encode, window_json
from tests.conformance.elements import Element, Record, number
from tests.conformance.engines import Computed
from windrow import DataStream, OutputTag
from windrow.builder.windowed import AllWindowedStream, MergingAllWindowedStream, MergingWindowedStream, WindowedStream
from windrow.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.state import ValueStateDescriptor

# Any in this module: a case chooses the type of its windows.
Keyed: TypeAlias = WindowedStream[Element, str, Any] | MergingWindowedStream[Element, str, Any]
NonKeyed: TypeAlias = AllWindowedStream[Element, Any] | MergingAllWindowedStream[Element, Any]
Evaluate: TypeAlias = Callable[[ProcessWindowContext[Any], Sequence[Element]], Iterable[Json]]

_SIDE = OutputTag("side", str)


def compute(stage: Keyed | NonKeyed, fields: Fields, name: str, late: OutputTag[Element] | None) -> Computed:
    """The streams of what the function that ``fields`` describe makes of the windows, in a step with this name."""
    kind = fields.text("type")
    with_window = fields.flag("with_window", False)
    values = fields.items("values") if kind == "process_const" else []
    fields.done()
    if kind in ("reduce_sum", "aggregate_mean") and not with_window:
        step = stage.reduce(_add, name=name) if kind == "reduce_sum" else stage.aggregate(_Mean(), name=name)
        return Computed(step.map(_record), _late(step, late))
    evaluate = _evaluations(values).get(kind)
    if evaluate is None:
        raise CaseError(f"unknown function {kind!r}")
    keyed = isinstance(stage, (WindowedStream, MergingWindowedStream))
    function: Any = _Process(evaluate, with_window) if keyed else _ProcessAll(evaluate, with_window)
    if kind == "reduce_sum":
        records = stage.reduce(_add, function, name=name)
    elif kind == "aggregate_mean":
        records = stage.aggregate(_Mean(), function, name=name)
    else:
        records = stage.process(function, name=name)
    sides = {"side": records.get_side_output(_SIDE)} if kind == "process_side" else {}
    return Computed(records, _late(records, late), sides)


def _late(step: DataStream[Any], late: OutputTag[Element] | None) -> dict[int, DataStream[Element]]:
    return {} if late is None else {1: step.get_side_output(late)}


def _add(a: Element, b: Element) -> Element:
    return Element.of(decode(a.key), number(a) + number(b))


def _record(element: Element) -> Record:
    return Record(element.key, element.value)


class _Mean(AggregateFunction[Element, tuple[str, float, int], Element]):
    """The mean; the key goes along, so that it can be told without a window function."""

    def create_accumulator(self) -> tuple[str, float, int]:
        return "null", 0, 0

    def add(self, value: Element, accumulator: tuple[str, float, int]) -> tuple[str, float, int]:
        _, total, count = accumulator
        return value.key, total + number(value), count + 1

    def get_result(self, accumulator: tuple[str, float, int]) -> Element:
        key, total, count = accumulator
        return Element.of(decode(key), total / count)

    def merge(self, a: tuple[str, float, int], b: tuple[str, float, int]) -> tuple[str, float, int]:
        return a[0], a[1] + b[1], a[2] + b[2]


class _Process(ProcessWindowFunction[Element, Record, str, Any]):
    def __init__(self, evaluate: Evaluate, with_window: bool) -> None:
        self._evaluate = evaluate
        self._with_window = with_window

    def process(self, key: str, context: ProcessWindowContext[Any], elements: Sequence[Element]) -> Iterable[Record]:
        window = encode(window_json(context.window)) if self._with_window else "null"
        for value in self._evaluate(context, elements):
            yield Record(key, encode(value), window)


class _ProcessAll(ProcessAllWindowFunction[Element, Record, Any]):
    def __init__(self, evaluate: Evaluate, with_window: bool) -> None:
        self._keyed = _Process(evaluate, with_window)

    def process(self, context: ProcessWindowContext[Any], elements: Sequence[Element]) -> Iterable[Record]:
        return self._keyed.process("null", context, elements)


def _side(context: ProcessWindowContext[Any], elements: Sequence[Element]) -> Iterable[Json]:
    # An evictor may have left none.
    for element in elements[:1]:
        context.output(_SIDE, element.value)
    return []


_FIRINGS = ValueStateDescriptor[int]("firings")


def _firing_index(context: ProcessWindowContext[Any], elements: Sequence[Element]) -> Iterable[Json]:
    firings = context.window_state.get_state(_FIRINGS)
    index = (firings.value() or 0) + 1
    firings.update(index)
    return [index]


def _evaluations(constants: list[Json]) -> dict[str, Evaluate]:
    def each(context: ProcessWindowContext[Any], elements: Sequence[Element]) -> Iterable[Json]:
        return [decode(element.value) for element in elements]

    return {
        "reduce_sum": each,
        "aggregate_mean": each,
        "process_sum": lambda context, elements: [sum(map(number, elements))],
        "process_list": lambda context, elements: [[decode(element.value) for element in elements]],
        "process_each": each,
        "process_const": lambda context, elements: constants,
        "process_nothing": lambda context, elements: [],
        "process_side": _side,
        "process_watermark": lambda context, elements: [context.current_watermark],
        "process_processing_time": lambda context, elements: [context.current_processing_time],
        "process_firing_index": _firing_index,
    }
