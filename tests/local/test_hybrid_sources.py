"""Sources that are read one after the other as one stream, in the interpreter."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from tests.support.runs import MALFORMED, Runner, batches_of, in_order, sorted_out
from windrow import Pipeline, from_source
from windrow import aggregates as agg
from windrow.connectors import ArrowArray, CustomSource, HybridSource, SourceSwitch
from windrow.errors import InvalidArgumentError, SourceError, UnsupportedOperationError, UserFunctionError
from windrow.kafka import KafkaSource
from windrow.sinks import CollectSink, FunctionSink, ParquetFileSink
from windrow.sources import (
    ArrowSource,
    CollectionSource,
    CsvFileSource,
    JsonFileSource,
    ParquetFileSource,
    RateSource,
    TextFileSource,
)
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.inputs.checks import ends_when_silent
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import topology_of

# Any in this module: sources of every type, wrong ones too.


class Reading(NamedTuple):
    sensor: str
    at: int


class Counted(NamedTuple):
    end: int
    elements: int


@dataclass(frozen=True)
class Numbered(CustomSource[Reading, int]):
    """Readings from a number to another, in batches of at most three."""

    first: int
    end: int
    bounded: bool = False

    @property
    def is_bounded(self) -> bool:
        return self.bounded

    def initial_offset(self, partition: str) -> int:
        return self.first

    def latest_offset(self, partition: str) -> int:
        return self.end

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        return min(start + 3, latest)

    def read(self, partition: str, start: int, end: int) -> Iterator[Reading]:
        return map(reading, range(start, end))


class Columns(Numbered):
    """The same as Arrow data."""

    def read_arrow(self, partition: str, start: int, end: int) -> Iterator[ArrowArray]:
        yield pa.RecordBatch.from_pylist([reading(number)._asdict() for number in range(start, end)])


def reading(number: int) -> Reading:
    return Reading(f"s{number % 2}", number * 1_000)


def write_files(folder: Path, *ends: int) -> None:
    """A file up to each of the ends, the later ones with earlier times."""
    folder.mkdir(exist_ok=True)
    begin = 0
    for place, end in enumerate(ends):
        file = folder / f"part-{place}.json"
        file.write_text("".join(json.dumps(reading(number)._asdict()) + "\n" for number in range(begin, end)))
        os.utime(file, (1_000_000 - place, 1_000_000 - place))
        begin = end


def batches(source: HybridSource[Reading], runner: Runner | None = None) -> list[list[int]]:
    """The numbers of the readings in each batch that has some."""
    taken = batches_of(from_source(source, name="in"), drain=source.is_bounded, runner=runner)
    return [[each.at // 1_000 for each in batch] for batch in taken if batch]


def counted(source: HybridSource[Reading]) -> tuple[Pipeline, CollectSink[Counted]]:
    """Counts the readings of a source in windows of ten seconds."""
    counts = CollectSink[Counted]()
    timed = in_order(from_source(source, name="in"), lambda each: each.at)
    windows = timed.window_all(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    return Pipeline("p", windows.aggregate(agg.into(Counted, agg.window_end(), agg.count())).sink_to(counts)), counts


def history(folder: Path, **options: Any) -> JsonFileSource[Reading]:
    return JsonFileSource(folder, Reading, files_in_order="name", **options)


def test_a_history_of_files_and_then_a_source_that_goes_on(tmp_path: Path) -> None:
    write_files(tmp_path / "in", 2, 5, 6)
    source = HybridSource(history(tmp_path / "in", files_per_batch=2)).then(Numbered(6, 13))
    assert not source.is_bounded
    assert source.describe() == f"json {tmp_path}/in, files by name, then Numbered"
    assert batches(source) == [[0, 1, 2, 3, 4], [5], [6, 7, 8], [9, 10, 11], [12]]


def test_parts_of_all_kinds_in_their_order(tmp_path: Path) -> None:
    write_files(tmp_path / "json", 2)
    (tmp_path / "csv").mkdir()
    (tmp_path / "none").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("sensor,at\ns0,2000\n")
    parquet, rows = tmp_path / "parquet", pa.Table.from_pylist([reading(number)._asdict() for number in (6, 7, 8)])
    stream = from_source(CollectionSource([reading(3)]))
    LocalRunner().run(Pipeline("write", stream.sink_to(ParquetFileSink(parquet))))
    source = (
        HybridSource(history(tmp_path / "json"))
        .then(CsvFileSource(tmp_path / "csv", Reading))
        .then(ParquetFileSource(parquet, Reading))
        .then(CollectionSource(map(reading, (4, 5)), batch_size=1))
        .then(ArrowSource(rows, Reading, batch_size=2))
        .then(JsonFileSource(tmp_path / "none", Reading))
        .then(CollectionSource[Reading]([]))
        .then(Columns(9, 9, bounded=True))
        .then(Columns(9, 13, bounded=True))
    )
    assert source.is_bounded
    with pytest.warns(match=r"has no files, so it gives nothing\n +given: +\S+/none\n +where: +p\.1\.in, "):
        read = batches(source)
    assert read == [[0, 1], [2], [3], [4], [5], [6, 7], [8], [9, 10, 11], [12]]


def test_a_source_that_is_made_of_what_the_one_before_ended_with(tmp_path: Path) -> None:
    write_files(tmp_path / "in", 2, 5)
    seen: list[SourceSwitch] = []

    def following(switch: SourceSwitch) -> Numbered:
        seen.append(switch)
        return Numbered(5, 7, bounded=True)

    source = (
        HybridSource(history(tmp_path / "in")).then(following).then(lambda switch: Numbered(switch.offsets["all"], 9))
    )
    assert source.describe().endswith(", then what following makes, then what lambda makes")
    assert batches(source) == [[0, 1, 2, 3, 4], [5, 6], [7, 8]]
    (switch,) = seen
    assert switch.offsets == {"all": 2}
    assert [Path(file).name for file in switch.files] == ["part-0.json", "part-1.json"]


def test_there_is_one_watermark_through_all_parts(tmp_path: Path) -> None:
    """At the end of the history no window fires that has elements to come."""
    write_files(tmp_path / "in", 5)
    pipeline, counts = counted(HybridSource(history(tmp_path / "in")).then(Numbered(5, 22)))
    result = LocalRunner().run(pipeline, drain=False)
    assert result.collected(counts) == [(10_000, 10), (20_000, 10)]
    assert result.counter("late_records_dropped") == 0
    with pytest.raises(UnsupportedOperationError, match=r"cannot be drained(.|\n)*, then Numbered"):
        LocalRunner().run(pipeline)


@dataclass(frozen=True)
class Sensors(CustomSource[Reading, int]):
    """A partition for each sensor, with readings from a number to another."""

    ends: tuple[tuple[int, int], ...]
    bounded: bool = False

    @property
    def is_bounded(self) -> bool:
        return self.bounded

    def partitions(self) -> Sequence[str]:
        return [f"s{place}" for place in range(len(self.ends))]

    def initial_offset(self, partition: str) -> int:
        return self.ends[int(partition[1:])][0]

    def latest_offset(self, partition: str) -> int:
        return self.ends[int(partition[1:])][1]

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        return min(start + 7, latest)

    def read(self, partition: str, start: int, end: int) -> Iterator[Reading]:
        return (Reading(partition, number * 1_000) for number in range(start, end))


def sensors() -> tuple[Pipeline, CollectSink[Counted]]:
    """A history whose sensors end at different times, and then others, of which one is behind."""
    return counted(HybridSource(Sensors(((0, 25), (0, 3)), bounded=True)).then(Sensors(((25, 61), (25, 42)))))


SENSORS_COUNTED = [Counted(10_000, 13), Counted(20_000, 10), Counted(30_000, 15), Counted(40_000, 20)]
"""What fires before the partition of the live part that is behind: those of the history hold nothing back."""


def test_partitions_of_the_history_do_not_hold_the_watermark_afterwards() -> None:
    pipeline, counts = sensors()
    result = LocalRunner().run(pipeline, drain=False)
    assert result.collected(counts) == SENSORS_COUNTED
    assert result.counter("late_records_dropped") == 0


def test_malformed_records_of_all_parts_go_one_way(tmp_path: Path) -> None:
    write_files(tmp_path / "in", 1)
    (tmp_path / "in" / "x.json").write_text("x\n")
    live = CollectionSource([reading(1)])
    rest = JsonFileSource(tmp_path / "in" / "x.json", Reading, on_malformed=MALFORMED)
    stream = from_source(HybridSource(live).then(history(tmp_path / "in", on_malformed=MALFORMED)).then(rest))
    values, malformed, _ = sorted_out(stream)
    assert values == [reading(1), reading(0)]
    assert [each.origin for each in malformed] == [f"{tmp_path}/in/x.json:1"] * 2
    with pytest.raises(InvalidArgumentError, match=r"go one way\n +given: +on_malformed='fail', of json(.|\n)*where:"):
        HybridSource(history(tmp_path, on_malformed="drop")).then(history(tmp_path))


def test_headers_are_warned_of_once(tmp_path: Path) -> None:
    @dataclass
    class Optional:
        sensor: str
        at: int = 0

    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("sensor,time\ns0,1\n")
    part = CsvFileSource(tmp_path, Optional)
    with pytest.warns(match="a column may be misspelt") as warned:
        from_source(HybridSource(part).then(part)).collect()
    assert len(warned) == 1


TOPIC = KafkaSource("a:1", "t", Reading, starting_offsets="earliest")


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: HybridSource(3), InvalidArgumentError, r"begins with a source\n +given: +3"),  # type: ignore[arg-type]  # wrong
        (lambda: HybridSource(TOPIC).then(TOPIC), InvalidArgumentError, r"comes to an end\n +given: +kafka t at a:1"),
        (lambda: HybridSource(Numbered(0, 1)).then(TOPIC), InvalidArgumentError, r"end\n(.|\n)*is_bounded is True"),
        (lambda: HybridSource(CollectionSource([1])).then(TOPIC), InvalidArgumentError,  # type: ignore[arg-type]  # wrong
         r"different types\n +given: +Reading, from kafka t at a:1\n +expected: int\n"),
        (lambda: parts(KafkaSource("a:1", "t", Reading)), InvalidArgumentError,
         r"leave a gap\n +given: +starting_offsets=\"latest\", which is the default\n"),
        (lambda: parts(RateSource()), UnsupportedOperationError, r"given: +rate 1/s\n(.|\n)*ParquetFileSource"),
        (lambda: parts(HybridSource(TOPIC)), UnsupportedOperationError, r"then\(second\)\.then\(third\)"),
        (lambda: parts(JsonFileSource("hdfs://a/b", Reading)), UnsupportedOperationError, "systems and on s3a:// only"),
        (lambda: parts(Numbered), InvalidArgumentError, r"or a function that makes one\n +given: +<class"),
        (lambda: parts(3), InvalidArgumentError, r"or a function that makes one\n +given: +3"),
    ],
)  # fmt: skip
def test_parts_that_do_not_go_together(make: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        make()
    assert f"where:    {__file__}:" in str(caught.value)


def parts(following: Any) -> object:
    return HybridSource(CollectionSource([reading(0)])).then(following)


@pytest.mark.parametrize(
    ("following", "kind", "message"),
    [
        (lambda switch: 1 // 0, UserFunctionError, r"ZeroDivisionError(.|\n)*given: +SourceSwitch\(offsets=\{'all': 1"),
        (lambda switch: None, InvalidArgumentError, r"read from its offsets\n +given: +None"),
        (lambda switch: CollectionSource([reading(0)]), InvalidArgumentError, r"given: +collection of 1"),
        (lambda switch: Texts(), InvalidArgumentError, r"different types\n +given: +str, from Texts\n"),
        (lambda switch: KafkaSource("a:1", "t", Reading), InvalidArgumentError, "leave a gap"),
    ],
)
def test_sources_that_a_function_may_not_make(following: Any, kind: type[Exception], message: str) -> None:
    source = HybridSource(CollectionSource([reading(0)])).then(following)
    with pytest.raises(kind, match=message) as caught:
        batches(source)
    assert "where:    p.1.in, " in str(caught.value)


class Texts(CustomSource[str, int]):
    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return 0

    def read(self, partition: str, start: int, end: int) -> Sequence[str]:
        return []


def test_a_source_without_an_end_in_the_middle_is_refused_when_it_is_made() -> None:
    endless = HybridSource(CollectionSource([reading(0)])).then(lambda switch: Numbered(1, 2))
    with pytest.raises(InvalidArgumentError, match=r"comes to an end\n +given: +Numbered(.|\n)*where: +p\.1\.in"):
        batches(endless.then(Numbered(2, 3)))


def test_a_part_that_stands_still_before_its_end_is_not_passed_over() -> None:
    class Stuck(Numbered):
        def next_offset(self, partition: str, start: int, latest: int) -> int:
            return min(start + 3, 6)

    with pytest.raises(InvalidArgumentError, match="moves on towards its latest offset"):
        batches(HybridSource(Stuck(0, 9, bounded=True)).then(Numbered(9, 10)))


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    write_files(tmp_path / "in", 1, 2)
    source = HybridSource(CollectionSource([reading(0)])).then(history(tmp_path / "in", files_per_batch=1))

    def take(batch: int, readings: Iterable[Reading]) -> None:
        (tmp_path / "in" / "part-1.json").unlink(missing_ok=True)

    with pytest.raises(SourceError, match=r"part-1\.json"):
        LocalRunner().run(Pipeline("p", from_source(source).sink_to(FunctionSink(take))))


def test_secrets_of_all_parts() -> None:
    options = {"sasl.password": "hunter22"}
    topic = KafkaSource("a:1", "t", Reading, options=options, starting_offsets=datetime.now(UTC))
    source = HybridSource(CollectionSource([reading(0)])).then(topic)
    assert source.secrets == ("hunter22",)
    assert "hunter22" not in source.describe()
    (step,) = topology_of(Pipeline("p", from_source(source).sink_to(CollectSink[Reading]()))).sources
    assert not ends_when_silent(step, drain=False)


def test_lines_of_text_and_a_type_that_only_one_part_says(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\n")
    source = HybridSource(CollectionSource[str]([])).then(TextFileSource(tmp_path / "a.txt"))
    stream = from_source(source)
    assert stream.element_type is str
    assert stream.collect() == ["a", "b"]
