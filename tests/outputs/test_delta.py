"""Batches as commits of Delta tables: once each, and read back as they were."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.outputs.outputs import output_of, outputs_of
from windrow import Pipeline, from_source
from windrow.distribution import install_hint
from windrow.errors import InvalidArgumentError, SinkError, UnsupportedOperationError
from windrow.panes import ChangeKind
from windrow.sinks import DeltaSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.changes import Changed
from windrow_sql.delta import output as delta_module


class Total(NamedTuple):
    key: str
    value: int


class Position(NamedTuple):
    x: float
    y: float | None


@dataclass(frozen=True)
class Report:
    key: str
    at: datetime
    day: date
    price: Decimal
    raw: bytes
    tags: list[Position]
    weights: dict[str, int]
    maybe: Position | None = None


REPORTS = [
    Report("a", datetime(1969, 12, 31, 23, tzinfo=UTC), date(2024, 2, 29), Decimal("1.5"), b"\xff",
           [Position(0.1, None)], {"w": 1}, Position(1.0, 2.0)),
    Report("b", datetime(2024, 1, 1, tzinfo=UTC), date(1, 1, 1), Decimal(0), b"", [], {}),
]  # fmt: skip


def rows(path: Path) -> list[tuple[object, ...]]:
    """What a table holds, in the order of its columns."""
    table: pa.Table = DeltaTable(path).to_pyarrow_table()
    return sorted(zip(*table.to_pydict().values(), strict=True), key=repr)


#  batch        0          1      1 again   2      2 again, another process   0 of another query
#  version 0    1          2      -         3      -                          4
def test_a_batch_is_one_commit_and_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "totals"
    output = output_of(Total, DeltaSink[Total](path))
    output.write(0, [Total("a", 1), Total("a", 1)])
    output.write(1, [Total("b", 2)])
    output.write(1, [Total("b", 20)])
    other = output_of(Total, DeltaSink[Total](path))
    other.write(2, [Total("c", 3)])
    output.write(2, [Total("c", 30)])
    assert rows(path) == [("a", 1), ("a", 1), ("b", 2), ("c", 3)]
    assert DeltaTable(path).version() == 3
    output_of(Total, DeltaSink[Total](path), query="other").write(0, [Total("d", 4)])
    assert rows(path)[-1] == ("d", 4)


def test_a_number_below_the_newest_one_is_refused(tmp_path: Path) -> None:
    output = output_of(Total, DeltaSink[Total](tmp_path))
    output.check(0, again=False)
    output.write(5, [Total("a", 1)])
    again = output_of(Total, DeltaSink[Total](tmp_path))
    again.check(5, again=True)
    again.check(6, again=False)
    for batch, runs_again in ((5, False), (4, True)):
        with pytest.raises(SinkError, match=rf"batch {batch} for .*, which has batch 5\n(.|\n)*older copy"):
            again.check(batch, again=runs_again)
    with pytest.raises(SinkError, match="older than what a sink of its query has written"):
        again.write(4, [Total("b", 2)])
    output_of(Total, DeltaSink[Total](tmp_path), query="other").check(0, again=False)
    assert rows(tmp_path) == [("a", 1)]


#  batch      0             1                        2                            2 again
#  changes   +I a=1 b=3   -U a=1  +U a=4  +I c=2   -D c=2   -D a=4  +I a=5, b=7  nothing
def test_with_a_key_rows_are_replaced_and_what_is_withdrawn_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "totals"
    output = output_of(Total, DeltaSink[Total](path, key="key"))
    output.write(0, [Total("a", 1), Total("b", 2), Total("b", 3)])
    assert rows(path) == [("a", 1), ("b", 3)]
    replaced = [Changed(ChangeKind.UPDATE_BEFORE, Total("a", 1)), Changed(ChangeKind.UPDATE_AFTER, Total("a", 4))]
    output.write(1, [*replaced, Total("c", 2)])
    assert rows(path) == [("a", 4), ("b", 3), ("c", 2)]
    gone = [Changed(ChangeKind.DELETE, Total("c", 2)), Changed(ChangeKind.DELETE, Total("a", 4))]
    output.write(2, [*gone, Total("a", 5), Total("b", 7)])
    output_of(Total, DeltaSink[Total](path, key="key")).write(2, [Total("a", 50)])
    assert rows(path) == [("a", 5), ("b", 7)]
    assert DeltaTable(path).version() == 3


class Odd(NamedTuple):
    withdrawn0: str
    day: int
    value: int | None


def test_a_key_of_two_columns_with_partitions_and_an_odd_name(tmp_path: Path) -> None:
    output = output_of(Odd, DeltaSink[Odd](tmp_path, key=("withdrawn0", "day"), partition_by="day"))
    output.write(0, [Odd("a", 1, 1), Odd("a", 2, 2), Odd("b", 1, None)])
    output.write(1, [Changed(ChangeKind.DELETE, Odd("a", 1, 1)), Odd("a", 2, 3)])
    assert sorted(rows(tmp_path)) == [("a", 2, 3), ("b", 1, None)]


#  stale        sees that the table has no batch 0                    commits batch 0
#  successor                                       commits batch 0
def test_of_two_commits_with_one_number_the_table_takes_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale, successor = (output_of(Total, DeltaSink[Total](tmp_path)) for _ in range(2))

    # Any: as the library has it.
    def commit(*arguments: Any, **options: Any) -> None:
        monkeypatch.undo()
        successor.write(0, [Total("a", 1)])
        write_deltalake(*arguments, **options)

    monkeypatch.setattr(delta_module, "write_deltalake", commit)
    with pytest.raises(SinkError, match="the Delta table refused a batch"):
        stale.write(0, [Total("a", 10)])
    assert rows(tmp_path) == [("a", 1)]
    # It is not in the way of what follows.
    stale.write(0, [Total("a", 100)])
    stale.write(1, [Total("b", 2)])
    successor.write(1, [Total("b", 20)])
    assert rows(tmp_path) == [("a", 1), ("b", 2)]


def test_two_sinks_of_a_query_have_batches_of_their_own(tmp_path: Path) -> None:
    outputs = outputs_of(Total, DeltaSink[Total](tmp_path), DeltaSink[Total](tmp_path))
    for output in outputs * 2:
        output.write(0, [Total("a", 1)])
    assert rows(tmp_path) == 2 * [("a", 1)]


def test_a_table_is_one_however_its_path_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for spelling in ("totals", "./totals/", tmp_path / "totals"):
        output_of(Total, DeltaSink[Total](spelling)).write(0, [Total("a", 1)])
    assert rows(tmp_path / "totals") == [("a", 1)]


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    output_of(Report, DeltaSink[Report](tmp_path, partition_by=["key", "day"])).write(0, REPORTS)
    assert rows(tmp_path) == [
        ("a", REPORTS[0].at, REPORTS[0].day, Decimal("1.5"), b"\xff", [{"x": 0.1, "y": None}], [("w", 1)],
         {"x": 1.0, "y": 2.0}),
        ("b", REPORTS[1].at, REPORTS[1].day, Decimal(0), b"", [], [], None),
    ]  # fmt: skip
    assert [path.name for path in sorted(tmp_path.glob("key=*/day=*"))] == ["day=2024-02-29", "day=0001-01-01"]


def test_the_interpreter_writes_batch_by_batch(tmp_path: Path) -> None:
    totals = [Total("a", 1), Total("b", 2), Total("c", 3)]
    stream = from_source(CollectionSource(totals, batch_size=2))
    LocalRunner().run(Pipeline("delta", stream.sink_to(DeltaSink(tmp_path))))
    assert rows(tmp_path) == totals
    assert DeltaTable(tmp_path).version() == 2


def test_a_table_with_more_columns_takes_nulls_there(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"value": [1], "note": ["n"], "key": ["a"]}))
    output_of(Total, DeltaSink[Total](tmp_path)).write(0, [Total("b", 2)])
    assert rows(tmp_path) == [(1, "n", "a"), (2, None, "b")]


def test_a_table_that_does_not_fit_is_refused_with_all_that_is_wrong(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("value", pa.string()), pa.field("id", pa.int64(), nullable=False)])
    DeltaTable.create(tmp_path, schema)
    with pytest.raises(SinkError, match="the Delta table does not fit Total") as caught:
        output_of(Total, DeltaSink[Total](tmp_path, partition_by="key"))
    assert caught.value.message.splitlines()[1:] == [
        '  - key: no such column; expected PrimitiveType("string")',
        '  - value: the column is PrimitiveType("string"); expected PrimitiveType("long")',
        "  - id: the column is not nullable, and Total has no such field",
        "  - the table is partitioned by [], the sink by ['key']",
    ]
    assert str(caught.value.where).startswith("outputs.2.sink, ")


@dataclass
class Lasting:
    key: str
    tags: list[str]
    length: list[timedelta]


REFUSED: list[tuple[Any, dict[str, Any], str, str]] = [
    # The type, the options of the sink, and what is said, with what was given or where.
    (Lasting, {}, "Delta Lake has no type", "Lasting.length"),
    (Report, {"partition_by": "tags"}, "a field of bytes or of JSON, or with parts", "tags: list[Position]"),
    (Report, {"partition_by": "raw"}, "a field of bytes", "raw: bytes"),
    (Total, {"partition_by": "kay"}, "partition_by names a field that Total does not have", "kay"),
    (Odd, {"key": "value"}, "cannot be a key", "value: int | None"),
    (Odd, {"key": "price"}, "names a field that Odd does not have", "price"),
]


@pytest.mark.parametrize(("kind", "options", "message", "shown"), REFUSED)
def test_sinks_that_delta_has_no_form_for(
    tmp_path: Path, kind: Any, options: dict[str, Any], message: str, shown: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        output_of(kind, DeltaSink[Any](tmp_path, **options))
    assert shown in (caught.value.given, str(caught.value.where).rpartition(", ")[2])
    assert list(tmp_path.iterdir()) == []


class Placed(NamedTuple):
    place: str
    zone: str | None
    n: int


@pytest.mark.parametrize("sign", ["a", ":", "é"])
def test_a_text_may_be_as_long_as_the_name_of_a_folder(tmp_path: Path, sign: str) -> None:
    most = (255 - len("place=")) // len(quote(sign))
    output = output_of(Placed, DeltaSink[Placed](tmp_path, partition_by="place"))
    output.write(0, [Placed(most * sign, "z", 1)])
    assert DeltaTable(tmp_path).to_pyarrow_table().column("place").to_pylist() == [most * sign]
    with pytest.raises(InvalidArgumentError, match="too long to name a folder") as caught:
        output.write(1, [Placed("b", None, 2), Placed((most + 1) * sign, None, 3)])
    assert str(caught.value.where).endswith("Placed.place")


@pytest.mark.parametrize("text", ["", "__HIVE_DEFAULT_PARTITION__"])
@pytest.mark.parametrize("field", ["place", "zone"])
@pytest.mark.parametrize("key", [(), ("place", "n")])
def test_texts_that_name_the_partition_of_null_are_refused(
    tmp_path: Path, text: str, field: str, key: tuple[str, ...]
) -> None:
    output = output_of(Placed, DeltaSink[Placed](tmp_path, key=key, partition_by=["place", "zone"]))
    good = [Placed(text, None, number) for number, text in enumerate([" ", "a/b", "null", "\0", "%41", "'"])]
    changed: dict[str, Any] = {"place": "a", "zone": "b", field: text}
    bad = Placed(**changed, n=7)
    with pytest.raises(InvalidArgumentError, match="is null once it names a partition") as caught:
        output.write(0, [*good, bad])
    assert str(caught.value.where).endswith(f", Placed.{field}")
    assert "n=7" in str(caught.value.given)
    assert rows(tmp_path) == []
    output.write(0, good)
    assert rows(tmp_path) == sorted(good, key=repr)


def test_a_value_that_does_not_fit_is_named(tmp_path: Path) -> None:
    output = output_of(Total, DeltaSink[Total](tmp_path))
    with pytest.raises(InvalidArgumentError, match="None in a field that is not Optional") as caught:
        output.write(0, [Total("a", 1), Total("b", None)])  # type: ignore[arg-type]  # what is refused
    assert str(caught.value.where).endswith(", Total.value")
    assert rows(tmp_path) == []


def test_an_error_of_the_library_comes_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    options = {"token": f"{tmp_path}/file", "region": "eu"}
    with pytest.raises(SinkError, match=r"the Delta table cannot be made ready: .*\*{5}") as caught:
        output_of(Total, DeltaSink[Total](tmp_path / "file", storage_options=options))
    assert caught.value.__cause__ is None
    assert len(caught.value.message.splitlines()) == 1
    assert "0: " not in "".join(traceback.format_exception(caught.value))


def test_a_table_that_is_gone_fails_the_batch(tmp_path: Path) -> None:
    output = output_of(Total, DeltaSink[Total](tmp_path / "t"))
    (tmp_path / "t").rename(tmp_path / "gone")
    with pytest.raises(SinkError, match="the Delta table refused a batch") as caught:
        output.write(0, [Total("a", 1)])
    assert caught.value.given == f"batch 0 of 1 elements for delta {tmp_path / 't'}"


def test_a_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "windrow_sql.delta.output", raising=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(UnsupportedOperationError, match="a library is missing") as caught:
        output_of(Total, DeltaSink[Total](tmp_path))
    assert caught.value.hint == install_hint("delta")
