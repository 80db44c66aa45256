"""Recordings of a few elements, and pictures read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeAlias
from xml.etree import ElementTree

from windrow import DataStream, KeyedStream, from_source
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.pictures import Recording, Timeline
from windrow_runtime.testing import PushSource, StreamHarness

# Any: elements and results of every type.
Step: TypeAlias = Callable[[StreamHarness[Any, Any]], object]
"""What is done to a stream that is recorded."""

SVG = "{http://www.w3.org/2000/svg}"


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def keyed_numbers() -> tuple[PushSource[int], KeyedStream[int, str]]:
    """Numbers by whether they are even."""
    source = PushSource(int)
    return source, from_source(source).key_by(lambda number: "odd" if number % 2 else "even")


def add(a: int, b: int) -> int:
    return a + b


SECOND = TumblingEventTimeWindows.of(seconds(1))


# Any: a source of elements of every type.
def element(value: object, timestamp: int | None = None, source: Any = None) -> Step:
    return lambda harness: harness.process_element(value, timestamp, source=source)


def watermark(time: int) -> Step:
    return lambda harness: harness.process_watermark(time)


def clock(time: int) -> Step:
    return lambda harness: harness.set_processing_time(time)


# Any: as above.
def recording_of(stream: DataStream[Any], source: PushSource[Any], *steps: Step) -> Recording:
    with StreamHarness(stream, source, record=True) as harness:
        for step in steps:
            step(harness)
        return harness.recording


def recorded_numbers(build: Callable[[KeyedStream[int, str]], DataStream[Any]], *steps: Step) -> Recording:
    """The recording of a stream of numbers."""
    source, keyed = keyed_numbers()
    return recording_of(build(keyed), source, *steps)


def sums(keyed: KeyedStream[int, str]) -> DataStream[int]:
    """The sums of each second."""
    return keyed.window(SECOND).reduce(add)


def root_of(picture: Timeline) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg)


def panels(picture: Timeline) -> list[ElementTree.Element]:
    return root_of(picture).findall(f"{SVG}g[@class='panel']")


def groups(parent: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    """The groups of a class, among others; those of the legend only if ``parent`` holds it."""
    return [group for group in parent.iter(f"{SVG}g") if kind in group.get("class", "").split()]


def texts(parent: ElementTree.Element, kind: str | None = None) -> list[str]:
    return [text.text or "" for text in parent.iter(f"{SVG}text") if kind in {None, text.get("class")}]


def titles(found: list[ElementTree.Element]) -> list[str]:
    return [group.findtext(f"{SVG}title", "") for group in found]


def numbers_of(of: ElementTree.Element, *names: str) -> Iterator[float]:
    for name in names:
        yield float(of.attrib[name])
