"""Codecs: elements as Arrow batches, Spark rows, JSON and CSV texts; and the stable hash of keys.

Everything starts from :func:`record_type`, which reads an annotation into columns. pyarrow is imported when a
function first needs it. What needs pyspark is in :mod:`windrow_runtime.codecs.spark_schema`, which is not
imported here.
"""

from windrow_runtime.codecs.arrow.batches import arrow_schema, check_arrow_schema, decode_batch, encode_batch
from windrow_runtime.codecs.csv.decoder import CsvDecoder
from windrow_runtime.codecs.csv.rows import CsvQuotes, CsvRow
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.malformed import MalformedRecord
from windrow_runtime.codecs.record_type import Field, Kind, RecordShape, RecordType, ValueType, record_type
from windrow_runtime.codecs.stable_hash import stable_hash

__all__ = [
    "CsvDecoder",
    "CsvQuotes",
    "CsvRow",
    "Field",
    "JsonDecoder",
    "JsonEncoder",
    "Kind",
    "MalformedRecord",
    "RecordShape",
    "RecordType",
    "ValueType",
    "arrow_schema",
    "check_arrow_schema",
    "decode_batch",
    "encode_batch",
    "record_type",
    "stable_hash",
]
