"""Refuses what PostgreSQL's types do not hold, before a batch is sent: the server's error names no element."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from windrow_runtime.codecs.json.encoder import Writer
from windrow_runtime.codecs.malformed import UnfitError, short_repr

_NUL_IN_JSON: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_MOST_DIGITS: Final = 131_072
_MOST_DIGITS_AFTER_POINT: Final = 16_383


def postgres_text(write: Writer, path: str) -> Writer:
    """Makes a writer refuse texts with NUL, which no text of PostgreSQL has."""

    def checked(cell: object) -> object:
        text = write(cell)
        if isinstance(text, str) and "\0" in text:
            raise UnfitError(path, f"{short_repr(cell)} has NUL, which no text of PostgreSQL has")
        return text

    return checked


def postgres_json(write: Callable[[object], str | None], path: str, *, is_raw: bool) -> Writer:
    """Makes a writer refuse JSON that JSONB does not hold; raw JSON has what its author wrote."""

    def checked(cell: object) -> object:
        text = write(cell)
        if text is not None and "\\u" in text and _NUL_IN_JSON.search(text):
            raise UnfitError(path, f"{short_repr(cell)} has NUL, which no text of PostgreSQL has")
        if text is not None and is_raw:
            try:
                json.dumps(json.loads(text, parse_float=_number, parse_int=_number), ensure_ascii=False).encode()
            except ValueError as error:
                raise UnfitError(path, f"{short_repr(cell)} is no JSON of PostgreSQL: {error}") from None
        return text

    return checked


def _number(text: str) -> str:
    check_digits(Decimal(text))
    return text


def check_digits(number: Decimal) -> None:
    """Raises a ``ValueError`` for a number with more digits than a NUMERIC of PostgreSQL has."""
    exponent = number.as_tuple().exponent
    if number.adjusted() >= _MOST_DIGITS or (isinstance(exponent, int) and -exponent > _MOST_DIGITS_AFTER_POINT):
        most = f"{_MOST_DIGITS:,} digits before the point and {_MOST_DIGITS_AFTER_POINT:,} after it"
        raise ValueError(f"PostgreSQL has numbers of at most {most}")
