"""Elements as rows of CSV that :class:`~windrow_runtime.codecs.csv.decoder.CsvDecoder` reads back as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from windrow_runtime.codecs.json.encoder import json_writer
from windrow_runtime.codecs.malformed import UnfitError, misfit
from windrow_runtime.codecs.record_type import Field, RecordType


class CsvEncoder:
    """Writes elements of one type as rows.

    An empty cell is ``None``, or a key that is absent; an empty text is two quotes.

    Args:
        record_type: The type of the elements.
        delimiter: What stands between cells.
    """

    def __init__(self, record_type: RecordType, delimiter: str) -> None:
        self._type = record_type
        self._delimiter = delimiter
        self._quoted = frozenset(f'{delimiter}"\r\n')
        self._write = json_writer(record_type.root, record_type.name)

    @property
    def header(self) -> str:
        """The row with the names of the columns."""
        return self._delimiter.join(self._cell(column.column) for column in self._type.columns)

    def encode(self, value: object) -> str:
        """The row of one element, without a line end of its own.

        Raises:
            InvalidArgumentError: If the element is not of its type, or if no row reads back as it.
        """
        try:
            written = self._write(value)
            cells = [self._cell_of(field, given) for field, given in self._given(written)]
            if cells == [""]:
                raise UnfitError(self._type.name, "None as the only cell is an empty line, which is no row")
            return self._delimiter.join(cells)
        except UnfitError as error:
            raise misfit(value, error) from error

    def _given(self, written: object) -> list[tuple[Field, object]]:
        columns = self._type.columns
        if self._type.single:
            return [(columns[0], written)]
        if isinstance(written, Mapping):
            return [(field, written.get(field.column, _ABSENT)) for field in columns]
        assert isinstance(written, Sequence), "a tuple is written as a list"
        return list(zip(columns, written, strict=True))

    def _cell_of(self, field: Field, given: object) -> str:
        if given is _ABSENT:
            return ""
        if given is None:
            if field.absent_allowed or (field.default is not None and field.default() is not None):
                what = "an absent key" if field.absent_allowed else "the default of the field"
                raise UnfitError(
                    f"{self._type.name}.{field.name}", f"None is an empty cell, which reads as {what}", str(field.type)
                )
            return ""
        if isinstance(given, str):
            return self._cell(given)
        if isinstance(given, float):
            return repr(given)
        return self._cell(json.dumps(given, ensure_ascii=False, separators=(",", ":")))

    def _cell(self, text: str) -> str:
        if text and self._quoted.isdisjoint(text) and text[0] != "\ufeff":
            return text
        return '"' + text.replace('"', '""') + '"'


_ABSENT = object()
