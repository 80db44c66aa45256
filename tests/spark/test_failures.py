"""Errors from workers, without Spark: what Spark does to them is in its text."""

from __future__ import annotations

import pytest

from windrow.errors import Location, MissingTimestampError, UserFunctionError, WindrowError
from windrow_spark.faults import MarkedError, failures_marked, find_failure


def divide(value: int) -> float:
    return 1 / value


def fail() -> None:
    try:
        divide(0)
    except ZeroDivisionError as error:
        raise UserFunctionError(
            "a function raised ZeroDivisionError: division by zero",
            given={"value": 0},
            where="sensors.2.map, pipeline.py:7",
            hint="look",
        ) from error


def test_an_error_is_found_in_the_text_that_spark_makes_of_it() -> None:
    with pytest.raises(MarkedError) as caught, failures_marked():
        fail()
    spark_text = f"[STREAM_FAILED] Query terminated:\n  {caught.value}\n SQLSTATE: XXKST\n=== Streaming Query ==="
    failure = find_failure(RuntimeError(spark_text))
    assert type(failure) is UserFunctionError
    assert str(failure) == (
        "a function raised ZeroDivisionError: division by zero\n"
        "  given:    {'value': 0}\n"
        "  where:    sensors.2.map, pipeline.py:7\n"
        "  hint:     look"
    )
    cause = str(failure.__cause__)
    assert "in divide\n    return 1 / value" in cause
    assert cause.endswith("ZeroDivisionError: division by zero")


def test_the_kind_and_the_parts_survive() -> None:
    error = MissingTimestampError("no timestamp", given=3, expected="one", where=Location("a.py", 3))
    failure = find_failure(MarkedError(error))
    assert type(failure) is MissingTimestampError
    assert str(failure) == str(error)
    assert failure.__cause__ is None


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), failures_marked():
        raise KeyError("mine")
    assert find_failure(RuntimeError("no mark")) is None
    assert isinstance(find_failure(MarkedError(WindrowError("x"))), WindrowError)
