"""The values of a topic as columns give the elements and malformed records that reading them one by one gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from windrow.kafka import AvroFormat, KafkaFormat, KafkaRecordSource, KafkaSource, TopicSource
from windrow_kafka.columns import TopicRows
from windrow_kafka.registry.values import RegisteredReader
from windrow_kafka.values import kafka_decoder, topic_values
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.arrow.parquet import UNREAD
from windrow_runtime.inputs.batches import SourceBatch

# Any in this module: pyarrow has no types.


class Reading(NamedTuple):
    sensor: str
    celsius: float | None = None


@dataclass
class Nested:
    readings: list[Reading]


JSON: list[bytes | None] = [
    b'{"sensor": "roof", "celsius": 1.5}',
    b'{"sensor": "cellar"}',
    b'{"celsius": 1, "sensor": "\\u00e9", "more": [1, {}]}',
    '{"sensor": "\u00e9"}'.encode(),
    b'{"sensor": "roof",\n "celsius": 2}',
    b'{"sensor": "ro\nof"}',
    b'{"sensor": "roof"}\r',
    b'{"sensor": "roof"}\n',
    b"\n",
    b"",
    b"  ",
    b"null",
    b"{",
    b"[1]",
    b'{"sensor": 1}',
    b'{"sensor": "a", "celsius": NaN}',
    b'{"sensor": "a", "celsius": 1e999}',
    b'{"sensor": "a", "celsius": 9007199254740993}',
    b'{"sensor": "a", "celsius": -590295810358705700000}',
    b'{"sensor": "\xff"}',
    b'\xef\xbb\xbf{"sensor": "mark"}',
    b'{"sensor": "a", "long": ' + b"1" * 5_000 + b"}",
    None,
]


@dataclass(frozen=True)
class Message:
    """A record as confluent-kafka gives it."""

    number: int
    text: bytes | None

    def value(self) -> bytes | None:
        return self.text

    def offset(self) -> int:
        return self.number

    def key(self) -> bytes | None:
        return None if self.number % 3 == 0 else b"k%d" % self.number

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_123 + self.number

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None if self.number % 2 else [("trace", b"%d" % self.number), ("none", None)]


def client_rows(values: list[bytes | None]) -> TopicRows:
    return TopicRows([Message(*each) for each in enumerate(values)], "in", 0)


def spark_rows(values: list[bytes | None]) -> Any:
    """No list where there are no headers."""
    rows = client_rows(values)
    columns = {name: rows.column(name) for name in ("value", "topic", "partition", "offset", "key")}
    columns["timestamp"] = rows.column("timestamp").cast(pa.timestamp("us", "Europe/Paris"))
    headers = rows.column("headers")
    columns["headers"] = pa.array([each or None for each in headers.to_pylist()], headers.type)
    return pa.record_batch(columns)


def assert_same(source: TopicSource[Any], values: list[bytes | None]) -> None:
    for batch in (client_rows(values), spark_rows(values)):
        expected = kafka_decoder(source)(batch)
        read = topic_values(source)
        assert not isinstance(read, str)
        (rows,) = read(iter([batch]))
        decoded = SourceBatch(*rows.decode())
        assert list(map(repr, decoded.values)) == list(map(repr, expected.values))
        assert decoded.malformed == expected.malformed
        origins = [f"in, partition 0, offset {row}" for row in range(len(values))]
        places = [decoded.origin(index) for index in range(len(decoded.values))]
        assert places == [expected.origin(index) for index in range(len(decoded.values))]
        assert {*places, *(each.origin for each in decoded.malformed)} == set(origins)
        columns = rows.columns()
        assert columns.equals(encode_batch(expected.values, rows.record_type))


def sources(value_type: Any, value_format: KafkaFormat = "json") -> list[TopicSource[Any]]:
    return [each("a:1", "in", value_type, value_format=value_format) for each in (KafkaSource, KafkaRecordSource)]


@examples(150)
@given(st.lists(st.sampled_from(JSON), min_size=1, max_size=8))
def test_json(values: list[bytes | None]) -> None:
    for source in sources(Reading):
        assert_same(source, values)


@pytest.mark.parametrize("value", JSON)
@pytest.mark.parametrize("others", [0, 1, 40])
def test_each_json_value_among_good_ones(value: bytes | None, others: int) -> None:
    good: list[bytes | None] = [b'{"sensor": "a"}'] * others
    for source in sources(Reading):
        assert_same(source, [*good, value, *good])


@examples(100)
@given(st.lists(st.sampled_from([b"a", "\u00e9".encode(), b"", b"a\nb", b"\xff", None]), min_size=1, max_size=6))
def test_text_and_bytes(values: list[bytes | None]) -> None:
    for source in [*sources(str, "text"), *sources(bytes, "bytes")]:
        assert_same(source, values)


def test_values_of_a_registry_that_do_not_fit_once_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(_: RegisteredReader, value: bytes | None) -> dict[str, object]:
        return {"sensor": (value or b"").decode() or None, "celsius": 1.5}

    monkeypatch.setattr(RegisteredReader, "_decoded", decoded)
    value_format = AvroFormat("http://127.0.0.1:9")
    for make in (KafkaSource, KafkaRecordSource):
        source: TopicSource[Any] = make("a:1", "in", Reading, value_format=value_format)
        assert_same(source, [b"a", b"", b"b", b"c", None, b"d"])
        (rows,) = topic_values(source)(iter([client_rows([b"a", b"", *[b"b"] * 9])]))  # type: ignore[operator]  # no text
        assert (rows.rows.num_rows, [row for row, _ in rows.plain]) == (10, [1])


def test_good_records_beside_a_bad_one_stay_columns() -> None:
    for source in [*sources(Reading), *sources(str, "text")]:
        read = topic_values(source)
        assert not isinstance(read, str)
        (rows,) = read(iter([client_rows([b'{"sensor": "a"}', b'{"sensor": "b"}', None, b'{"sensor": "c"}'])]))
        assert (rows.rows.num_rows, [row for row, _ in rows.plain]) == (3, [2])


def test_columns_that_no_step_asks_for_are_not_made() -> None:
    read = topic_values(KafkaRecordSource("a:1", "in", Reading), frozenset({"value", "offset"}))
    assert not isinstance(read, str)
    (rows,) = read(iter([client_rows([b'{"sensor": "a"}', b'{"sensor": "b"}'])]))
    columns = rows.columns()
    assert columns.schema.metadata == {UNREAD: b"headers,key,partition,timestamp,topic"}
    assert columns.column("offset").to_pylist() == [0, 1]
    assert columns.column("headers").to_pylist() == [[], []]


def test_other_values_are_read_one_by_one_for_a_reason() -> None:
    assert {topic_values(source) for source in sources(Nested)} == {"Nested.readings is a list[Reading]"}
