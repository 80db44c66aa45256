"""The files of a source are read in the order that it says, and in time order of their data nothing is late."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.runs import batches_of
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.aggregates import count
from windrow.errors import InvalidArgumentError, UserFunctionError, WindrowError
from windrow.sinks import CollectSink
from windrow.sources import CsvFileSource, FilesInOrder, FileSource, JsonFileSource, ParquetFileSource, TextFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.connectors.files.listing import _natural
from windrow_runtime.local import LocalRunner

# Any in this module: values that are refused.


def fill(folder: Path, *names: str) -> None:
    """Writes files that have their names as lines; the times of their modification are those of the order here."""
    for second, name in enumerate(names):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name}\n")
        os.utime(file, (10**9 + second,) * 2)


def batches(path: str | Path, files_in_order: FilesInOrder, size: int | None = None) -> list[list[str]]:
    source = TextFileSource(path, files_in_order=files_in_order, files_per_batch=size)
    return batches_of(from_source(source, name="names"))


def day_of(path: str) -> int:
    found = re.search(r"day=([0-9]+)", path)
    assert found is not None
    return int(found[1])


def test_digits_in_names_count_as_numbers_and_folders_stay_together(tmp_path: Path) -> None:
    # A folder comes where its own name comes, whatever signs are in the names beside it: "a-b" < "a/9".
    wanted = ["1.5/z", "1.10/z", "a/9", "a/10", "a/b/1", "a b", "a-b", "part-2", "part-10", "part-010x", "x", "é"]
    fill(tmp_path, *random.Random(1).sample(wanted, len(wanted)))
    assert batches(tmp_path, "name") == [wanted]
    assert batches(tmp_path, "name", 5) == [wanted[:5], wanted[5:10], wanted[10:]]


def test_names_that_are_one_number_have_an_order(tmp_path: Path) -> None:
    fill(tmp_path, "1", "01", "001", "1a", "2")
    assert batches(tmp_path, "name") == [["001", "01", "1", "1a", "2"]]


def test_texts_by_which_names_compare_are_those_of_texts_and_numbers_in_turns() -> None:
    def parts(path: str) -> list[list[str | int]]:
        split = [re.split("([0-9]+)", name) for name in path.split("/")]
        return [[int(part) if place % 2 else part for place, part in enumerate(name)] for name in split]

    chance = random.Random(1)
    paths = ["".join(chance.choices("ab01290/\x01.\u0663é\x05", k=chance.randrange(1, 9))) for _ in range(5_000)]
    assert sorted(paths, key=lambda path: (_natural(path), path)) == sorted(paths, key=lambda path: (parts(path), path))


def test_a_function_gives_the_order_and_names_decide_between_equal_keys(tmp_path: Path) -> None:
    fill(tmp_path, "b/day=3/x", "a/day=10/2", "a/day=3/10", "c/day=10/1", "a/day=3/9", "z/day=1/x")
    wanted = ["z/day=1/x", "a/day=3/9", "a/day=3/10", "b/day=3/x", "a/day=10/2", "c/day=10/1"]
    assert batches(tmp_path, day_of, 4) == [wanted[:4], wanted[4:]]
    assert batches(f"{tmp_path}/*/day=*", day_of) == [wanted]
    assert batches(tmp_path / "a", lambda path: -day_of(path)) == [["a/day=10/2", "a/day=3/9", "a/day=3/10"]]


def test_the_function_gets_the_path_below_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "in/a/x", "in/y")
    monkeypatch.chdir(tmp_path)
    given: list[str] = []

    def noted(name: str) -> str:
        given.append(name)
        return name

    for path, wanted in {
        str(tmp_path / "in"): ["a/x", "y"],
        "in": ["a/x", "y"],
        "./in/": ["a/x", "y"],
        "in/*/x": ["a/x"],
        "*": ["in/a/x", "in/y"],
        "in/y": ["y"],
        f"file://{tmp_path}/in/y": ["y"],
    }.items():
        batches(path, noted)
        assert sorted(given) == wanted, path
        given.clear()


@pytest.mark.parametrize("kind", [TextFileSource, JsonFileSource, CsvFileSource, ParquetFileSource])
@pytest.mark.parametrize("given", ["size", None, True, 3], ids=repr)
def test_an_unknown_order_is_refused(kind: type[FileSource[Any]], given: Any) -> None:
    types = () if kind is TextFileSource else (int,)
    with pytest.raises(InvalidArgumentError, match=r'files_in_order(.|\n)*"time", "name" or a function'):
        kind("in", *types, files_in_order=given)


def test_plans_show_the_order() -> None:
    assert TextFileSource("in").describe() == "text in"
    assert TextFileSource("in", files_in_order="name").describe() == "text in, files by name"
    assert JsonFileSource("in", int, files_in_order=day_of).describe() == "json in, files by day_of"


def test_a_function_that_fails_is_told_with_the_step_and_the_file(tmp_path: Path) -> None:
    fill(tmp_path, "day=1", "other")
    with pytest.raises(UserFunctionError, match="files_in_order raised AssertionError") as caught:
        batches(tmp_path, day_of)
    assert str(caught.value.where).startswith("p.1.names, ")
    assert str(caught.value.where).endswith(f", {tmp_path / 'other'}")
    assert caught.value.given == "'other'"
    assert isinstance(caught.value.__cause__, AssertionError)


class Silent:
    """A key that is never less, and fails if it is compared."""

    def __lt__(self, other: object) -> bool:
        raise OSError("no")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (lambda path: 1 if path == "a" else "x", "TypeError"),
        (lambda path: None, "TypeError"),
        (lambda path: float("nan") if path == "b" else 1.0, "neither before nor after"),
        (lambda path: Silent(), "OSError: no"),
    ],
    ids=["two types", "None", "NaN", "raises"],
)
def test_keys_that_do_not_compare_are_refused_with_the_step_and_the_files(
    tmp_path: Path, key: Callable[[str], Any], reason: str
) -> None:
    fill(tmp_path, "a", "b")
    with pytest.raises(InvalidArgumentError, match=f"do not compare(.|\n)*{reason}") as caught:
        batches(tmp_path, key)
    assert str(caught.value.where).startswith("p.1.names, ")
    assert re.search(r" for (a|b)\b", str(caught.value.given))


def test_an_error_of_windrow_in_the_function_stays_what_it_is(tmp_path: Path) -> None:
    def refuse(path: str) -> str:
        raise WindrowError("no such day", given=path)

    fill(tmp_path, "a")
    with pytest.raises(WindrowError, match="no such day") as caught:
        batches(tmp_path, refuse)
    assert type(caught.value) is WindrowError
    assert str(caught.value.where).endswith(f", {tmp_path / 'a'}")


# A backfill


class Event(NamedTuple):
    key: str
    at: int


FILES = 30
SECONDS = 60
LATE = OutputTag("late", Event)


def write_events(folder: Path, seed: int) -> None:
    """Writes a file for each minute, whose events come in any order, and up to five seconds into the next minute."""
    rng = random.Random(seed)
    folder.mkdir(exist_ok=True)
    for number in range(FILES):
        events = [{"key": rng.choice("ab"), "at": number * SECONDS * 1000 + rng.randrange(65_000)} for _ in range(12)]
        (folder / f"events-{number}.json").write_text("".join(json.dumps(event) + "\n" for event in events))


def copy_times(folder: Path, seed: int) -> None:
    """Gives files random times of modification, as a copy does."""
    rng = random.Random(seed)
    for file in sorted(folder.iterdir()):
        os.utime(file, (rng.randrange(10**9),) * 2)


def events_of(folder: Path, files_in_order: FilesInOrder, size: int | None) -> DataStream[Event]:
    source = JsonFileSource(folder, Event, files_per_batch=size, files_in_order=files_in_order)
    strategy = WatermarkStrategy[Event].for_bounded_out_of_orderness(timedelta(seconds=5))
    return from_source(source).assign_timestamps_and_watermarks(strategy, timestamp=lambda event: event.at)


def backfill(
    folder: Path, run: Callable[[Pipeline], Any], files_in_order: FilesInOrder, size: int | None = 3
) -> tuple[list[Any], int]:
    """Returns the results, and how many events were late."""
    windows = TumblingEventTimeWindows.of(timedelta(seconds=20))
    counted = (
        events_of(folder, files_in_order, size)
        .key_by(lambda event: event.key)
        .window(windows)
        .side_output_late_data(LATE)
        .aggregate(count())
    )
    sink, late = CollectSink[Any](), CollectSink[Event]()
    result = run(Pipeline("backfill", counted.sink_to(sink), counted.get_side_output(LATE).sink_to(late)))
    return sorted(result.collected(sink)), len(result.collected(late))


def test_nothing_is_late_in_a_copied_folder_that_is_read_by_name(tmp_path: Path) -> None:
    write_events(tmp_path, 1)
    wanted, late = backfill(tmp_path, LocalRunner().run, "name", size=None)
    assert not late
    assert sum(wanted) == FILES * 12
    some_late = 0
    for seed in range(200):
        copy_times(tmp_path, seed)
        assert backfill(tmp_path, LocalRunner().run, "name", size=seed % 7 + 1) == (wanted, 0), seed
        if seed < 20:
            some_late += backfill(tmp_path, LocalRunner().run, "time")[1] > 0
    assert some_late == 20


def joined(folder: Path, run: Callable[[Pipeline], Any], files_in_order: FilesInOrder) -> int:
    """Returns how many pairs of events a join finds whose two folders move on at another pace."""
    one, two = (
        events_of(folder / name, files_in_order, size).key_by(lambda event: event.key)
        for name, size in (("one", 2), ("two", 5))
    )
    pairs = one.interval_join(two).between(timedelta(seconds=-9), timedelta(seconds=9))
    sink = CollectSink[Any]()
    return len(run(Pipeline("joined", pairs.apply(lambda one, two: (one, two)).sink_to(sink))).collected(sink))


def test_a_join_of_copied_folders_finds_all_pairs_by_name(tmp_path: Path) -> None:
    write_events(tmp_path / "one", 1)
    write_events(tmp_path / "two", 2)
    ones, twos = (from_source(JsonFileSource(tmp_path / name, Event)).collect() for name in ("one", "two"))
    wanted = sum(one.key == two.key and abs(one.at - two.at) <= 9000 for one in ones for two in twos)
    for seed in range(10):
        copy_times(tmp_path / "one", seed)
        copy_times(tmp_path / "two", -1 - seed)
        assert joined(tmp_path, LocalRunner().run, "name") == wanted
        assert joined(tmp_path, LocalRunner().run, "time") < wanted
