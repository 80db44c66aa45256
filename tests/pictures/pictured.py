"""Reads pictures back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from xml.etree import ElementTree

from windrow import KeyedStream, from_source
from windrow_runtime.pictures import Timeline
from windrow_runtime.testing import PushSource

SVG = "{http://www.w3.org/2000/svg}"


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def keyed_numbers() -> tuple[PushSource[int], KeyedStream[int, str]]:
    """Numbers by whether they are even."""
    source = PushSource(int)
    return source, from_source(source).key_by(lambda number: "odd" if number % 2 else "even")


def add(a: int, b: int) -> int:
    return a + b


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
