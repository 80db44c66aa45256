"""How the batches of a long run grow: their time, and what they write of state for what comes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.measure import Batch
from benchmarks.nexmark.measuring.data import Data
from benchmarks.nexmark.measuring.runs import Speed

__all__ = ["growth_text"]

# Any in this module: pyarrow ships no types.

_FIRST: Final = 20
_COMPARED: Final = 10


def _of_q3(streams: Mapping[str, Any]) -> int:
    people, auctions = streams["person"], streams["auction"]
    local = people.filter(pc.is_in(people["state"], pa.array(["OR", "ID", "CA"])))
    of_category = auctions.filter(pc.equal(auctions["category"], 10))
    size: int = local.select(["id", "name", "city", "state"]).nbytes + of_category.select(["id", "seller"]).nbytes
    return size


def _of_q9(streams: Mapping[str, Any]) -> int:
    size: int = streams["auction"].nbytes + streams["bid"].nbytes
    return size


def _of_q20(streams: Mapping[str, Any]) -> int:
    auctions = streams["auction"]
    size: int = auctions.filter(pc.equal(auctions["category"], 10)).nbytes + streams["bid"].nbytes
    return size


_COMES_IN: Final[Mapping[str, Callable[[Mapping[str, Any]], int]]] = {"q3": _of_q3, "q9": _of_q9, "q20": _of_q20}
"""The bytes of the values that a join keeps, as Arrow has them in memory."""


def growth_text(query: str, contender: str, speed: Speed, data: Data) -> str:
    """How much longer the last batches took than early ones; empty if there are few, or several rounds."""
    batches = speed.runs[0].batches
    if len(batches) < 2 * _FIRST or len(speed.runs) > 1:
        return ""
    early, last = _median(batches[_FIRST : _FIRST + _COMPARED]), _median(batches[-_COMPARED:])
    text = (
        f"{query}, {contender}: batches {_FIRST} to {_FIRST + _COMPARED - 1} took {early:.3f} s, the last {_COMPARED} "
        f"of {len(batches)} {last:.3f} s: {last / early:.2f} times as long"
    )
    if query in _COMES_IN:
        streams = {name: pq.read_table(data.path / name) for name in ("person", "auction", "bid")}
        written = sum(batch.state_written for batch in batches) / _COMES_IN[query](streams)
        text += f"; {written:.2f} bytes of state written for each that came in"
    return text


def _median(batches: Sequence[Batch]) -> float:
    return median(batch.seconds for batch in batches)
