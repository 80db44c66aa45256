"""Refuses what PostgreSQL's types do not hold, before a batch is sent: the server's error names no element."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Final

from windrow_runtime.codecs.json.encoder import Writer
from windrow_runtime.codecs.malformed import UnfitError, short_repr

_NUL_IN_JSON: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_MOST_DIGITS: Final = 131_072
_MOST_DIGITS_AFTER_POINT: Final = 16_383


def postgres_text(write: Writer, path: str, *, is_json: bool = False) -> Writer:
    """Makes a writer refuse texts with NUL, which PostgreSQL has in no text, and in no text within JSON."""

    def checked(cell: object) -> object:
        written = write(cell)
        if isinstance(written, str):
            fault = _fault_of_json(written) if is_json else "\0" in written and "NUL"
            if fault:
                raise UnfitError(path, f"{short_repr(cell)} has {fault}", "characters that PostgreSQL has")
        return written

    return checked


def _fault_of_json(text: str) -> str | None:
    if "\\u" not in text:
        return None
    if _NUL_IN_JSON.search(text):
        return "NUL"
    try:
        # Raw JSON has what its author wrote.
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "half a surrogate pair"
    return None


def check_digits(number: Decimal) -> None:
    """Raises a ``ValueError`` for a number with more digits than a NUMERIC of PostgreSQL has."""
    exponent = number.as_tuple().exponent
    if number.adjusted() >= _MOST_DIGITS or (isinstance(exponent, int) and -exponent > _MOST_DIGITS_AFTER_POINT):
        most = f"{_MOST_DIGITS:,} digits before the point and {_MOST_DIGITS_AFTER_POINT:,} after it"
        raise ValueError(f"PostgreSQL has numbers of at most {most}")
