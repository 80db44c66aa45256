"""Batches as snapshots of Iceberg tables: once each, and read back as they were."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from tests.outputs.outputs import output_of, outputs_of
from tests.outputs.test_delta import REPORTS, Odd, Report, Total
from tests.support.iceberg import catalog_in, iceberg_rows, iceberg_sink, table_in
from windrow import Pipeline, from_source
from windrow.distribution import install_hint
from windrow.errors import InvalidArgumentError, SinkError, UnsupportedOperationError
from windrow.sinks import IcebergSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.output import Output
from windrow_sql.iceberg import output as iceberg_module
from windrow_sql.iceberg.commits import Append

# Any in this module: elements of every type, and pyarrow has no types.


def totals_output(folder: Path, query: str = "query") -> Output:
    return output_of(Total, iceberg_sink(folder), query=query)


def files_in(folder: Path) -> int:
    return len(list((folder / "warehouse").rglob("*.parquet")))


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_module, "_PAUSES", (1e-6, 1e-6, 0.0))


#  batch      0          1      1 again   2      2 again, another process   0 of another query
#  snapshot   first      next   -         next   -                          next
def test_a_batch_is_one_snapshot_and_is_written_once(tmp_path: Path) -> None:
    output = totals_output(tmp_path)
    output.write(0, [Total("a", 1), Total("a", 1)])
    output.write(1, [Total("b", 2)])
    output.write(1, [Total("b", 20)])
    other = totals_output(tmp_path)
    other.write(2, [Total("c", 3)])
    output.write(2, [Total("c", 30)])
    assert iceberg_rows(tmp_path) == [("a", 1), ("a", 1), ("b", 2), ("c", 3)]
    totals_output(tmp_path, query="other").write(0, [Total("d", 4)])
    assert iceberg_rows(tmp_path)[-1] == ("d", 4)
    summaries = [snapshot.summary for snapshot in table_in(tmp_path).snapshots()]
    notes = [(each["windrow.query"], each["windrow.batch"]) for each in summaries if each]
    assert notes == [("query", "0"), ("query", "1"), ("query", "2"), ("other", "0")]
    assert files_in(tmp_path) == 4
    for each in (output, other):
        each.close()


def test_a_number_below_the_newest_one_is_refused(tmp_path: Path) -> None:
    output = totals_output(tmp_path)
    output.check(0, again=False)
    output.write(5, [Total("a", 1)])
    again = totals_output(tmp_path)
    again.check(5, again=True)
    again.check(6, again=False)
    for batch, runs_again in ((5, False), (4, True)):
        with pytest.raises(SinkError, match=rf"batch {batch} for .*, which has batch 5\n(.|\n)*older copy"):
            again.check(batch, again=runs_again)
    with pytest.raises(SinkError, match="older than what a sink of its query has written"):
        again.write(4, [Total("b", 2)])
    totals_output(tmp_path, query="other").check(0, again=False)
    assert iceberg_rows(tmp_path) == [("a", 1)]


def test_the_number_outlives_snapshots_that_expire_and_tables_that_are_restored(tmp_path: Path) -> None:
    output = totals_output(tmp_path)
    for batch in range(3):
        output.write(batch, [Total("a", batch)])
    table = table_in(tmp_path)
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in table.snapshots()[1:]]).commit()
    table_in(tmp_path).append(pa.table({"key": ["z"], "value": [0]}))
    totals_output(tmp_path).write(2, [Total("a", 2)])
    assert iceberg_rows(tmp_path) == [("a", 0), ("z", 0)]


def before_commit(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Has something happen before the next commit, when its snapshot is made."""
    commit = Append.commit_transaction

    def late(self: Append) -> Table:
        monkeypatch.setattr(Append, "commit_transaction", commit)
        action()
        return commit(self)

    monkeypatch.setattr(Append, "commit_transaction", late)


#  stale        sees that the table has no batch 0                    commits batch 0
#  successor                                       commits batch 0
@pytest.mark.usefixtures("_no_pauses")
@pytest.mark.parametrize("begun", [False, True])
def test_of_two_commits_with_one_number_the_table_takes_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, begun: bool
) -> None:
    stale, successor = totals_output(tmp_path), totals_output(tmp_path)
    first = int(begun)
    if begun:
        stale.write(0, [Total("z", 0)])
    before_commit(monkeypatch, lambda: successor.write(first, [Total("a", 1)]))
    stale.write(first, [Total("a", 10)])
    written = [("a", 1), *([("z", 0)] if begun else [])]
    assert iceberg_rows(tmp_path) == written
    # Its file is gone, and it is not in the way of what follows.
    assert files_in(tmp_path) == len(written)
    stale.write(first, [Total("a", 100)])
    stale.write(first + 1, [Total("b", 2)])
    successor.write(first + 1, [Total("b", 20)])
    assert iceberg_rows(tmp_path) == sorted([*written, ("b", 2)])


def test_the_library_alone_would_add_both(tmp_path: Path) -> None:
    """Why windrow has a commit of its own: once the library does better, it can take that of the library."""
    totals_output(tmp_path).close()
    rows = pa.table({"key": ["a"], "value": [1]})
    tables = [table_in(tmp_path) for _ in range(2)]
    for table in tables:
        table.append(rows, snapshot_properties={"windrow.batch": "0"})
    assert iceberg_rows(tmp_path) == [("a", 1), ("a", 1)]


@pytest.mark.usefixtures("_no_pauses")
def test_commits_of_others_in_between_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, other = totals_output(tmp_path), totals_output(tmp_path, query="other")
    table = table_in(tmp_path)
    before_commit(monkeypatch, lambda: other.write(0, [Total("b", 2)]))
    output.write(0, [Total("a", 1)])
    before_commit(monkeypatch, lambda: table.refresh().append(pa.table({"key": ["c"], "value": [3]})))
    output.write(1, [Total("a", 1)])
    assert iceberg_rows(tmp_path) == [("a", 1), ("a", 1), ("b", 2), ("c", 3)]
    # Nobody else knows the numbers of this query.
    output.write(1, [Total("a", 10)])
    assert len(iceberg_rows(tmp_path)) == 4


@pytest.mark.usefixtures("_no_pauses")
def test_a_table_that_always_changes_fails_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, others = totals_output(tmp_path), iter(range(9))
    commit = Append.commit_transaction

    def late(self: Append) -> Table:
        table_in(tmp_path).append(pa.table({"key": ["z"], "value": [next(others)]}))
        return commit(self)

    monkeypatch.setattr(Append, "commit_transaction", late)
    with pytest.raises(SinkError, match="refused a batch: Requirement failed: branch main has changed") as caught:
        output.write(0, [Total("a", 1)])
    assert str(caught.value.given).startswith("batch 0 of 1 elements for iceberg table db.t")
    assert [key for key, _ in iceberg_rows(tmp_path)] == ["z", "z", "z"]


@pytest.mark.usefixtures("_no_pauses")
@pytest.mark.parametrize("error", [CommitFailedException("seen before"), OSError("no answer")])
def test_a_commit_whose_answer_is_lost_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    output = totals_output(tmp_path)
    commit = Append.commit_transaction

    def unanswered(self: Append) -> Table:
        commit(self)
        raise error

    monkeypatch.setattr(Append, "commit_transaction", unanswered)
    if isinstance(error, CommitFailedException):
        output.write(0, [Total("a", 1)])
    else:
        with pytest.raises(SinkError, match="refused a batch: no answer"):
            output.write(0, [Total("a", 1)])
    monkeypatch.undo()
    totals_output(tmp_path).write(0, [Total("a", 10)])
    assert iceberg_rows(tmp_path) == [("a", 1)]


#  output   commits batch 0, whose answer is lost                           looks for its snapshot
#  others                                           append, expire snapshots
@pytest.mark.usefixtures("_no_pauses")
def test_a_commit_whose_answer_is_lost_and_whose_snapshot_expires_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = totals_output(tmp_path)
    commit = Append.commit_transaction

    def unanswered(self: Append) -> Table:
        commit(self)
        table = table_in(tmp_path)
        table.append(pa.table({"key": ["z"], "value": [0]}))
        table.maintenance.expire_snapshots().by_ids([self.snapshot_id]).commit()
        raise CommitFailedException("seen before")

    monkeypatch.setattr(Append, "commit_transaction", unanswered)
    output.write(0, [Total("a", 1)])
    assert iceberg_rows(tmp_path) == [("a", 1), ("z", 0)]


def test_two_sinks_of_a_query_have_batches_of_their_own(tmp_path: Path) -> None:
    outputs = outputs_of(Total, iceberg_sink(tmp_path), iceberg_sink(tmp_path))
    for output in outputs * 2:
        output.write(0, [Total("a", 1)])
    assert iceberg_rows(tmp_path) == 2 * [("a", 1)]


class Everything(NamedTuple):
    at: datetime
    price: Decimal
    id: UUID
    pair: tuple[int, str]
    sets: frozenset[int]
    nested: dict[str, list[Total | None]]
    maybe: Total | None


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    output_of(Report, iceberg_sink(tmp_path)).write(0, REPORTS)
    assert iceberg_rows(tmp_path) == [
        ("a", REPORTS[0].at, REPORTS[0].day, Decimal("1.5"), b"\xff", [{"x": 0.1, "y": None}], [("w", 1)],
         {"x": 1.0, "y": 2.0}),
        ("b", REPORTS[1].at, REPORTS[1].day, Decimal(0), b"", [], [], None),
    ]  # fmt: skip
    one = UUID(int=1)
    values = Everything(
        datetime(2026, 2, 28, 23, 59, 59, 123457, UTC), Decimal("-0.000000000000000001"), one, (1, "x"),
        frozenset([5]), {"k": [Total("a", 1), None]}, None,
    )  # fmt: skip
    output_of(Everything, iceberg_sink(tmp_path, "db.all")).write(0, [values])
    assert iceberg_rows(tmp_path, "db.all") == [
        (values.at, values.price, str(one), {"_1": 1, "_2": "x"}, [5], [("k", [{"key": "a", "value": 1}, None])], None)
    ]
    types = {field.name: str(field.field_type) for field in table_in(tmp_path, "db.all").schema().fields}
    assert types["at"] == "timestamptz"
    assert types["price"] == "decimal(38, 18)"
    assert types["pair"] == "struct<8: _1: optional long, 9: _2: optional string>"


def test_the_interpreter_writes_batch_by_batch(tmp_path: Path) -> None:
    totals = [Total("a", 1), Total("b", 2), Total("c", 3)]
    stream = from_source(CollectionSource(totals, batch_size=2))
    LocalRunner().run(Pipeline("iceberg", stream.sink_to(iceberg_sink(tmp_path))))
    assert iceberg_rows(tmp_path) == totals
    assert len(table_in(tmp_path).snapshots()) == 2


class Named(msgspec.Struct, rename={"first": "a.b", "second": "größe 1"}):
    first: int
    second: str


def test_columns_with_odd_names(tmp_path: Path) -> None:
    output_of(Named, iceberg_sink(tmp_path)).write(0, [Named(1, "x")])
    found = table_in(tmp_path).scan().to_arrow()
    assert found.to_pylist() == [{"a.b": 1, "größe 1": "x"}]


class Visit(NamedTuple):
    site: str | None
    at: datetime
    n: int


VISITS = [
    Visit(site, datetime(1969, 12, 30 + day, 23, 59, 59, 999999, UTC), n)
    for n, (site, day) in enumerate((site, day) for site in (None, "", "a/b=é", "x" * 40) for day in (0, 1))
]


# Any: transforms of values of every type.
def visits_table(folder: Path, *partitions: tuple[str, Transform[Any, Any]], version: int = 2) -> Table:
    """A table that somebody has made, with columns in another order."""
    schema = Schema(
        NestedField(5, "n", LongType(), required=True),
        NestedField(7, "at", TimestamptzType(), required=True),
        NestedField(9, "note", StringType(), required=False),
        NestedField(11, "site", StringType(), required=False),
    )
    table = catalog_in(folder).create_table("db.t", schema, properties={"format-version": str(version)})
    with table.update_spec() as update:
        for column, transform in partitions:
            update.add_field(column, transform, f"of_{column}_{transform}".replace("[", "_").rstrip("]"))
    return table


@pytest.mark.parametrize("version", [1, 2])
def test_rows_lie_in_the_partitions_of_the_table(tmp_path: Path, version: int) -> None:
    visits_table(
        tmp_path, ("at", DayTransform()), ("site", IdentityTransform()), ("n", BucketTransform(4)), version=version
    )
    output_of(Visit, iceberg_sink(tmp_path)).write(0, VISITS)
    assert iceberg_rows(tmp_path) == sorted([(each.n, each.at, None, each.site) for each in VISITS], key=repr)
    found = [row["partition"] for row in table_in(tmp_path).inspect.partitions().to_pylist()]
    assert {(each["of_at_day"], each["of_site_identity"]) for each in found} == {
        (each.at.date(), each.site) for each in VISITS
    }
    assert all(each["of_n_bucket_4"] in range(4) for each in found)
    for each in VISITS:
        rows = table_in(tmp_path).scan(f"at == '{each.at.isoformat()}' and n == {each.n}").to_arrow()
        assert rows.column("site").to_pylist() == [each.site]


# Any: as above.
TRANSFORMS: list[tuple[str, Transform[Any, Any], int]] = [
    ("site", TruncateTransform(3), 4),
    ("at", YearTransform(), 1),
    ("at", MonthTransform(), 1),
    ("at", HourTransform(), 2),
]


@pytest.mark.parametrize(("column", "transform", "count"), TRANSFORMS, ids=str)
def test_each_transform_divides_rows(tmp_path: Path, column: str, transform: Transform[Any, Any], count: int) -> None:
    visits_table(tmp_path, (column, transform))
    output_of(Visit, iceberg_sink(tmp_path)).write(0, VISITS)
    assert len(iceberg_rows(tmp_path)) == len(VISITS)
    assert table_in(tmp_path).inspect.partitions().num_rows == count


def test_a_text_that_is_too_long_to_name_a_folder_is_its_elements_fault(tmp_path: Path) -> None:
    table = visits_table(tmp_path, ("site", IdentityTransform()))
    (partition,) = (field.name for field in table.spec().fields)
    most = 255 - len(f"{partition}=")
    output = output_of(Visit, iceberg_sink(tmp_path))
    long = VISITS[0]._replace(site="a" * most)
    output.write(0, [long])
    assert len(iceberg_rows(tmp_path)) == 1
    with pytest.raises(InvalidArgumentError, match="too long to name a folder") as caught:
        output.write(1, [*VISITS, long._replace(site="a" * (most - 3) + " é")])
    assert str(caught.value.where).endswith("Visit.site")


def test_partitions_that_the_library_does_not_write_are_refused(tmp_path: Path) -> None:
    visits_table(tmp_path, ("site", IdentityTransform()), ("site", TruncateTransform(3)), ("note", BucketTransform(2)))
    with pytest.raises(SinkError, match="does not fit Visit") as caught:
        output_of(Visit, iceberg_sink(tmp_path))
    assert caught.value.message.splitlines()[1:] == [
        "  - site: several partitions are of this column",
        "  - note: a partition is of this column, and Visit has no such field",
    ]


class Measured(NamedTuple):
    celsius: float


def test_a_partition_of_floats_is_refused_since_the_library_would_write_rows_twice(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "celsius", DoubleType(), required=False))
    table = catalog_in(tmp_path).create_table("db.t", schema)
    with table.update_spec() as update:
        update.add_identity("celsius")
    with pytest.raises(SinkError, match="celsius: a partition is of this column, which is a double"):
        output_of(Measured, iceberg_sink(tmp_path)).write(0, [Measured(0.0), Measured(-0.0)])
    # Once the library writes both rows once, and those with NaN, it is not refused any more.
    table.append(pa.table({"celsius": [0.0, -0.0]}))
    assert len(iceberg_rows(tmp_path)) == 4


def test_a_format_that_the_library_does_not_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    totals_output(tmp_path)
    monkeypatch.setattr(Table, "format_version", 3)
    with pytest.raises(SinkError, match="has the format version 3; expected 1 or 2"):
        totals_output(tmp_path)


def test_a_table_with_more_columns_takes_nulls_there(tmp_path: Path) -> None:
    output = totals_output(tmp_path)
    output.write(0, [Total("a", 1)])
    with table_in(tmp_path).update_schema() as update:
        update.add_column("note", StringType())
    output.write(1, [Total("b", 2)])
    assert iceberg_rows(tmp_path) == [("a", 1, None), ("b", 2, None)]


def test_a_table_that_does_not_fit_any_more_fails_the_batch(tmp_path: Path) -> None:
    output = totals_output(tmp_path)
    with table_in(tmp_path).update_schema() as update:
        update.rename_column("key", "name")
    with pytest.raises(SinkError, match=r"the Iceberg table does not fit Total\n +- key: no such column"):
        output.write(0, [Total("a", 1)])
    assert iceberg_rows(tmp_path) == []
    assert files_in(tmp_path) == 0


class Position(NamedTuple):
    x: float
    y: float | None


class Trip(NamedTuple):
    name: str | None
    n: int
    price: Decimal
    places: list[Position | None]
    by_day: dict[str, int | None]
    where: Position


def test_a_table_that_does_not_fit_is_refused_with_all_that_is_wrong(tmp_path: Path) -> None:
    place = pa.struct([pa.field("x", pa.float32()), pa.field("z", pa.int64(), nullable=False)])
    schema = pa.schema(
        [
            pa.field("name", pa.string(), nullable=False),
            pa.field("n", pa.int32()),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("places", pa.list_(pa.field("element", place, nullable=False))),
            pa.field("by_day", pa.map_(pa.int64(), pa.field("value", pa.int64(), nullable=False))),
            pa.field("id", pa.int64(), nullable=False),
        ]
    )
    catalog_in(tmp_path).create_table("db.t", schema)
    with pytest.raises(SinkError, match="the Iceberg table does not fit Trip") as caught:
        output_of(Trip, iceberg_sink(tmp_path))
    assert caught.value.message.splitlines()[1:] == [
        "  - name: the column is required, and the field may be None",
        "  - n: the column is int; expected long",
        "  - price: the column is decimal(10, 2); expected decimal(38, 18)",
        "  - places.element: the column is required, and the field may be None",
        "  - places.element.x: the column is float; expected double",
        "  - places.element.y: no such column; expected double",
        "  - places.element.z: the column is required, and Position | None has no such field",
        "  - by_day.key: the column is long; expected string",
        "  - by_day.value: the column is required, and the field may be None",
        "  - where: no such column; expected struct",
        "  - id: the column is required, and Trip has no such field",
    ]
    assert str(caught.value.where).startswith("outputs.2.sink, ")


class Lasting(NamedTuple):
    key: str
    length: list[timedelta]


def test_a_type_that_iceberg_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="Iceberg has no type") as caught:
        output_of(Lasting, iceberg_sink(tmp_path))
    assert str(caught.value.where).endswith(", Lasting.length")


def test_a_value_that_does_not_fit_is_named(tmp_path: Path) -> None:
    output = totals_output(tmp_path)
    with pytest.raises(InvalidArgumentError, match="None in a field that is not Optional") as caught:
        output.write(0, [Total("a", 1), Total("b", None)])  # type: ignore[arg-type]  # what is refused
    assert str(caught.value.where).endswith(", Total.value")
    assert iceberg_rows(tmp_path) == []


def test_a_namespace_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot be made ready: Namespace does not exist") as caught:
        output_of(Total, iceberg_sink(tmp_path, "other.t"))
    assert "the namespace has to exist" in str(caught.value.hint)


def test_an_error_of_the_library_comes_without_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = "catalog:\n  test:\n    auth:\n      basic:\n        password: of-the-file\n"
    (tmp_path / ".pyiceberg.yaml").write_text(settings)
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__S3__SECRET_ACCESS_KEY", "of-the-machine")
    sink = iceberg_sink(tmp_path, token="swordfish", **{"header.Authorization": "Basic open-sesame"})
    output = output_of(Total, sink)

    def fail(self: Append) -> Table:
        raise OSError("no login with swordfish, of-the-machine, of-the-file or Basic open-sesame")

    monkeypatch.setattr(Append, "commit_transaction", fail)
    with pytest.raises(SinkError, match=r"no login with \*{5}, \*{5}, \*{5} or \*{5}") as caught:
        output.write(0, [Total("a", 1)])
    shown = "".join(traceback.format_exception(caught.value))
    for secret in ("swordfish", "of-the-machine", "of-the-file", "open-sesame"):
        assert secret not in shown


def test_a_login_that_the_catalog_has_given_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = totals_output(tmp_path)

    def fail(self: Append) -> Table:
        self._table.io.properties["s3.session-token"] = "swordfish"
        raise OSError("no login with swordfish")

    monkeypatch.setattr(Append, "commit_transaction", fail)
    with pytest.raises(SinkError, match=r"no login with \*{5}"):
        output.write(0, [Total("a", 1)])


def test_a_table_that_is_gone_fails_the_batch(tmp_path: Path) -> None:
    output = totals_output(tmp_path)
    catalog = catalog_in(tmp_path)
    catalog.drop_table("db.t")
    with pytest.raises(SinkError, match=r"the Iceberg table refused a batch: .*does not exist"):
        output.write(0, [Total("a", 1)])
    # Another table under that name has not what this one had.
    catalog.create_table("db.t", pa.schema([("key", pa.string()), ("value", pa.int64())]))
    with pytest.raises(SinkError, match="the Iceberg table refused a batch: Table UUID does not match"):
        output.write(0, [Total("a", 1)])


def test_a_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = iceberg_sink(tmp_path)
    monkeypatch.delitem(sys.modules, "windrow_sql.iceberg.output", raising=False)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(UnsupportedOperationError, match="a library is missing") as caught:
        output_of(Total, sink)
    assert caught.value.hint == install_hint("iceberg")


def test_a_table_that_windrow_makes_keeps_its_metadata_small(tmp_path: Path) -> None:
    totals_output(tmp_path)
    table = table_in(tmp_path)
    assert table.properties["write.metadata.delete-after-commit.enabled"] == "true"
    with table.transaction() as transaction:
        transaction.set_properties(
            {"write.metadata.previous-versions-max": "2", "commit.manifest.min-count-to-merge": "3"}
        )
    output = totals_output(tmp_path)
    for batch in range(6):
        output.write(batch, [Total("a", batch)])
    assert len(list((tmp_path / "warehouse").rglob("*.metadata.json"))) <= 4
    table = table_in(tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.io)) < 4
    assert iceberg_rows(tmp_path) == [("a", batch) for batch in range(6)]


WRONG: list[tuple[Any, str]] = [
    (lambda: IcebergSink("t"), r"needs a namespace(.|\n)*expected: +namespace.table"),
    (lambda: IcebergSink("db."), "the table of an Iceberg sink needs a namespace"),
    (lambda: IcebergSink(""), "the table of an Iceberg sink needs a name"),
    (lambda: IcebergSink("db.t", catalog=""), "the catalog of an Iceberg sink needs a name"),
    (lambda: IcebergSink("db.t", properties={"n": 1}), "the properties of a catalog are texts"),  # type: ignore[dict-item]  # what is refused
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_arguments_that_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_a_description_shows_no_property(tmp_path: Path) -> None:
    sink = IcebergSink[Odd]("db.t", catalog="lake", properties={"uri": "https://ann:s3cret@host", "token": "swordfish"})
    stream = from_source(CollectionSource([Odd("a", date(2026, 1, 1).day, None)]))
    text = Pipeline("plan", stream.sink_to(sink)).explain()
    assert "iceberg table db.t, catalog lake" in text
    assert not any(secret in text + repr(sink) for secret in ("s3cret", "swordfish"))
    assert {"s3cret", "swordfish"} <= set(sink.secrets)
