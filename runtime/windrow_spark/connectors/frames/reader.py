"""Answers what engines ask of a DataFrame as a source."""

from __future__ import annotations

from typing import Any

from windrow.sources import DataFrameSource
from windrow_runtime.inputs.reader import SourceReader

# Any in this module: records of every type.


class DataFrameReader(SourceReader[DataFrameSource[Any]]):
    """Reads a DataFrame of a Spark session, which Spark alone can."""

    may_grow = False

    @property
    def timezone(self) -> object:
        return self.source.timezone
