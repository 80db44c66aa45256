"""Whether values of one type can stand where another one is expected."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Any, NewType, Optional, Protocol, Union

import pytest

from windrow.plan.fitting import can_fit

Meters = NewType("Meters", float)
Item = typing.TypeVar("Item")


class Named(Protocol):
    name: str


# Any: types of every kind, as annotations have them.
FIT: list[tuple[Any, Any]] = [
    (int, int),
    (int, float),
    (bool, int),
    (float, float | None),
    (float | None, float),
    (Optional[int], Union[str, float]),  # noqa: UP007, UP045  the older spelling is another class
    (list[int], Sequence[int]),
    (list[int], list[float]),
    (list[int], list[Any]),
    (list[int], list),
    (tuple[int, str], tuple[int, str]),
    (Meters, float),
    (float, Annotated[float, "metres"]),
    (str, Named),
    (Any, int),
    (int, Any),
    (int, Item),
    (int, object),
    (object, int),
    (None, None),
    (None, int | None),
]
MISFITS: list[tuple[Any, Any]] = [
    (float, int),
    (str, float | None),
    (float | None, int | None),
    (list[str], float),
    (list[str], list[int]),
    (list[str], tuple[str, ...]),
    (int, Decimal),
    (int, Iterable[int]),
    (str | bytes, int | float),
    (dict[str, int], dict[str, str]),
    (None, int),
]


@pytest.mark.parametrize(("given", "expected"), FIT, ids=map(str, FIT))
def test_fits(given: Any, expected: Any) -> None:
    assert can_fit(given, expected)


@pytest.mark.parametrize(("given", "expected"), MISFITS, ids=map(str, MISFITS))
def test_fits_for_sure_not(given: Any, expected: Any) -> None:
    assert not can_fit(given, expected)
