"""Files that are damaged, endless or hostile end in an error of windrow, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.formats import parquet, zstd
from windrow import from_source
from windrow.errors import MalformedRecordError, SourceError, WindrowError
from windrow.sources import CsvFileSource, FileSource, JsonFileSource, ParquetFileSource, TextFileSource
from windrow_runtime.codecs.arrow.csv_blocks import CsvBlocks
from windrow_runtime.codecs.arrow.json_columns import JsonBlocks
from windrow_runtime.codecs.text_sizes import MEASURED_SIZES, TextSizes
from windrow_runtime.connectors.files.formats import TextReader
from windrow_runtime.connectors.files.lines import text_records
from windrow_runtime.connectors.files.text_blocks import TextBlockReader

# Any in this module: sources of every type.


@dataclass(frozen=True)
class Row:
    name: str | None
    n: int


@dataclass(frozen=True)
class Exact:
    price: Decimal


def read_with(sizes: TextSizes, source: FileSource[Any], file: Path) -> list[Any]:
    """Reads a file row by row, with limits that are not the usual ones."""
    records = text_records(source)
    assert records is not None
    batches = TextReader(replace(records, sizes=sizes)).read(str(file))
    return [value for batch in batches for value in (*batch.values, *batch.malformed)]


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".deflate": zlib.compress, ".zst": zstd,
}  # fmt: skip


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("kind", [TextFileSource, JsonFileSource, CsvFileSource])
@pytest.mark.parametrize("options", [{}, {"encoding": "latin-1"}], ids=str)
def test_a_line_without_an_end(tmp_path: Path, ending: str, kind: Any, options: dict[str, Any]) -> None:
    file = tmp_path / f"x{ending}"
    file.write_bytes(COMPRESS[ending](b"name,n\na,1\n" + bytes(3 << 20)))
    types = () if kind is TextFileSource else (Row,)
    with pytest.raises(SourceError, match="a line of a file is too long"):
        read_with(TextSizes(longest_line=1 << 20), kind(file, *types, on_malformed="drop", **options), file)


BOMB = """
import resource, sys
from tests.codecs.test_bounded import CsvFileSource, JsonFileSource, Row, SourceError, from_source
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    from_source({kind}({file!r}, Row, on_malformed="drop")).collect()
except SourceError as error:
    print(error.message, error.where, sep="; ")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("kind", ["JsonFileSource", "CsvFileSource"])
def test_a_bomb_takes_some_times_the_longest_line(tmp_path: Path, kind: str) -> None:
    """A line of four gigabytes in four megabytes, with the limits as they are."""
    part = gzip.compress(bytes(1 << 26))
    file = tmp_path / "x.gz"
    with file.open("wb") as opened:
        opened.write(gzip.compress(b"name,n\n"))
        opened.writelines([part] * 64)
    program = BOMB.format(kind=kind, file=str(file))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    message, megabytes = done.stdout.splitlines()
    assert message.startswith("a line of a file is too long; ")
    assert str(file) in message
    assert int(megabytes) < 6 * MEASURED_SIZES.longest_line >> 20


def test_a_line_of_just_the_length_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes((b"a" * 100_000 + b"\n") * 3 + b"\r" * 100 + b"b" * 100_000)
    lines = read_with(TextSizes(longest_line=100_000), TextFileSource(file), file)
    assert list(map(len, lines)) == [100_000] * 3 + [0] * 100 + [100_000]


@pytest.mark.parametrize(("kind", "blocks"), [(JsonFileSource, JsonBlocks), (CsvFileSource, CsvBlocks)])
def test_columns_have_the_limit_too(tmp_path: Path, kind: Any, blocks: Any) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"name,n\n" + b"a" * (24 << 20), 1))
    given = text_records(kind(tmp_path, Row))
    assert given is not None
    records = replace(given, sizes=TextSizes(longest_line=20 << 20))
    reader = TextBlockReader(records, partial(blocks, records))
    with pytest.raises(SourceError, match="a line of a file is too long"):
        list(reader.read(str(tmp_path / "x.gz")))


def test_a_record_on_many_lines_has_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "x.json.gz"
    file.write_bytes(gzip.compress(b'[{"name": "' + b"\n" * (3 << 20)))
    with pytest.raises(SourceError, match="a record of a file is too long"):
        read_with(TextSizes(longest_line=1 << 20), JsonFileSource(file, Row, lines=False), file)


@pytest.mark.parametrize("text", ["1e99999999999999999999", "[" * 100_000, "9" * 5_000, "-" + "9" * 5_000 + ".5e"])
def test_hostile_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(f'{{"price": {text}}}\n')
    (tmp_path / "y.json").write_text(f'{{"price": "{text}"}}\n')
    expected = [Exact(Decimal(text))] if text.isdigit() else []
    for lines in (True, False):
        source = JsonFileSource(tmp_path, Exact, on_malformed="drop", lines=lines)
        assert from_source(source).collect() == expected


def test_many_bytes_that_are_no_characters(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff" * (1 << 20))
    with pytest.raises(MalformedRecordError, match=r"not UTF-8: 0xff, 0xff, 0xff, 0xff\.\.\."):
        from_source(TextFileSource(tmp_path / "x")).collect()


def test_names_of_parquet_columns_that_are_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(parquet({"name": ["a"], "n": [1]}).replace(b"name", b"na\xff\xfe"))
    with pytest.raises(SourceError, match="a file cannot be read"):
        from_source(ParquetFileSource(tmp_path, Row)).collect()


PARQUET = parquet({"name": ["a", None, "c"] * 50, "n": list(range(150))}, compression="zstd")
LINES = b'{"name": "a", "n": 1}\n{"name": null, "n": 2}\n' * 50


@pytest.mark.parametrize("ending", [*COMPRESS, ".parquet"])
def test_damage_anywhere_is_an_error_of_windrow_or_is_not_seen(tmp_path: Path, ending: str) -> None:
    whole = PARQUET if ending == ".parquet" else COMPRESS[ending](LINES)
    chance = random.Random(7)
    kind = ParquetFileSource if ending == ".parquet" else JsonFileSource
    file = tmp_path / f"x{ending}"
    for turn in range(60):
        data = bytearray(whole)
        if turn % 3 == 0:
            del data[chance.randrange(len(data)) :]
        for _ in range(turn % 3):
            data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(data)
        with suppress(WindrowError):
            from_source(kind(file, Row, on_malformed="drop")).collect()


@pytest.mark.parametrize("kind", [TextFileSource, JsonFileSource, CsvFileSource, ParquetFileSource])
def test_a_folder_in_the_place_of_a_file_or_none(tmp_path: Path, kind: Any) -> None:
    from windrow_runtime.connectors.files.formats import file_reader

    reader = file_reader(kind(tmp_path) if kind is TextFileSource else kind(tmp_path, Row))
    (tmp_path / "folder.gz").mkdir()
    for name in ("folder.gz", "gone.json"):
        with pytest.raises(SourceError, match="cannot be read"):
            list(reader.read(str(tmp_path / name)))


DOCUMENTS = [
    ('[{"name": "a", "n": 1},\n {"name": "}]\\"", "n": 2}]', [Row("a", 1), Row('}]"', 2)]),
    ('{\n  "name": "a",\n  "n": 1\n}\n{"n": 2}{"n": 3}', [Row("a", 1), Row(None, 2), Row(None, 3)]),
    ('\ufeff [ ] \n [{"n": 1}]\n[{"n": 2}]', [Row(None, 1), Row(None, 2)]),
    ("", []),
]


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 16])
@pytest.mark.parametrize(("text", "expected"), DOCUMENTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_records_without_lines(tmp_path: Path, text: str, expected: list[Row], size: int, encoding: str) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text.encode(encoding))
    source = JsonFileSource(file, Row, lines=False, encoding=encoding)
    assert read_with(TextSizes(document_block=size), source, file) == from_source(source).collect() == expected


def test_scalars_without_lines(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1, 2,3]\n4 5\n6")
    assert from_source(JsonFileSource(tmp_path, int, lines=False)).collect() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('[{"n": 1},\n{"n": "x"}]', 2, "expected int"),
        ('[{"n": 1}\n{"n": 2}]', 2, "expected , or ]"),
        ('[{"n": 1},\n', 2, "ends within an array"),
        ('[{"n": 1},\n{"n": 2', 2, "ends within a value"),
        ('{"n": 1}\n]', 2, "expected a value, not ]"),
        ('[{"n": 1},\n]', 2, "expected a value, not ]"),
        ('{"n": 1}\n{"n": 2]}', 2, "not JSON"),
    ],
)
def test_faults_without_lines(tmp_path: Path, text: str, line: int, reason: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(MalformedRecordError) as caught:
        from_source(JsonFileSource(tmp_path, Row, lines=False)).collect()
    assert reason in str(caught.value)
    assert f"x.json:{line}" in str(caught.value)


@pytest.mark.parametrize("text", ['[{"n": 1}]', '[\n{"n": 1}\n]', '{\n"n": 1\n}', '[{"n": 1},\n{"n": 2}]'])
def test_the_first_contact_says_that_a_record_is_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(MalformedRecordError, match="lines=False"):
        from_source(JsonFileSource(tmp_path, Row)).collect()
