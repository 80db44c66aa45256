"""Classes of the user's that refuse values by any exception: each row is one record or one malformed one."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from tests.codecs.samples import Positive
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type

# Any in this module: rows as JSON.


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
        if value == 3:
            raise LookupError(f"{value} is no level")
        raise WithoutTextError


@dataclass(frozen=True)
class Levelled:
    a: Level


@dataclass(frozen=True)
class Unhashed:
    a: int

    def __hash__(self) -> int:
        if self.a < 0:
            raise RuntimeError("no hash")
        return self.a


class Parts(NamedTuple):
    parts: set[Unhashed]


NUMBERS = [{"a": number} for number in (1, 2, 3, 4, 1)]
CASES: dict[type, tuple[list[dict[str, Any]], dict[int, tuple[str, str]]]] = {
    # The rows, and of those that are refused what is said where they come as columns, and as lines.
    Positive: (
        [{"n": 1}, {"n": -2}, {"n": 3}], {1: ("Positive refuses the record: ValueError: n is negative",) * 2},
    ),
    Checked: (NUMBERS, {
        1: ("Checked refuses the record: RuntimeError: Checked raised StopIteration",
            "Checked refuses the record: StopIteration: "),
        2: ("Checked refuses the record: WithoutTextError",) * 2,
    }),
    Levelled: (NUMBERS, {
        1: ("not a Level: generator raised StopIteration", "2 is no value of Level"),
        2: ("not a Level: 3 is no level", "3 is no value of Level"),
        3: ("not a Level: ", "4 is no value of Level"),
    }),
    Parts: (
        [{"parts": [{"a": 1}, {"a": -1}]}, {"parts": [{"a": 1}]}], {0: ("not a set: RuntimeError: no hash",) * 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_no_row_is_lost_behind_one_that_is_refused(kind: type) -> None:
    rows, reasons = CASES[kind]
    of_kind = record_type(kind)
    malformed: list[MalformedValue] = []
    records = decode_batch(pa.RecordBatch.from_pylist(rows, arrow_schema(of_kind)), of_kind, malformed.append)
    assert [(bad.row, bad.reason) for bad in malformed] == [(row, said[0]) for row, said in reasons.items()]
    lines = [JsonDecoder(of_kind).decode(json.dumps(row)) for row in rows]
    refused = {row: line for row, line in enumerate(lines) if isinstance(line, MalformedValue)}
    assert {row: line.reason for row, line in refused.items()} == {
        row: of_line for row, (_, of_line) in reasons.items()
    }
    assert [line for line in lines if not isinstance(line, MalformedValue)] == records
    assert [bad.field for bad in malformed] == [line.field for line in refused.values()]
