"""Checks the times that tests give a harness."""

from __future__ import annotations

from datetime import datetime

from windrow.errors import WindrowError
from windrow.time import timestamp_millis
from windrow_runtime.operators.errors import line_of_caller


def moment(time: int | datetime, name: str) -> int:
    """Returns a time in milliseconds; an error about what is no moment names the line of the test."""
    try:
        return timestamp_millis(time, name)
    except WindrowError as error:
        raise error.at(line_of_caller()) from None


def timestamp_or_none(timestamp: int | datetime | None) -> int | None:
    """Returns the timestamp of an element in milliseconds; None: it has none."""
    return None if timestamp is None else moment(timestamp, "a timestamp")
