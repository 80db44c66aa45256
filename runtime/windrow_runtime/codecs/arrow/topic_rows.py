"""Makes Arrow batches of the records of a Kafka topic, as confluent-kafka gives them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa

# Any in this module: pyarrow and confluent-kafka have no types.

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def topic_rows(messages: Sequence[Any], topic: str, partition: int, columns: Collection[str]) -> pa.RecordBatch:
    """Returns records as an Arrow batch with the columns that Spark's connector would give."""
    count = len(messages)
    arrays = {
        "value": pa.array([each.value() for each in messages], pa.binary()),
        "topic": pa.repeat(topic, count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "offset": pa.array([each.offset() for each in messages], pa.int64()),
    }
    if "key" in columns:
        headers = [[{"key": name, "value": value} for name, value in each.headers() or ()] for each in messages]
        arrays["key"] = pa.array([each.key() for each in messages], pa.binary())
        arrays["timestamp"] = pa.array([each.timestamp()[1] for each in messages], pa.timestamp("ms", "UTC"))
        arrays["headers"] = pa.array(headers, _HEADERS)
    return pa.record_batch(arrays)
