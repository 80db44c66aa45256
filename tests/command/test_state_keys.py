"""`windrow state --key`: keys as texts and as JSON, however they are spelled."""

from __future__ import annotations

import pytest

from windrow_spark.savepoint.state_rows import json_text
from windrow_tools.command.state import _compared, _keys_of


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Zürich", "Zürich"),
        ('"Zürich"', "Zürich"),
        ('"Z\\u00fcrich"', "Zürich"),
        ("a b", "a b"),
        ("7", 7),
        ("7 ", 7),
        ("7", "7"),
        ("null", None),
        ("null", "null"),
        ('["é", 1]', ("é", 1)),
        ('{"b": 2, "a": [1]}', {"a": [1], "b": 2}),
        (str(2**90), 2**90),
        ("-0.0", -0.0),
        ("", ""),
    ],
    ids=repr,
)
def test_a_text_finds_the_key(text: str, key: object) -> None:
    assert _compared(json_text(key)) in _keys_of(text)


@pytest.mark.parametrize(
    ("text", "key"), [("1", True), ("1", 1.0), ("true", 1), ("None", None), ("[1]", 1), ("a", "b")]
)
def test_a_text_finds_no_other_key(text: str, key: object) -> None:
    assert _compared(json_text(key)) not in _keys_of(text)
