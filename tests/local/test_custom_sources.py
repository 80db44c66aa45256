"""A source of the user's own in the interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.custom_sources import Entry, Logs, counting
from tests.support.runs import MALFORMED, sorted_out
from windrow import Pipeline, from_source
from windrow.connectors import CustomSource
from windrow.errors import (
    InvalidArgumentError,
    MalformedRecordError,
    SourceError,
    UnsupportedOperationError,
    UserFunctionError,
)
from windrow.sinks import FunctionSink
from windrow.sources import MalformedRecord
from windrow_runtime.connectors.custom.reader import CustomReads
from windrow_runtime.local import LocalRunner

# Any in this module: offsets of every type, wrong ones too.


def test_batches_of_all_partitions(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\n2\n3\n")
    (tmp_path / "b.log").write_text("4\n")
    batches: list[tuple[int, list[Entry]]] = []
    committed: list[str] = []

    def take(batch: int, entries: Iterable[Entry]) -> None:
        committed.append(" ".join(sorted(file.read_text() for file in tmp_path.glob("*.committed"))))
        batches.append((batch, list(entries)))

    stream = from_source(Logs(tmp_path, lines_per_batch=2))
    assert stream.element_type is Entry
    LocalRunner().run(Pipeline("logs", stream.sink_to(FunctionSink(take))))
    assert [(batch, entries) for batch, entries in batches if entries] == [
        (0, [Entry("a", 1), Entry("a", 2), Entry("b", 4)]),
        (1, [Entry("a", 3)]),
    ]
    # A batch is committed when its sinks have it.
    assert committed == ["", "1 2"]
    assert (tmp_path / "a.committed").read_text() == "3"


def test_a_source_without_an_end_is_read_as_far_as_it_reaches(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\n2\n12\n")
    pipeline, counts = counting(Logs(tmp_path, bounded=False))
    with pytest.raises(UnsupportedOperationError, match=r"cannot be drained(.|\n)*given: +Logs(.|\n)*drain=False"):
        LocalRunner().run(pipeline)
    assert LocalRunner().run(pipeline, drain=False).collected(counts) == [("a", 2)]


def test_malformed_records(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\nx\n")
    with pytest.raises(MalformedRecordError, match=r"is no number(.|\n)*given: +x\n(.|\n)*a:2"):
        LocalRunner().run(counting(Logs(tmp_path))[0])
    entries, malformed, result = sorted_out(from_source(Logs(tmp_path, malformed=MALFORMED), name="logs"))
    assert entries == [Entry("a", 1)]
    assert malformed == [MalformedRecord("x", "is no number", "a:2")]
    assert result.counters["p.1.logs"]["records_malformed"] == 1


@dataclass
class Odd(CustomSource[list[int], Any]):
    """Gives one list, and whatever offsets it was told."""

    latest: Any = 1
    element: list[int] = field(default_factory=list)
    names: Any = ("all",)

    @property
    def is_bounded(self) -> bool:
        return True

    def partitions(self) -> Any:
        return self.names

    def initial_offset(self, partition: str) -> Any:
        return 0

    def latest_offset(self, partition: str) -> Any:
        if isinstance(self.latest, Exception):
            raise self.latest
        return self.latest

    def read(self, partition: str, start: Any, end: Any) -> list[list[int]]:
        return [self.element]


def run(source: Odd) -> None:
    from_source(source, name="odd").collect(name="odd")


def test_what_a_method_raises_names_the_source_and_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\n2\n")
    pipeline, _ = counting(Logs(tmp_path, fails_at="2"))
    with pytest.raises(
        UserFunctionError,
        match=r"a method of the source raised ConnectionError: the log of 2 is away\n"
        r" +given: +read\('a', 0, 2\)\n +where: +counting\.1\.logs, \S*custom_sources.py:\d+\n +hint: ",
    ):
        LocalRunner().run(pipeline)
    with pytest.raises(UserFunctionError, match=r"ValueError: 7\n +given: +latest_offset\('all'\)\n"):
        run(Odd(ValueError(7)))
    with pytest.raises(SourceError, match=r"no broker\n +where: +odd\.1\.odd, "):
        run(Odd(SourceError("no broker")))


@pytest.mark.parametrize("offset", [(1, 2), {1: 2}, object(), float("nan"), b"1"])
def test_an_offset_that_json_does_not_keep_is_refused(offset: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"kept as JSON(.|\n)*from latest_offset\('all'\)(.|\n)*a list"):
        run(Odd(offset))


@pytest.mark.parametrize("offset", [[1, {"a": None}], "1970", 1.5, True, None])
def test_offsets_may_be_whatever_json_holds(offset: object) -> None:
    run(Odd(offset))


@pytest.mark.parametrize(
    ("names", "message"),
    [([3], r"partitions\(\) returns the names of the partitions"), ("abc", r"given: +abc\n +expected: several str")],
)
def test_partitions_have_names(names: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        run(Odd(names=names))


def test_what_the_pipeline_changes_is_not_the_sources_own() -> None:
    source = Odd(element=[1])

    def add(element: list[int]) -> list[int]:
        element.append(2)
        return element

    changed = from_source(source).map(add)
    for _ in range(2):
        assert changed.collect() == [[1, 2]]


@dataclass
class Steps(CustomSource[int, int]):
    """Gives the numbers from one offset to another; the second time its latest offset is another one."""

    latest: list[int]
    step: int = 4
    on_malformed: Any = "fail"

    @property
    def is_bounded(self) -> bool:
        return True

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return self.latest.pop(0)

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        return start + self.step

    def read(self, partition: str, start: int, end: int) -> Iterable[int]:
        return range(start, end)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (4, r"none lies after the latest one\n +given: +12 from next_offset\('all'\)(.|\n)*from 8 on to 10"),
        (-1, r"offsets of a source never go back(.|\n)*given: +-1 from next_offset"),
        (0, r"moves on towards its latest offset\n +given: +0 from next_offset\('all'\)"),
    ],
)
def test_the_next_offset_lies_between_the_last_and_the_latest(step: int, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        from_source(Steps([10], step)).collect()


def test_offsets_that_go_back_are_refused() -> None:
    reads = CustomReads("here", None, Steps([10, 5], 10))
    read = reads.advance({}, reads.latest())
    assert read == {"all": [0, 10]}
    with pytest.raises(InvalidArgumentError, match=r"never go back(.|\n)*5 from latest_offset\('all'\)(.|\n)*to 10"):
        reads.advance(read, reads.latest())


def test_offsets_are_kept_as_they_were_returned() -> None:
    offset = [1]
    source = Odd(offset)
    kept = CustomReads("here", None, source).latest()
    offset.append(2)
    assert kept == {"all": [1]}


def test_what_becomes_of_malformed_records_is_one_of_three_ways() -> None:
    with pytest.raises(InvalidArgumentError, match=r"on_malformed has an unknown value(.|\n)*where: +\S*.py:\d+"):
        from_source(Steps([1], on_malformed="Fail"))
    with pytest.raises(InvalidArgumentError, match=r"hint: +@property before a method"):
        from_source(Steps([1], on_malformed=lambda: "fail"))


def test_whether_a_source_ends_is_no_method() -> None:
    class Endless(Steps):
        def is_bounded(self) -> bool:  # type: ignore[override]  # what is refused
            return False

    with pytest.raises(InvalidArgumentError, match=r"given: +<bound(.|\n)*where: +\S*.py:\d+\n +hint: +@property"):
        from_source(Endless([1]))
