"""Which bytes may be handed to pickle at all: a pass over the operations, before any of them is obeyed.

Pickle's own reader obeys a few bytes that make it allocate gigabytes for a memo, that build a tuple whose hash takes
years, or whose hash overflows the stack and ends the process. What windrow writes holds none of these operations, so
they are refused before pickle sees them. The pass runs inside a regular expression, as fast as pickle reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pickletools import opcodes
from typing import Final

from windrow.errors import CheckpointError
from windrow_runtime.codecs.damage import damaged_state

__all__ = ["COLUMNS", "OBJECTS", "Operations"]

_REPEATS: Final = 1000  # so many of a match are kept in memory while it runs
_REFUSED: Final = 0  # as the length of an operation
_COUNTED: Final = -1  # one byte tells the length of what follows
_PLAIN: Final = (
    "PROTO MEMOIZE BINGET LONG_BINGET MARK TUPLE EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS "
    "NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT SHORT_BINUNICODE BINUNICODE BINUNICODE8 "
    "SHORT_BINBYTES BINBYTES BINBYTES8 FRAME STOP"
)
_OF_OBJECTS: Final = (
    "EMPTY_DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET BYTEARRAY8 STACK_GLOBAL EXT1 EXT2 EXT4 BINPERSID "
    "REDUCE NEWOBJ NEWOBJ_EX BUILD POP POP_MARK"
)


class Operations:
    """The operations that pickled bytes may hold.

    Args:
        names: As the standard library's ``pickletools`` calls them. None takes a line of text.
    """

    def __init__(self, names: Iterable[str]) -> None:
        wanted = set(names)
        known = {ord(operation.code): operation for operation in opcodes if operation.name in wanted}
        # The length of each with its argument, or how many bytes tell the length of what follows, below zero.
        self._lengths = [_REFUSED] * 256
        for code, operation in known.items():
            length = 0 if operation.arg is None else operation.arg.n
            if operation.name == "FRAME":
                self._frame = code
            elif length >= 0:
                self._lengths[code] = 1 + length
            else:
                size = {"1": 1, "4": 4, "8": 8}[operation.arg.name[-1]] if operation.arg else 0
                self._lengths[code] = -size
        self._match = re.compile(self._pattern(), re.DOTALL).match

    def _pattern(self) -> bytes:
        """Matches many operations. Those with a text of less than 256 bytes come first: they are the most."""
        # Operations without an argument come in runs. Not the end, which is looked at by itself.
        run = _one_of([code for code in self._codes_of(1) if code != _STOP])
        counted = b"|".join(b"%s.{%d}" % (re.escape(bytes([size])), size) for size in range(256))
        forms = [
            b"%s(?:%s)%s*" % (re.escape(bytes([code])), counted, run) for code in self._codes_of(_COUNTED)
        ]
        forms += [
            b"%s.{%d}%s*" % (_one_of(self._codes_of(length)), length - 1, run)
            for length in sorted({length for length in self._lengths if length > 1})
        ]
        return b"%s*(?:%s){0,%d}" % (run, b"|".join(forms), _REPEATS)

    def _codes_of(self, length: int) -> list[int]:
        return [code for code, known in enumerate(self._lengths) if known == length]

    def check(self, data: bytes) -> None:
        """Look at pickled bytes.

        Raises:
            CheckpointError: If they hold another operation, are cut off, or go on behind their end.
        """
        position, end = 0, len(data)
        try:
            while True:
                # The end of a frame is where an operation ends: pickle may otherwise read on at another place.
                position = self._match(data, position, end).end()  # type: ignore[union-attr]  # it matches nothing too
                if position == end:
                    end = len(data)
                code = data[position]
                length = self._lengths[code]
                if code == _STOP:
                    break
                if code == self._frame and end == len(data):
                    position += 9
                    end = position + int.from_bytes(data[position - 8 : position], "little")
                elif length > 0:
                    position += length
                elif length < 0:
                    start = position + 1 - length
                    position = start + int.from_bytes(data[position + 1 : start], "little")
                else:
                    raise _damaged(f"operation {code:#04x} at byte {position} of {len(data)}")
                if position > end or end > len(data):
                    raise IndexError
        except IndexError:
            raise _damaged(f"{len(data)} bytes that break off") from None
        if position + 1 != len(data):
            raise _damaged(f"{len(data)} bytes that end at byte {position}")


def _one_of(codes: Iterable[int]) -> bytes:
    return b"[%s]" % b"".join(re.escape(bytes([code])) for code in codes)


def _damaged(given: str) -> CheckpointError:
    return damaged_state(given, expected="bytes that windrow wrote")


_STOP: Final = ord(".")

COLUMNS: Final = Operations(_PLAIN.split())
"""For nested tuples, lists and scalars. Nothing is hashed, and no class is named."""

OBJECTS: Final = Operations(f"{_PLAIN} {_OF_OBJECTS}".split())
"""For values of classes: whatever the newest protocol writes."""
