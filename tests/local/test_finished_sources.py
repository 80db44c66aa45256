"""A source that has come to its end is at the end of time: it holds nothing back while others go on.

The busy source has a batch for each second, and the short one has one batch of one element::

    batch     0    1    2    3    4    5 ...  19
    busy      0    1    2    3    4    5      19   seconds
    short     0.5  -                                at its end: from batch 2 on the busy watermark counts alone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.spark.comparison import Event
from tests.support.runs import in_order
from windrow import DataStream, Pipeline, from_source
from windrow.functions import KeyedBroadcastProcessFunction, KeyedCoProcessFunction, KeyedProcessContext
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import CollectionSource, CsvFileSource, Source
from windrow.state import MapStateDescriptor
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner

# Any in this module: results of every kind.
Stream: TypeAlias = DataStream[Event]

SECOND = 1000
BATCHES = 20
RULES = MapStateDescriptor("rules", str, int)
WINDOWS = TumblingEventTimeWindows.of(timedelta(seconds=2))


def key(event: Event) -> str:
    return event.key


def stamped(source: Source[Event]) -> Stream:
    return in_order(from_source(source), lambda event: event.at)


def busy() -> Stream:
    return stamped(CollectionSource([Event("a", n * SECOND, n) for n in range(BATCHES)], batch_size=1))


def short() -> Stream:
    return stamped(CollectionSource([Event("a", 500, 100)], batch_size=1))


def counted(key: str, window: Any, elements: Iterable[Event]) -> Sequence[int]:
    return [sum(1 for _ in elements)]


class Timed(KeyedCoProcessFunction[str, Event, Event, int]):
    """Sets a timer at each element of the first stream."""

    def process_element1(self, value: Event, context: KeyedProcessContext[str]) -> None:
        context.timer_service.register_event_time_timer(value.at)

    def process_element2(self, value: Event, context: KeyedProcessContext[str]) -> None:
        """Takes it."""

    def on_timer(self, timestamp: int, context: Any) -> Iterator[int]:
        yield timestamp


class Ruled(KeyedBroadcastProcessFunction[str, Event, Event, int]):
    """Sets a timer at each element of the keyed stream."""

    def process_element(self, value: Event, context: Any) -> None:
        context.timer_service.register_event_time_timer(value.at)

    def process_broadcast_element(self, value: Event, context: Any) -> None:
        context.get_broadcast_state(RULES).put(value.key, value.value)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[int]:
        yield timestamp


def united(first: Stream, second: Stream) -> DataStream[Any]:
    return first.union(second).key_by(key).window(WINDOWS).apply(counted)


def behind(first: Stream, second: Stream) -> DataStream[Any]:
    """Windows of the short stream alone, joined with the other one."""
    return united(first, second.key_by(key).window(WINDOWS).reduce(lambda a, b: a))


BOTH: dict[str, Callable[[Stream, Stream], DataStream[Any]]] = {
    "united": united,
    "joined": lambda a, b: a.left_join(b).where(key).equal_to(key).window(WINDOWS).apply(lambda a, b: a.value),
    "co-grouped": lambda a, b: (
        a.co_group(b).where(key).equal_to(key).window(WINDOWS).apply(lambda a, b: [len(list(a))])
    ),
    "left as-of": lambda a, b: a.key_by(key).left_as_of_join(b.key_by(key)).apply(lambda a, b: a.value),
    "connected": lambda a, b: a.key_by(key).connect(b.key_by(key)).process(Timed()),
    "broadcast": lambda a, b: a.key_by(key).connect(b.broadcast(RULES)).process(Ruled()),
    "behind windows": behind,
}


def results_by_batch(stream: DataStream[Any], *, drain: bool = True) -> dict[int, int]:
    taken: dict[int, int] = {}
    sink = FunctionSink[int](lambda batch, elements: taken.__setitem__(batch, len(elements)))
    LocalRunner().run(Pipeline("finished", stream.returns(int).sink_to(sink)), drain=drain)
    return taken


@pytest.mark.parametrize(
    ("name", "swapped"), [*((name, False) for name in BOTH), ("united", True), ("co-grouped", True)]
)
def test_a_source_at_its_end_holds_nothing_back(name: str, swapped: bool) -> None:
    streams = (short(), busy()) if swapped else (busy(), short())
    batches = results_by_batch(BOTH[name](*streams))
    # Not all of them in the last batch, when time ends.
    assert min(batches) <= 4
    assert len(batches) >= BATCHES // 2 - 1


def test_what_comes_of_a_finished_source_alone_is_complete() -> None:
    sink = FunctionSink[int](lambda batch, elements: taken.append(batch))
    taken = list[int]()
    windows = short().key_by(key).window(WINDOWS).apply(counted).returns(int)
    others = busy().map(lambda event: event.value).returns(int)
    LocalRunner().run(Pipeline("apart", windows.sink_to(sink), others.sink_to(CollectSink[int]())))
    assert taken == [2]


def test_the_end_of_all_sources_is_the_end_of_the_stream_for_a_drain_alone() -> None:
    assert sum(results_by_batch(united(busy(), short())).values()) == BATCHES // 2
    # Without it the last windows stay open, and each source counts with its own watermark.
    assert sum(results_by_batch(united(busy(), short()), drain=False).values()) == BATCHES // 2 - 1
    assert results_by_batch(united(short(), short()), drain=False) == {}


@pytest.mark.parametrize("drain", [False, True])
def test_a_folder_may_have_more_unless_the_run_drains(tmp_path: Path, drain: bool) -> None:
    (tmp_path / "rows.csv").write_text("key,at,value\na,500,1\n")
    files = stamped(CsvFileSource(str(tmp_path), Event))
    batches = results_by_batch(united(busy(), files), drain=drain)
    assert (len(batches) > 1) == drain


def test_windows_of_a_folder_that_is_read_hold_back_those_behind_them(tmp_path: Path) -> None:
    """Their results are still to come: only the end of the stream fires them, as a later run may have more files."""
    (tmp_path / "rows.csv").write_text("key,at,value\na,500,1\n")
    stream = behind(busy(), stamped(CsvFileSource(str(tmp_path), Event)))
    assert sum(results_by_batch(stream).values()) == BATCHES // 2
    counts: list[int] = []
    sink = FunctionSink[int](lambda batch, elements: counts.extend(elements))
    result = LocalRunner().run(Pipeline("behind", stream.returns(int).sink_to(sink)))
    assert sum(counts) == BATCHES + 1
    assert not any("late_records_dropped" in counters for counters in result.counters.values())
