"""Plans the batches of a user's own source, and reads them, with the same calls and errors on both engines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from windrow.connectors import CustomSource
from windrow.connectors.custom_source import reads_arrow
from windrow.errors import InvalidArgumentError
from windrow.sources import MalformedRecord
from windrow_runtime.codecs.pyarrow_check import check_pyarrow
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch, in_batches
from windrow_runtime.inputs.offsets import Offsets, Range, Reads
from windrow_runtime.inputs.reader import SourceReader
from windrow_runtime.inputs.text_rows import TextRows
from windrow_runtime.operators.errors import connector_errors, errors_at, shortened

# Any in this module: elements and offsets are of the user's types.

_NO_JSON: Final = object()


class CustomReader(SourceReader[CustomSource[Any, Any]]):
    """Reads a user's own source."""

    def reads(self, columns: frozenset[str] | None = None) -> CustomReads:
        if not reads_arrow(self.source):
            return CustomReads(self.step.where, None, self.source)
        with errors_at(self.step.where):
            check_pyarrow("sources that give Arrow data are read")
            return CustomReads(self.step.where, record_type(self.step.node.element_type), self.source)

    @property
    def has_partitions(self) -> bool:
        return True


@dataclass(frozen=True)
class CustomReads(Reads):
    """Calls a user's own source; its errors name the step."""

    source: CustomSource[Any, Any]

    @property
    def is_bounded(self) -> bool:
        return self.source.is_bounded

    def partitions(self) -> list[str]:
        with self._errors("partitions"):
            partitions = self.source.partitions()
            names = [partitions] if isinstance(partitions, str) else list(partitions)
        for name in names:
            if name is partitions or not isinstance(name, str):
                raise InvalidArgumentError(
                    "partitions() returns the names of the partitions",
                    given=partitions,
                    expected="several str, as in a list or a tuple",
                    where=self.where,
                )
        return names

    def latest(self) -> dict[str, Any]:
        return {name: self._offset("latest_offset", name) for name in self.partitions()}

    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        end = {name: list(offsets) for name, offsets in start.items()}
        for name, last in sorted(latest.items()):
            if name not in end:
                begin = self._offset("initial_offset", name)
                end[name] = [begin, begin]
            reached = end[name][1]
            if reached != last:
                self._check_order("latest_offset", name, reached, last)
                end[name][1] = self._offset("next_offset", name, reached, last)
                self._check_order("next_offset", name, reached, end[name][1], last)
        return end

    def _check_order(self, method: str, partition: str, *offsets: Any) -> None:
        """Refuses numeric offsets that do not ascend; the order of other offsets is not known."""
        if all(isinstance(offset, (int, float)) for offset in offsets) and list(offsets) != sorted(offsets):
            raise InvalidArgumentError(
                "the offsets of a source never go back, and none lies after the latest one",
                given=f"{offsets[1]} from {method}({partition!r}), which was read up to {offsets[0]}",
                expected=f"an offset from {offsets[0]} on" + (f" to {offsets[-1]}" if len(offsets) > 2 else ""),
                where=self.where,
                hint="where a service knows less than before, return the offset that was read",
            )

    def check_end(self, done: Offsets, latest: Mapping[str, Any]) -> None:
        for name, (_, reached) in done.items():
            if name in latest and reached != latest[name]:
                raise InvalidArgumentError(
                    "a source that is read to its end moves on towards its latest offset",
                    given=f"{reached!r} from next_offset({name!r}), which was read up to there",
                    expected=f"an offset after it, up to {latest[name]!r}",
                    where=self.where,
                )

    def read(self, range_: Range) -> Iterator[Any]:
        return (
            in_batches(self._pairs(range_), _place_of)
            if self.record_type is None
            else self._read_arrow(range_, self.record_type)
        )

    def _read_arrow(self, range_: Range, record_type: RecordType) -> Iterator[Any]:
        # Arrow only where a source gives it: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.exchanged import arrow_rows
        from windrow_runtime.codecs.arrow.text_blocks import no_rows

        first = 0
        origin = _place_of(range_)
        with self._errors("read_arrow", *range_.offsets):
            for data in self.source.read_arrow(*range_.offsets):
                if isinstance(data, MalformedRecord):
                    yield TextRows(no_rows(record_type), record_type, [(0, SourceBatch(malformed=[data]))])
                    continue
                for rows in arrow_rows(data, record_type, origin, first):
                    yield rows
                    first = rows.first + rows.rows.num_rows

    def _pairs(self, range_: Range) -> Iterator[tuple[Range, Any]]:
        with self._errors("read", *range_.offsets):
            yield from ((range_, element) for element in self.source.read(*range_.offsets))

    def commit(self, offsets: Offsets) -> None:
        for name, (_, reached) in offsets.items():
            with self._errors("commit", name, reached):
                self.source.commit(name, reached)

    def _offset(self, method: str, partition: str, *arguments: Any) -> Any:
        with self._errors(method, partition, *arguments):
            offset = getattr(self.source, method)(partition, *arguments)
        try:
            # The offset is copied, since the source may change the list or dict that it returned.
            stored_offset = json.loads(json.dumps(offset, allow_nan=False))
        except (TypeError, ValueError):
            stored_offset = _NO_JSON
        if stored_offset != offset:
            raise InvalidArgumentError(
                "an offset of a source is kept as JSON, and this one changes on the way",
                given=f"{shortened(offset)} from {method}({partition!r})",
                expected="None, a bool, a number or a str, or lists and dicts of these with str keys",
                where=self.where,
                hint="a list instead of a tuple, a text instead of a datetime",
            )
        return stored_offset

    def _errors(self, method: str, *arguments: Any) -> AbstractContextManager[None]:
        return connector_errors(
            self.where,
            "a method of the source",
            lambda: f"{method}({', '.join(map(shortened, arguments))})",
            "; SourceError says that a service is away",
        )


def _place_of(range_: Range) -> str:
    return f"{range_.partition} from {range_.start!r} to {range_.end!r}"
