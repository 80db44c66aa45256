"""Numbers that are pushed by short scripts, and what comes out at which move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from windrow import DataStream, KeyedStream, Pipeline, from_source
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.sinks import CollectSink
from windrow.time import MAX_TIMESTAMP
from windrow.windows import TimeWindow, Window
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import PushSource, StreamHarness

__all__ = ["KEYED", "NUMBERS", "Shown", "WithWindow", "collected", "drops", "feed", "story"]

T = TypeVar("T")
W = TypeVar("W", bound=Window)

NUMBERS: Final = PushSource(int)
KEYED: Final[KeyedStream[int, str]] = from_source(NUMBERS).key_by(lambda _: "key")
_COUNTERS: Final = {
    "late": "late_records_dropped",
    "closed": "closed_window_records_dropped",
    "unfired": "unfired_window_records_dropped",
}


class Shown(ProcessWindowFunction[int, str, str, W]):
    """Gives each pane as its timing and its elements."""

    def process(self, key: str, context: ProcessWindowContext[W], elements: Sequence[int]) -> Iterable[str]:
        return [" ".join([context.pane.timing.name, *map(str, elements)])]


# Any in this module: elements and results of every type.
class WithWindow(ProcessWindowFunction[Any, tuple[str, TimeWindow, tuple[Any, ...]], str, TimeWindow]):
    """Gives the elements of a window with its key and its bounds."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Any]
    ) -> list[tuple[str, TimeWindow, tuple[Any, ...]]]:
        return [(key, context.window, tuple(elements))]


def feed(harness: StreamHarness[int, Any], moves: str) -> None:
    """Makes some moves.

    ``3`` is an element with its number as timestamp, ``3/7`` has timestamp 7, and ``3/`` none. ``^9`` is the watermark,
    ``^`` the end of the stream, ``@5`` the clock, and ``|`` a snapshot that is restored.
    """
    for move in moves.split():
        if move == "|":
            harness.snapshot_restore()
        elif move[0] == "^":
            harness.process_watermark(int(move[1:] or MAX_TIMESTAMP))
        elif move[0] == "@":
            harness.set_processing_time(int(move[1:]))
        else:
            number, slash, at = move.partition("/")
            harness.process_element(int(number), None if slash and not at else int(at or number))


def collected(stream: DataStream[T], *, drain: bool = True, **options: Any) -> list[T]:
    """What the interpreter gives, with options of its own."""
    sink = CollectSink[T]()
    return LocalRunner(**options).run(Pipeline("plan", stream.sink_to(sink)), drain=drain).collected(sink)


def drops(harness: StreamHarness[int, Any]) -> dict[str, int]:
    """How many elements were dropped, and why."""
    return {why: harness.counter(name) for why, name in _COUNTERS.items()}


def story(stream: DataStream[Any], moves: str, *, restores: bool = False) -> dict[str, list[Any]]:
    """What comes out at which move, and how many elements are dropped at it.

    Args:
        stream: A stream of the numbers.
        moves: The moves, as `feed` takes them.
        restores: Whether a snapshot is restored behind each move.
    """
    told: dict[str, list[Any]] = {}
    with StreamHarness(stream, NUMBERS) as harness:
        before = drops(harness)
        for move in moves.split():
            feed(harness, move)
            if restores:
                harness.snapshot_restore()
            events = harness.take_values()
            now = drops(harness)
            events += [f"{count - before[why]} {why}" for why, count in now.items() if count > before[why]]
            before = now
            if events:
                told[move] = told.get(move, []) + events
    return told
