"""`windrow lateness` counts what a run of the interpreter loses as late."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.command.conftest import Command, Write
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.command.disorder import Disorder
from windrow_runtime.local import LocalRunner

TIMES = [1_700_000_000_000 + millis for millis in (0, 5000, 3000, 9000, 8999, 4000, 9000, 12_000)]
"""In order of arrival; three of them are 2,000, 1 and 5,000 ms behind."""


def disorder(seed: int, elements: int) -> list[int]:
    """Timestamps of which some come late, a few of them very late."""
    random = Random(seed)
    return [1_700_000_000_000 + 100 * n - int(random.expovariate(1 / 400)) for n in range(elements)]


def late_in_a_run(times: Sequence[int], bound: int) -> int:
    """How many elements the interpreter drops as late in windows of 1 ms, with each element as a batch."""
    windows = (
        from_source(CollectionSource(list(times), int, batch_size=1))
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=bound)), timestamp=lambda time: time
        )
        .key_by(lambda time: 0)
        .window(TumblingEventTimeWindows.of(timedelta(milliseconds=1)))
    )
    pipeline = Pipeline("late", windows.aggregate(agg.count()).sink_to(CollectSink()))
    return LocalRunner().run(pipeline).counter("late_records_dropped")


@pytest.mark.parametrize("seed", range(3))
def test_a_bound_loses_what_a_run_loses(seed: int) -> None:
    times, measured = disorder(seed, 200), Disorder()
    distances = [measured.add(time) for time in times]
    for bound in (0, 1, 50, 400, 1000, *(distance + shift for distance in distances[:8] for shift in (-1, 0, 1))):
        if bound >= 0:
            assert measured.beyond(bound) == late_in_a_run(times, bound), bound


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 1.0])
def test_a_suggested_bound_is_the_least(seed: int, share: float) -> None:
    times, measured = disorder(seed, 1000), Disorder()
    for time in times:
        measured.add(time)
    bound = measured.least_bound(share)
    assert measured.beyond(bound) <= share * 1000
    assert bound == 0 or measured.beyond(bound - 1) > share * 1000
    if share == 0.001:
        assert late_in_a_run(times, bound) <= 1 < late_in_a_run(times, bound - 1)


REPORT = """\
8 elements, timestamps in milliseconds, 2023-11-14T22:13:20.000Z to 2023-11-14T22:13:32.000Z
behind the highest timestamp before: 3 (37.5 %)
  50 %: 0 ms, 90 %: 5 s, 99 %: 5 s, 99.9 %: 5 s, most: 5 s

       bound          late  share
         1 s             2  25.0 %
         5 s             0  0 %
        30 s             0  0 %

WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)) loses at most 0.1 %: 0 of 8
WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)) loses nothing: 0 of 8
"""


def test_the_report(windrow: Command, write: Write) -> None:
    write("times.json", "".join(f"{json.dumps({'at': time})}\n" for time in TIMES))
    assert windrow("lateness", "times.json", "--time", "at") == (0, REPORT, "")
    done = windrow("lateness", "times.json", "--time", "at", "--bounds", "1ms,1.5s,2s,2m,2min,1.5h")
    rows = [line.split() for line in done.out.splitlines()[5:10]]
    assert rows == [
        ["1", "ms", "2", "25.0", "%"],
        ["1.5", "s", "2", "25.0", "%"],
        ["2", "s", "1", "12.5", "%"],
        ["2", "min", "0", "0", "%"],
        ["1", "h", "30", "min", "0", "0", "%"],
    ]


def test_what_is_in_order_needs_no_bound(windrow: Command, write: Write) -> None:
    write("ordered.csv", "at\n1\n1\n2\n")
    assert "WatermarkStrategy.for_monotonous_timestamps() loses nothing: 0 of 3" in windrow(
        *("lateness", "ordered.csv", "--time", "at", "--unit", "ms")
    ).out  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "values", "shown"),
    [
        ("s", [time // 1000 for time in TIMES], "in seconds"),
        ("s", [time / 1000 for time in TIMES], "in seconds"),
        ("ms", TIMES, "in milliseconds"),
        ("us", [time * 1000 for time in TIMES], "in microseconds"),
        ("ns", [time * 1_000_000 for time in TIMES], "in nanoseconds"),
        ("texts", [str(time) for time in TIMES], "in milliseconds"),
        ("dates", [datetime.fromtimestamp(time / 1000, UTC).isoformat() for time in TIMES], "as dates"),
        ("Z", [datetime.fromtimestamp(time / 1000, UTC).isoformat()[:19] + "Z" for time in TIMES], "as dates"),
        ("naive", [datetime.fromtimestamp(time / 1000, UTC).isoformat()[:-6] for time in TIMES], "as dates"),
    ],
)
@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_forms_of_timestamps(
    suffix: str, unit: str, values: list[object], shown: str, windrow: Command, write: Write, tmp_path: Path
) -> None:
    if suffix == "parquet":
        pyarrow.parquet.write_table(pa.table({"at": values}), tmp_path / "values.parquet", row_group_size=3)
    elif suffix == "csv":
        write("values.csv", "".join(f"{value}\n" for value in ["at", *values]))
    else:
        write("values.json", "".join(f"{json.dumps({'at': value})}\n" for value in values))
    path = tmp_path / f"values.{suffix}"
    out = windrow("lateness", path, "--time", "at").out
    whole_seconds = all(isinstance(value, int) for value in values) if unit == "s" else unit == "Z"
    expected = REPORT.replace("in milliseconds", shown)
    if whole_seconds:  # 8,999 ms is 8 s, so a second behind
        expected = expected.replace("5,000", "5 s")
    assert out == expected
    if unit in {"s", "ms", "us", "ns"}:
        assert windrow("lateness", path, "--time", "at", "--unit", unit).out == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_parquet(unit: str, windrow: Command, write: Write, tmp_path: Path) -> None:
    write("none", "")
    column = pa.array([datetime.fromtimestamp(time / 1000, UTC) for time in TIMES], pa.timestamp("us", "UTC"))
    table = pa.table({"at": column.cast(pa.timestamp(unit, "UTC"), safe=False)})
    pyarrow.parquet.write_table(table, tmp_path / "times.parquet")
    assert windrow("lateness", "times.parquet", "--time", "at").out == REPORT.replace("in milliseconds", "as dates")


def test_keys(windrow: Command, write: Write) -> None:
    rows = [("a", 1000), ("b", 9000), ("a", 2000), ("a", 1500), ("b", 8999)]
    write("keyed.csv", "".join(f"{key},{time}\n" for key, time in [("key", "at"), *rows]))
    lines = windrow("lateness", "keyed.csv", "--time", "at", "--unit", "ms", "--key", "key").out.splitlines()
    at = lines.index("within each key, as if it were a partition with a watermark of its own: 2 behind")
    assert lines[at + 1].endswith("most: 500 ms")
    assert [line.split() for line in lines[at + 5 :]] == [
        ["3", "2", "2", "0", "7.5", "s", "'a'"],
        ["2", "0", "0", "0", "1", "ms", "'b'"],
    ]
    many = [("key", "at"), *((f"k{number}", number) for number in range(12))]
    write("many.csv", "".join(f"{key},{time}\n" for key, time in many))
    assert windrow("lateness", "many.csv", "--time", "at", "--key", "key").out.endswith("\nand 2 more\n")


def test_keys_that_have_no_hash(windrow: Command, write: Write) -> None:
    write("lists.json", '{"at": 2, "key": [1]}\n{"at": 1, "key": [1]}\n{"at": 1, "key": {"a": 1}}\n')
    done = windrow("lateness", "lists.json", "--time", "at", "--unit", "ms", "--key", "key")
    assert [line.split()[0] for line in done.out.splitlines()[-2:]] == ["2", "1"]


def test_a_text_that_is_no_utf8(windrow: Command, write: Write, tmp_path: Path) -> None:
    write("there", "")
    for name in ("bytes.csv", "bytes.json"):
        (tmp_path / name).write_bytes(b'at\n"\xff"\n')
        done = windrow("lateness", name, "--time", "at")
        assert done.code == 1
        assert "the file cannot be read to its end\n  given:    'utf-8' codec can't decode byte 0xff" in done.err
        assert f"where:    {name}\n" in done.err


def test_several_files_come_one_after_the_other(windrow: Command, write: Write) -> None:
    write("first.json", '{"at": 5000}\n')
    write("second.json", '\n{"at": 1000}\n{"other": 1}\n{"at": null}\n')
    done = windrow("lateness", "first.json", "second.json", "--time", "at", "--unit", "ms")
    assert "most: 4 s" in done.out
    assert done.err == (
        "windrow: 2 elements without a timestamp are left out; the first is at second.json:3\n"
    )  # fmt: skip


def test_a_folder_is_read_as_a_source_reads_it(windrow: Command, write: Write, tmp_path: Path) -> None:
    for second, (name, text) in enumerate(
        (("day/z.json", '{"at": 5000}\n'), ("day/deep/a.json", '{"at": 1000}\n'), ("day/.hidden", "no records"))
    ):
        os.utime(write(name, text), (1_700_000_000 + second, 1_700_000_000 + second))
    done = windrow("lateness", "day", "--time", "at", "--unit", "ms")
    assert (done.code, done.err) == (0, "")
    assert "2 elements" in done.out
    assert "most: 4 s" in done.out
    write("day/bad.json", '{"at": true}\n')
    assert "where:    day/bad.json:1" in windrow("lateness", "day", "--time", "at").err
    (tmp_path / "empty").mkdir()
    done = windrow("lateness", "empty", "--time", "at")
    assert (done.code, done.out) == (2, "")
    assert "the folder has no files\n  given:    empty\n" in done.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--time", "nope"), "no element has a timestamp\n  given:    events.json: --time nope\n"),
        (("--time", "att"), "hint:     did you mean at?"),
        (("--time", "e.at"), "hint:     fields of fields are not read: name one of the record itself"),
        (("--time", "at", "--key", "nope"), "no element has the key\n  given:    events.json: --key nope\n"),
    ],
)
def test_a_field_that_json_does_not_have(options: Sequence[str], expected: str, windrow: Command, write: Write) -> None:
    write("events.json", '\n{"shop": "a", "at": 1, "e": {"at": 1}}\n{"shop": "b", "at": 2}\n')
    done = windrow("lateness", "events.json", *options)
    assert (done.code, done.out) == (1, "")
    assert expected in done.err
    assert "  expected: a field of the records; the first line has shop, at, e\n" in done.err


@pytest.mark.parametrize(
    ("name", "text", "code", "expected"),
    [
        ("absent.json", None, 2, "there is no such file"),
        ("words.txt", "", 2, "the name of the file does not tell its format"),
        ("other.csv", "time\n1\n", 1, "windrow: the file has no such column\n  given:    at\n  expected: time"),
        ("deep.json", "[" * 100_000, 1, "a line of the file is no JSON\n"),
        ("endless.json", '{"at": 123456789012345678901234567890}\n', 1, "the field at is no timestamp\n"),
        ("bad.json", '{"at": 1}\n{', 1, "where:    bad.json:2"),
        ("bad.csv", "at\nsoon\n", 1, "the field at is no timestamp\n  given:    'soon'"),
        ("bad.parquet", "PAR", 1, "the file is no Parquet file"),
        ("boolean.json", '{"at": true}\n', 1, "given:    True"),
        ("nan.json", '{"at": NaN}\n', 1, "given:    nan"),
        ("list.json", "[1]\n", 1, "no element has a timestamp"),
        ("empty.json", "", 1, "no element has a timestamp"),
    ],
)
def test_what_cannot_be_measured(
    name: str, text: str | None, code: int, expected: str, windrow: Command, write: Write
) -> None:
    write("there", "")
    if text is not None:
        write(name, text)
    done = windrow("lateness", name, "--time", "at")
    assert (done.code, done.out) == (code, "")
    assert expected in done.err
    assert "Traceback" not in done.err


def test_timestamps_as_far_apart_as_they_can_be(windrow: Command, write: Write) -> None:
    write("far.json", '{"at": 43000000000000000}\n{"at": -43000000000000000}\n')
    done = windrow("lateness", "far.json", "--time", "at", "--unit", "ms")
    assert (done.code, done.err) == (0, "")
    assert "timedelta(seconds=86000000000000)) loses nothing: 0 of 2" in done.out


def test_a_cell_as_long_as_a_source_reads_it(windrow: Command, write: Write) -> None:
    write("long.csv", f"at,text\n1,{'x' * 200_000}\n")
    assert windrow("lateness", "long.csv", "--time", "at")[::2] == (0, "")


def test_a_bound_that_is_no_length(windrow: Command) -> None:
    done = windrow("lateness", "x.json", "--time", "at", "--bounds", "5 parsecs")
    assert (done.code, done.out) == (2, "")
    assert "no list of lengths such as 500ms,5s,1m,2h,1d" in done.err
