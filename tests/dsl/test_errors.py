"""The errors: their texts, their root, and their way across processes."""

from __future__ import annotations

import inspect
import pickle
from datetime import timedelta

import pytest

from windrow import WindrowError, errors
from windrow.errors import Fault, InvalidArgumentError, Location, MissingTimestampError, PlanError

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and kind not in (errors.WindrowWarning, WindrowError, PlanError)
]


PARTS: list[tuple[WindrowError, str]] = [
    *(
        (WindrowError("a name is missing", given=given), f"a name is missing\n  given:    {given!r}")
        for given in ("", " ", "\n", "a\ud800")  # a text that cannot be seen is quoted
    ),
    (WindrowError("it broke", given="size=5 ms"), "it broke\n  given:    size=5 ms"),
    (WindrowError("it broke", given=0), "it broke\n  given:    0"),
    (WindrowError("it broke"), "it broke"),
    (WindrowError("it broke", hint="mend it"), "it broke\n  hint:     mend it"),
    (WindrowError("it broke", where=Location("job.py", 7)), "it broke\n  where:    job.py:7"),
    (WindrowError("it broke", given=object()), "it broke\n  given:    <object object>"),
    (
        WindrowError("it broke", given=timedelta(0), expected="a span", where="p.3.window, job.py:41", hint="mend it"),
        "it broke\n"
        "  given:    datetime.timedelta(0)\n"
        "  expected: a span\n"
        "  where:    p.3.window, job.py:41\n"
        "  hint:     mend it",
    ),
]


@pytest.mark.parametrize(("error", "text"), PARTS, ids=map(str, range(len(PARTS))))
def test_a_text_has_the_parts_that_there_are(error: WindrowError, text: str) -> None:
    assert str(error) == text


def test_the_place_is_filled_in_once() -> None:
    error = InvalidArgumentError("it broke", hint="mend it")
    assert error.at("plan.3.window, job.py:4") is error
    assert error.where == "plan.3.window, job.py:4"
    assert str(error) == "it broke\n  where:    plan.3.window, job.py:4\n  hint:     mend it"
    assert error.at("somewhere else").where == "plan.3.window, job.py:4"
    assert "somewhere else" not in str(error)


def test_every_error_is_a_windrow_error() -> None:
    assert len(KINDS) > 10
    assert all(issubclass(kind, WindrowError) for kind in KINDS)


def test_a_bad_argument_is_a_value_error_too() -> None:
    assert issubclass(InvalidArgumentError, ValueError)
    assert issubclass(MissingTimestampError, InvalidArgumentError)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_pickles(kind: type[WindrowError]) -> None:
    error = kind("it broke", given={"a": 1}, expected="no error", hint="mend it").at(Location("job.py", 7))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert (copy.message, copy.given, copy.expected) == ("it broke", {"a": 1}, "no error")
    assert (copy.where, copy.hint) == (Location("job.py", 7), "mend it")


def test_a_plan_error_counts_and_pickles() -> None:
    faults = [Fault("one is wrong", "plan.1.source, job.py:1", "mend one"), Fault("two is wrong", "plan", "mend two")]
    error = PlanError(faults)
    assert str(error) == (
        "the plan has 2 faults\n"
        "1. one is wrong\n  where:    plan.1.source, job.py:1\n  hint:     mend one\n"
        "2. two is wrong\n  where:    plan\n  hint:     mend two"
    )
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is PlanError
    assert copy.faults == tuple(faults)
    assert str(copy) == str(error)
    assert str(PlanError(faults[:1])).startswith("the plan has a fault\n1. one is wrong")


def test_an_error_shows_no_address_in_memory() -> None:
    for given in (len, test_an_error_shows_no_address_in_memory, object(), [object()]):
        assert "0x" not in str(InvalidArgumentError("wrong", given=given))
