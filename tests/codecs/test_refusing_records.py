"""Classes of the user's that refuse values by any exception: each row is one record or one malformed one."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pyarrow as pa
import pytest

from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type


class WithoutTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("an error without a text")


@dataclass(frozen=True)
class Checked:
    a: int

    def __post_init__(self) -> None:
        if self.a == 2:
            next(iter(()))
        if self.a == 3:
            raise WithoutTextError


class Level(enum.Enum):
    LOW = 1

    @classmethod
    def _missing_(cls, value: object) -> Level:
        if value == 2:
            raise StopIteration
        raise WithoutTextError


@dataclass(frozen=True)
class Levelled:
    a: Level


@pytest.mark.parametrize(("kind", "fine"), [(Checked, (1, 4)), (Levelled, (1,))])
def test_no_row_is_lost_behind_one_that_is_refused(kind: type, fine: tuple[int, ...]) -> None:
    numbers = [1, 2, 3, 4, 1]
    malformed: list[MalformedValue] = []
    records = decode_batch(pa.record_batch({"a": numbers}), record_type(kind), malformed.append)
    assert len(records) == sum(number in fine for number in numbers)
    assert [each.row for each in malformed] == [row for row, number in enumerate(numbers) if number not in fine]
    assert [each.reason for each in malformed if "StopIteration" in each.reason] == [malformed[0].reason]
    if kind is Checked:
        assert "WithoutTextError" in malformed[1].reason
