"""What notebooks show of a pipeline and of its result."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree

from windrow import Pipeline, from_collection
from windrow.functions import MapFunction, RuntimeContext
from windrow.sinks import CollectSink, FunctionSink
from windrow_runtime.local import LocalRunner


class Named(NamedTuple):
    name: str
    size: int


class Counting(MapFunction[int, Named]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.metrics.counter("seen <b>")

    def map(self, value: int) -> Named:
        self.seen.inc()
        return Named(f"<b>{value}</b> & more", value)


class Unshown:
    def __repr__(self) -> str:
        raise ValueError("it has none")


def test_a_result_is_tables_of_counters_and_of_first_elements() -> None:
    numbers = from_collection(list(range(1_200)))
    named, others, taken = CollectSink[Named]("named"), CollectSink[object](), list[int]()
    pipeline = Pipeline(
        "a <pipeline>",
        numbers.map(Counting(), name="count").sink_to(named),
        numbers.filter(lambda number: number < 2).map(lambda number: Unshown() if number else number).sink_to(others),
        numbers.sink_to(FunctionSink(lambda batch, elements: taken.extend(elements))),
    )
    result = LocalRunner().run(pipeline)
    html = result._repr_html_()
    root = ElementTree.fromstring(f"<html>{html}</html>")
    assert "<b>" not in html
    assert [text.text for text in root.iter("p")] == [
        "PipelineResult('a <pipeline>', 7 steps, 1202 collected)",
        "a <pipeline>.3.sink: 1,200 collected, the first 10 of which are",
        "a <pipeline>.6.sink: 2 collected",
    ]
    tables = [[[cell.text for cell in row] for row in table] for table in root.iter("table")]
    assert tables == [
        [["step", "counter", "total"], ["a <pipeline>.2.count", "seen <b>", "1,200"]],
        [["name", "size"], *[[repr(f"<b>{number}</b> & more"), str(number)] for number in range(10)]],
        [["value"], ["0"], ["<Unshown, whose repr raised ValueError>"]],
    ]


def test_a_result_without_counters_has_no_table_of_them() -> None:
    sink = CollectSink[int]()
    result = LocalRunner().run(Pipeline("p", from_collection([1]).sink_to(sink)))
    assert result._repr_html_() == (
        "<p>PipelineResult('p', 2 steps, 1 collected)</p>\n<p>p.2.sink: 1 collected</p>\n"
        "<table>\n<tr><th>value</th></tr>\n<tr><td>1</td></tr>\n</table>"
    )


def test_a_pipeline_is_its_picture() -> None:
    pipeline = Pipeline("p", from_collection([1]).sink_to(CollectSink[int]()))
    assert pipeline._repr_html_() == pipeline.explain(format="svg")
    assert ElementTree.fromstring(pipeline._repr_html_()).tag.endswith("svg")
