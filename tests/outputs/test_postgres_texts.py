"""Texts and numbers that a database does not hold are refused with their element and field, before a batch is sent."""

from __future__ import annotations

import enum
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from windrow.errors import InvalidArgumentError
from windrow.formats import JsonValue, RawJson
from windrow_runtime.codecs.record_type import record_type
from windrow_sql.database.row_encoder import RowEncoder

NUL = "a\0b"


class Odd(enum.Enum):
    NUL = "\0"


class Row(NamedTuple):
    id: int
    text: str = "a"
    maybe: str | None = None
    odd: Odd | None = None
    more: list[str] = []  # noqa: RUF012 - nobody changes it
    names: dict[str, int] = {}  # noqa: RUF012
    raw: RawJson = RawJson("1")
    value: JsonValue = None
    price: Decimal = Decimal(1)


UNHELD: list[tuple[str, object]] = [
    ("text", NUL), ("text", "\ud800"), ("maybe", "\0"), ("odd", Odd.NUL), ("more", ["b", NUL]), ("names", {NUL: 1}),
    ("value", {"a": [NUL]}), ("value", [{NUL: 1}]), ("price", Decimal("1e131072")), ("price", Decimal("1e-16384")),
    *(("raw", RawJson(text)) for text in (r'["\u0000"]', r'["\\\u0000"]', r'"\ud800"', "1e200000", "9" * 131_073)),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), UNHELD)
@pytest.mark.parametrize("others", [0, 300])
def test_what_postgresql_does_not_hold_is_named(field: str, value: object, others: int) -> None:
    changed: dict[str, Any] = {field: value}
    row = Row(7)._replace(**changed)
    with pytest.raises(InvalidArgumentError) as raised:
        RowEncoder(record_type(Row), "postgresql", {}).encode([*map(Row, range(10, 10 + others)), row])
    assert "id=7" in str(raised.value.given)
    assert str(raised.value.where).startswith(f"Row.{field}")


def test_what_looks_like_it_is_written() -> None:
    rows = [
        Row(1, "\\u0000", more=["\\u0000", "\\", "\x01"], raw=RawJson(r'"\\u0000 \ud83d\ude00 1e999999"')),
        Row(2, "\x7f\u2028", value={"\\u0000": "\U0001f600"}, price=Decimal("1e131071")),
    ]
    rows.append(Row(3, raw=RawJson("9" * 5_000)))  # more digits than Python makes an int of
    first, second, third = RowEncoder(record_type(Row), "postgresql", {}).encode(rows)
    assert first[1:5] == ("\\u0000", None, None, r'["\\u0000","\\","\u0001"]')
    assert first[6] == rows[0].raw
    assert third[6] == rows[2].raw
    assert second[7] == '{"\\\\u0000":"\U0001f600"}'


@pytest.mark.parametrize(("field", "value"), [("text", "\ud800"), ("more", ["\ud800"]), ("names", {"\ud800": 1})])
def test_half_a_surrogate_pair_in_sqlite_is_named(field: str, value: object) -> None:
    changed: dict[str, Any] = {field: value}
    with pytest.raises(InvalidArgumentError, match="half a surrogate pair") as raised:
        RowEncoder(record_type(Row), "sqlite", {}).encode([Row(1), Row(7)._replace(**changed)])
    assert str(raised.value.where).startswith(f"Row.{field}")
    assert RowEncoder(record_type(Row), "sqlite", {}).encode([Row(1, NUL)])[0][1] == NUL
