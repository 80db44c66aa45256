"""Files in folders of values: what readers find in them at every moment, also when a process was killed."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any, NotRequired, TypedDict

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from windrow import Pipeline, from_source
from windrow.errors import InvalidArgumentError, SinkError
from windrow.plan import Step
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.connectors.files import parts as part_files
from windrow_runtime.connectors.files.batch_files import LISTS_KEPT, BatchFiles, remove_batches
from windrow_runtime.connectors.files.partition_columns import escaped, partitions_of
from windrow_runtime.connectors.files.parts import FileOutput
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs import whole_files
from windrow_runtime.outputs.registry import claim_targets

# Any in this module: pyarrow has no types, and rows have columns of several.

BY = ("name", "number", "flag", "day", "level")


SINKS: dict[str, Callable[..., FileSink[Any]]] = {
    "parquet": ParquetFileSink, "csv": CsvFileSink, "json": JsonFileSink,
}  # fmt: skip


class Level(Enum):
    LOW = "lo:w"
    HIGH = "high"


@dataclass(frozen=True)
class Row:
    name: str | None
    count: int
    number: int | None
    flag: bool | None
    day: datetime.date
    level: Level
    note: str


def named(name: str | None, **others: Any) -> Row:
    """A row of which only the name matters."""
    return replace(Row(name, 1, 7, True, datetime.date(2026, 3, 1), Level.LOW, "x"), **others)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6)
names = st.sampled_from(["a", "b=c", "06:59", "%41", "é/ü", ".", "..", "_x", " ", "\\", "1", "true"]) | texts
rows = st.builds(
    Row, st.none() | names, st.integers(-5, 5), st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.booleans(), st.dates(), st.sampled_from(Level), st.sampled_from(["", "x", 'a"b,c']),
)  # fmt: skip


def step_of(sink: FileSink[Any], elements: Sequence[Any], kind: type = Row) -> Step:
    pipeline = Pipeline("parts", from_source(CollectionSource(list(elements), kind)).sink_to(sink))
    return pipeline.steps[-1]


def written(out: Path, form: str) -> Counter[tuple[Any, ...]]:
    """What Arrow finds, with the columns of the folders as texts."""
    columns = pa.schema([(name, pa.string()) for name in BY])
    schema = pa.schema([*columns, ("count", pa.int64()), ("note", pa.string())])
    folders = ds.partitioning(columns, flavor="hive")
    found = ds.dataset(out, schema=schema, format=form, partitioning=folders).to_table().to_pylist()
    return Counter((*(row[name] for name in BY), row["count"], row["note"] or "") for row in found)


def expected(elements: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    """The rows as :func:`written` has them."""
    return Counter(
        (
            row.name or None, None if row.number is None else str(row.number),
            None if row.flag is None else str(row.flag).lower(), row.day.isoformat(), row.level.value, row.count,
            row.note,
        )
        for row in elements
    )  # fmt: skip


@pytest.mark.parametrize("form", SINKS)
@examples(20)
@given(elements=st.lists(rows, min_size=1, max_size=12), size=st.integers(1, 6))
def test_arrow_reads_what_was_written(
    form: str, tmp_path_factory: pytest.TempPathFactory, elements: list[Row], size: int
) -> None:
    out = tmp_path_factory.mktemp("out")
    stream = from_source(CollectionSource(elements, Row, batch_size=size))
    LocalRunner().run(Pipeline("write", stream.sink_to(SINKS[form](out, partition_by=BY))))
    assert written(out, form) == expected(elements)
    for file in out.rglob("batch-*"):
        assert [part.partition("=")[0] for part in file.relative_to(out).parts[:-1]] == list(BY)


@examples(60)
@given(elements=st.lists(rows, max_size=20))
def test_rows_are_split_as_objects_are(elements: list[Row]) -> None:
    partitions = partitions_of(step_of(ParquetFileSink("out", partition_by=BY), elements))
    assert partitions is not None
    columns = encode_batch(elements, partitions.record_type)
    by_objects: dict[str, Any] = dict(partitions.split(elements))
    assert {folder: part.to_pylist() for folder, part in partitions.split_rows(columns)} == {
        folder: [{"count": row.count, "note": row.note} for row in part] for folder, part in by_objects.items()
    }


def test_names_of_folders_are_those_of_hive(tmp_path: Path) -> None:
    assert escaped("2026-03-01 06:59/é=%") == "2026-03-01 06%3A59%2Fé%3D%25"
    assert escaped("\n\x7f\"#'*?\\{[]}^") == "%0A%7F%22%23%27%2A%3F%5C%7B%5B%5D}%5E"
    row = named(None, day=datetime.date(26, 3, 1))
    FileOutput(step_of(JsonFileSink(tmp_path, partition_by=BY), [row])).write(3, [row])
    (file,) = tmp_path.rglob("batch-*")
    folders = "name=__HIVE_DEFAULT_PARTITION__/number=7/flag=true/day=0026-03-01/level=lo%3Aw"
    assert file.relative_to(tmp_path).as_posix() == f"{folders}/batch-3-part-0.json"
    assert json.loads(file.read_text()) == {"count": 1, "note": "x"}


def test_a_text_that_names_the_folder_of_null_is_refused() -> None:
    row = named("__HIVE_DEFAULT_PARTITION__")
    partitions = partitions_of(step_of(ParquetFileSink("out", partition_by=BY), [row]))
    assert partitions is not None
    with pytest.raises(InvalidArgumentError, match="names the folder of null"):
        partitions.split([row])
    with pytest.raises(InvalidArgumentError, match="names the folder of null"):
        list(partitions.split_rows(encode_batch([row], partitions.record_type)))


class Keyed(TypedDict):
    kind: NotRequired[str]
    size: int


def test_keys_that_are_absent_are_none(tmp_path: Path) -> None:
    elements: list[Keyed] = [{"size": 1}, {"kind": "a", "size": 2}]
    for form in ("json", "parquet"):
        sink = SINKS[form](tmp_path / form, partition_by="kind")
        FileOutput(step_of(sink, elements, Keyed)).write(0, elements)
        found = ds.dataset(sink.path, format=sink.format_name, partitioning="hive").to_table().to_pylist()
        assert sorted(found, key=str) == [{"size": 1, "kind": None}, {"size": 2, "kind": "a"}]


@pytest.mark.parametrize("sink", [JsonFileSink, ParquetFileSink])
def test_a_value_of_another_type_is_refused(sink: Callable[..., FileSink[Row]], tmp_path: Path) -> None:
    wrong = named("a", number="7")
    with pytest.raises(InvalidArgumentError, match=r"does not fit its type(.|\n)*Row.number"):
        FileOutput(step_of(sink(tmp_path, partition_by=BY), [wrong])).write(0, [wrong])
    assert not list(tmp_path.glob("name=*"))


@pytest.mark.parametrize("form", SINKS)
@pytest.mark.parametrize(
    ("text", "fits"), [("x" * 250, True), ("x" * 251, False), ("\u20ac" * 84, False), (":" * 84, False)], ids=range(4)
)
def test_a_value_that_is_too_long_for_a_folder(form: str, tmp_path: Path, text: str, fits: bool) -> None:
    stream = from_source(CollectionSource([named("a"), named(text, note="mine")], Row))
    pipeline = Pipeline("long", stream.sink_to(SINKS[form](tmp_path, partition_by=("name", "day"))))
    if fits:
        LocalRunner().run(pipeline)
        return
    with pytest.raises(InvalidArgumentError, match=r"too long to name a folder: \d+ bytes") as caught:
        LocalRunner().run(pipeline)
    assert "Row(name=" in str(caught.value.given)
    assert re.search(rf"long\.2\.sink, (.|\n)*{Path(__file__).name}:(.|\n)*Row\.name$", str(caught.value.where))
    assert not list(tmp_path.glob("name=*"))


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_now: set[part_files.PartFolder] = set()
    most = 0

    class Counting(part_files.PartFile):
        def _append(self, content: Any) -> int:
            nonlocal most
            open_now.add(self._folder)
            most = max(most, len(open_now))
            return super()._append(content)

        def close(self) -> None:
            open_now.remove(self._folder)
            super().close()

    monkeypatch.setattr(part_files, "PartFile", Counting)
    elements = [named(name, count=place, number=None, flag=None) for place, name in enumerate("abcabc")]
    for form in ("json", "parquet"):
        sink = SINKS[form](tmp_path / form, partition_by=BY)
        step = step_of(sink, elements)
        partitions = partitions_of(step)
        assert partitions is not None
        batch = BatchFiles(Path(sink.path), 0, BY)
        batch.begin()
        files = part_files.PartitionedFiles(step, partitions, batch.staging, "part-0", open_files=2)
        for element in elements:
            files.write([element])
        files.close()
        assert batch.keep(set(files.take_names())) == []
        batch.publish()
        assert written(Path(sink.path), sink.format_name) == expected(elements)
    assert most == 2
    # Each of three folders was written to twice, and finished in between.
    assert len(list((tmp_path / "json").rglob("batch-*"))) == 6


class KilledError(BaseException):
    """As if the process were gone."""


@contextmanager
def before_each_change(do: Callable[[], None]) -> Iterator[None]:
    """Calls a function before each change of a name in the file system."""

    def calling(change: Callable[..., Any]) -> Callable[..., Any]:
        def changing(*given: Any, **named: Any) -> Any:
            do()
            return change(*given, **named)

        return changing

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir"):
            patch.setattr(os, name, calling(getattr(os, name)))
        yield


def put(sink: Path, batch: int, parts: Sequence[str], content: str) -> None:
    """Writes a batch with a file in each of some folders."""
    folder = BatchFiles(sink, batch, None)
    folder.begin()
    for name in parts:
        place = folder.staging / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    folder.publish()


def found_in(sink: Path) -> Counter[str]:
    """The files that a reader finds, by their folder and content."""
    return Counter(
        f"{file.parent.relative_to(sink)} {file.read_text()}" for file in sink.rglob("batch-*") if file.is_file()
    )


OLD = ["a=1/b=1/part-0.json", "a=1/b=2/part-0.json", "a=2/b=1/part-a.json"]
# A folder stays, with a file of the same name; one with another; one comes, and one goes.
NEW = ["a=1/b=1/part-0.json", "a=2/b=1/part-b.json", "a=3/b=1/part-0.json", "a=3/b=1/part-1.json"]


def contents(parts: Sequence[str], content: str) -> Counter[str]:
    return Counter(f"{part.rpartition('/')[0] or '.'} {content}" for part in parts)


def killed(do: Callable[[], None], change: int) -> bool:
    """Kills a process before a change of a name; returns whether there were so many."""
    left = change

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError

    with before_each_change(count), suppress(KilledError):
        do()
    return left < 0


def killed_at_any_moment(folder: Path, others: Sequence[str], check: Callable[[Path, int], bool]) -> int:
    """Checks kills at each moment, beside another batch, which stays as it is; returns how many moments there are."""
    moments = 0
    is_killed = True
    while is_killed:
        sink = folder / str(moments)
        put(sink, 6, others, "other")
        is_killed = check(sink, moments)
        assert contents(others, "other") <= found_in(sink)
        assert {entry.name for entry in sink.iterdir() if not re.search("=|^batch-", entry.name)} == {"_batches"}
        moments += is_killed
    return moments


@pytest.mark.parametrize("is_flat", [False, True])
def test_a_kill_at_any_moment_leaves_files_that_stay(tmp_path: Path, is_flat: bool) -> None:
    files = ["part-0.json", "part-b.json"] if is_flat else NEW
    others = ["part-0.json"] if is_flat else OLD
    appeared: set[int] = set()

    def check(sink: Path, moment: int) -> bool:
        def seen() -> dict[Path, tuple[int, int]]:
            found = [file for file in sink.rglob("batch-7-*") if file.is_file()]
            return {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in found}

        was_killed = killed(lambda: put(sink, 7, files, "first"), moment)
        states = [seen()]
        appeared.add(len(states[0]))
        # The batch is run again with other results. That dies as well.
        for change in (moment % 7, moment % 3, 1000):
            killed(lambda: put(sink, 7, NEW if is_flat else OLD, "second"), change)
            states.append(seen())
        for before, after in pairwise(states):
            assert before.items() <= after.items()
        rows = found_in(sink) - contents(others, "other")
        first, second = contents(files, "first"), contents(NEW if is_flat else OLD, "second")
        assert rows == first or (not states[0] and rows == second)
        assert sorted(os.listdir(sink / "_batches")) == ["6.files", "7.files"]
        return was_killed

    # Each file comes, and the list is made and becomes that of the batch.
    assert killed_at_any_moment(tmp_path, others, check) >= 2 + len(files)
    assert appeared == set(range(len(files) + 1))


@pytest.mark.parametrize("is_flat", [False, True])
def test_a_batch_is_withdrawn_or_stays_whatever_kills(tmp_path: Path, is_flat: bool) -> None:
    files = ["part-0.json", "part-b.json"] if is_flat else NEW
    others = ["part-0.json"] if is_flat else OLD

    def check(sink: Path, moment: int) -> bool:
        put(sink, 7, files, "old")
        was_killed = killed(lambda: BatchFiles(sink, 7, None).withdraw(), moment)
        assert found_in(sink) <= contents(others, "other") + contents(files, "old")
        for _ in range(3):
            killed(BatchFiles(sink, 7, None).withdraw, moment % 7)
        BatchFiles(sink, 7, None).withdraw()
        assert found_in(sink) == contents(others, "other")
        assert os.listdir(sink / "_batches") == ["6.files"]
        return was_killed

    assert killed_at_any_moment(tmp_path, others, check) >= 2 + len(files)


def test_a_batch_that_an_earlier_version_began_to_replace_is_replaced(tmp_path: Path) -> None:
    put(tmp_path, 7, OLD, "old")
    folder = BatchFiles(tmp_path, 7, None)
    for name in NEW:
        (folder.staging / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.staging / name).write_text("new")
    folder._begin_list(NEW)
    assert found_in(tmp_path) == contents(OLD, "old")
    BatchFiles(tmp_path, 7, None).begin()
    assert found_in(tmp_path) == contents(NEW, "new")


def test_files_of_a_slow_file_system_are_moved_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, parts, sink = os.replace, [f"name={number}/part-0.json" for number in range(40)], tmp_path / "out"
    sink.mkdir()
    moved_alone = [0]
    meeting = Barrier(2, timeout=60)

    def slow(source: Any, target: Any) -> None:
        if Path(target).suffix == ".json":
            if moved_alone[0] < 16:
                moved_alone[0] += 1
            else:
                meeting.wait()  # until another file is moved
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: float(moved_alone[0]))  # a second for each
        patch.setattr(os, "replace", slow)
        put(sink, 7, parts, "x")
    assert found_in(sink) == contents(parts, "x")

    def failing(number: int) -> None:
        if number > 2:
            raise OSError(28, f"No space left for {number}")

    with pytest.raises(OSError, match="No space left for 3"):
        whole_files.change_all(failing, range(100), few=0)


def test_an_error_between_two_renames_is_mended_by_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [named(name) for name in "abc"]
    step = step_of(ParquetFileSink(tmp_path, partition_by="name"), first)
    replace = os.replace
    left = [3]

    def failing(source: Any, target: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(SinkError, match=r"cannot be written(.|\n)*No space left"):
            FileOutput(step).write(0, first)
    assert len(list(tmp_path.glob("name=*/*"))) == 1
    FileOutput(step).write(0, first)
    found = ds.dataset(tmp_path, partitioning="hive").to_table(columns=["name"]).to_pylist()
    assert sorted(row["name"] for row in found) == ["a", "b", "c"]


def claim(sink: FileSink[Row], run: str, *, begins: bool) -> None:
    claim_targets([step_of(sink, [])], run, begins=begins).close()


def test_a_run_goes_on_in_its_folder_and_others_are_refused(tmp_path: Path) -> None:
    def sink(*by: str, overwrite: bool = False) -> FileSink[Row]:
        return JsonFileSink(tmp_path, partition_by=by, overwrite=overwrite)

    claim(sink("name", "day"), "one", begins=True)
    put(tmp_path, 0, ["name=a/day=2026-01-01/part-0.json"], "x")
    (tmp_path / "name=a" / "mine").touch()
    claim(sink("name", "day"), "one", begins=False)
    with pytest.raises(SinkError, match=r"another run(.|\n)*_batches/0"):
        claim(sink("name", "day"), "two", begins=True)
    for by in ((), ("day", "name"), ("name",)):
        with pytest.raises(SinkError, match=r"other fields(.|\n)*name, day"):
            claim(sink(*by), "one", begins=False)
    claim(sink("name", overwrite=True), "two", begins=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["_windrow", "mine", "name=a", "two"]


def test_a_batch_of_which_nobody_knows_whether_it_is_whole_is_one(tmp_path: Path) -> None:
    claim(JsonFileSink(tmp_path, partition_by="name"), "one", begins=True)
    put(tmp_path, 0, ["name=a/part-0.json"], "x")
    (tmp_path / "_batches" / "0.files").rename(tmp_path / "_batches" / "0.begun")
    with pytest.raises(SinkError, match=r"another run(.|\n)*_batches/0.begun"):
        claim(JsonFileSink(tmp_path, partition_by="name"), "two", begins=True)
    claim(JsonFileSink(tmp_path, partition_by="name", overwrite=True), "two", begins=True)
    assert [path.name for path in tmp_path.iterdir()] == ["_windrow"]


def test_lists_of_batches_that_cannot_run_again_are_deleted(tmp_path: Path) -> None:
    for batch in (0, 1, 2, LISTS_KEPT, LISTS_KEPT + 1):
        files = BatchFiles(tmp_path, batch)
        files.begin()
        files.staging.mkdir()
        (files.staging / "part-0.json").touch()
        files.publish()
    assert sorted(os.listdir(tmp_path / "_batches")) == ["100.files", "101.files", "2.files"]
    assert len(list(tmp_path.glob("batch-*"))) == 5
    remove_batches(tmp_path)
    assert os.listdir(tmp_path) == []


def test_files_in_folders_of_values_without_a_list_are_batches_too(tmp_path: Path) -> None:
    put(tmp_path, 0, ["name=a/part-0.json", "name=b/part-0.json"], "x")
    shutil.rmtree(tmp_path / "_batches")
    with pytest.raises(SinkError, match="batches of another run"):
        claim(JsonFileSink(tmp_path, partition_by="name"), "two", begins=True)
    claim(JsonFileSink(tmp_path, partition_by="name", overwrite=True), "two", begins=True)
    assert [*tmp_path.rglob("*.json")] == []
