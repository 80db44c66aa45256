"""What it costs to carry records from one Python worker to another: ``python -m benchmarks.encodings``.

Records become bytes and records again, as on the way through Spark's exchange. Processor time for each record, 8,192
of them at a time, best of several runs. Elements that a worker made itself go as pickled columns; those of a source
that has columns are no objects in front of the exchange, so they pay for the second half of Arrow's way alone.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from benchmarks.environment import environment
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_spark.columnar.state import dump_rows, load_rows
from windrow_spark.exchange.rows import pack_values, unpack_values

__all__ = ["main"]

# Any in this module: records of several classes.

_ROWS = 8_192
_REPEATS = 30


class Tuple(NamedTuple):
    """A reading."""

    sensor: str
    at: int
    celsius: float


@dataclass(frozen=True)
class Frozen:
    """A reading."""

    sensor: str
    at: int
    celsius: float


class Struct(msgspec.Struct):
    """A reading."""

    sensor: str
    at: int
    celsius: float


class _Encoding(NamedTuple):
    """A way there and back."""

    name: str
    there: Callable[[list[Any]], bytes]
    back: Callable[[bytes], Sequence[Any]]


def _encodings(kind: type[Any]) -> list[_Encoding]:
    fields = record_type(kind)
    schema = arrow_schema(fields)
    decoder = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]  # the class is a value here
    return [
        _Encoding("pickle, protocol 5", lambda values: pickle.dumps(values, 5), pickle.loads),
        _Encoding("msgspec, MessagePack", msgspec.msgpack.Encoder().encode, decoder.decode),
        _Encoding(
            "columns, pickled",
            lambda values: pickle.dumps(pack_values(values), 5),
            lambda data: unpack_values(pickle.loads(data)),
        ),
        _Encoding(
            "columns of Arrow",
            lambda values: bytes(dump_rows(encode_batch(values, fields), compress=False)),
            lambda data: decode_batch(load_rows(data, schema), fields),
        ),
    ]


def _micros(work: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        begin = time.process_time_ns()
        work()
        best = min(best, time.process_time_ns() - begin)
    return best / 1_000 / _ROWS


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    argparse.ArgumentParser(prog="python -m benchmarks.encodings", description=__doc__).parse_args(arguments)
    print(environment().text())
    print("\n| records | encoding | there µs | back µs | both µs | bytes |\n|---|---|---:|---:|---:|---:|")
    chance = random.Random(1)
    cells = [
        (f"sensor-{chance.randrange(1_000):04d}", 1_700_000_000_000 + number, chance.random() * 40)
        for number in range(_ROWS)
    ]
    for kind in (Tuple, Frozen, Struct):
        values = [kind(*row) for row in cells]
        for encoding in _encodings(kind):
            data = encoding.there(values)
            if list(encoding.back(data)) != values:
                print(f"{encoding.name} does not give {kind.__name__} back", file=sys.stderr)
                return 1
            there, back = _micros(lambda: encoding.there(values)), _micros(lambda: encoding.back(data))  # noqa: B023  called at once
            figures = f"{there:.2f} | {back:.2f} | {there + back:.2f} | {len(data) / _ROWS:.0f}"
            print(f"| {kind.__name__} | {encoding.name} | {figures} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
