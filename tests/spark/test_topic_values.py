"""The values of a topic as columns give the elements and malformed records that reading them one by one gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from windrow.kafka import KafkaRecordSource, KafkaSource
from windrow_runtime.inputs.topic_values import kafka_decoder, topic_values

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
    b'{"sensor": "\xff"}',
    b'\xef\xbb\xbf{"sensor": "mark"}',
    b'{"sensor": "a", "long": ' + b"1" * 5_000 + b"}",
    None,
]


def batch_of(values: list[bytes | None]) -> Any:
    offsets = list(range(len(values)))
    return pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["in"] * len(values)),
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
        }
    )


def assert_same(source: KafkaSource[Any], values: list[bytes | None]) -> None:
    batch = batch_of(values)
    expected = kafka_decoder(source)(batch)
    read = topic_values(source)
    assert not isinstance(read, str)
    (rows,) = read(iter([batch]))
    elements, malformed, _ = rows.decode()
    assert list(map(repr, elements)) == list(map(repr, expected.values))
    assert malformed == expected.malformed
    assert rows.columns().num_rows == len(elements)


@examples(150)
@given(st.lists(st.sampled_from(JSON), min_size=1, max_size=8))
def test_json(values: list[bytes | None]) -> None:
    assert_same(KafkaSource("a:1", "in", Reading), values)


@pytest.mark.parametrize("value", JSON)
@pytest.mark.parametrize("others", [0, 1, 40])
def test_each_json_value_among_good_ones(value: bytes | None, others: int) -> None:
    good: list[bytes | None] = [b'{"sensor": "a"}'] * others
    assert_same(KafkaSource("a:1", "in", Reading), [*good, value, *good])


@examples(100)
@given(st.lists(st.sampled_from([b"a", "\u00e9".encode(), b"", b"a\nb", b"\xff", None]), min_size=1, max_size=6))
def test_text_and_bytes(values: list[bytes | None]) -> None:
    assert_same(KafkaSource("a:1", "in", str, value_format="text"), values)
    assert_same(KafkaSource("a:1", "in", bytes, value_format="bytes"), values)


def test_other_values_are_read_one_by_one_for_a_reason() -> None:
    reasons = [topic_values(KafkaSource("a:1", "in", Nested)), topic_values(KafkaRecordSource("a:1", "in", Reading))]
    assert reasons == ["Nested.readings is a list[Reading]", "its elements have the keys and headers of the records"]
