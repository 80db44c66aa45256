"""Types of Spark's columns, in few words."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructType

LONG: Final = LongType()
RAW: Final = BinaryType()
TEXT: Final = StringType()


def struct(**fields: DataType) -> StructType:
    """A struct of fields, in their order."""
    found = StructType()
    for name, kind in fields.items():
        found.add(name, kind)
    return found
