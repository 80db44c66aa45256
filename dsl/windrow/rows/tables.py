"""Makes streams of changes of records that say what became of a row."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import GenericAlias
from typing import Any, TypeVar, get_args, get_origin, overload

from windrow.builder.arguments import check_plain_function
from windrow.builder.stream import DataStream
from windrow.functions.names import function_name
from windrow.panes import Change, ChangeKind
from windrow.plan.location import refusal
from windrow.plan.nodes import FromChangesNode
from windrow.plan.types import made_type
from windrow.rows.newest import NewestRow, RowChange

T = TypeVar("T")
R = TypeVar("R")


@overload
def from_changes(
    stream: DataStream[Change[R]], *, key: Callable[[R], Hashable] | None = None, name: str | None = None
) -> DataStream[R]: ...
@overload
def from_changes(
    stream: DataStream[T], *, op: Callable[[T], ChangeKind], key: Callable[[T], Hashable], name: str | None = None
) -> DataStream[T]: ...
@overload
def from_changes(
    stream: DataStream[T],
    *,
    op: Callable[[T], ChangeKind],
    row: Callable[[T], R],
    key: Callable[[T], Hashable] | None = None,
    name: str | None = None,
) -> DataStream[R]: ...
# Any: the overloads have the types of records, rows and keys.
def from_changes(
    stream: DataStream[Any],
    *,
    op: Callable[[Any], ChangeKind] | None = None,
    row: Callable[[Any], Any] | None = None,
    key: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> DataStream[Any]:
    """Take the records of a stream as changes of a table: the opposite of :meth:`~windrow.DataStream.changelog`.

    Windows take a withdrawn row out again, and sinks with the same key delete it, as they do with results of windows
    that retract; other steps need ``changelog`` before them. With a key a withdrawn row has the timestamp with which it
    came, and is late where its window is gone. Without a key it has that of its record: take timestamps from a field of
    the row.

    Args:
        stream: The records: :class:`~windrow.panes.Change`, or any with ``op``.
        op: Says of a record what it does.
        row: Takes the row from a record with ``op``: what is equal in a row and its withdrawal. With a key the record
            itself may be the row.
        key: Takes the key from a row, or with ``op`` from a record, for changes that do not bring the row before, such
            as those of a compacted topic or of a database by default. The newest row of each key is kept as state, for
            ever unless it is deleted, and is withdrawn when the next one comes: ``INSERT`` and ``UPDATE_AFTER`` both
            bring the newest row, ``DELETE`` withdraws it, and ``UPDATE_BEFORE`` is passed over. Without a key all
            withdrawals have to be in the stream.
        name: Names the step.

    Raises:
        InvalidArgumentError: If ``op``, ``row`` or ``key`` cannot be called or is a rich function, if ``op`` has
            neither ``row`` nor ``key`` beside it, or if the records are known to be no changes.

    Example:
        >>> from windrow import from_changes, from_collection
        >>> from windrow.panes import Change, ChangeKind
        >>> came = [Change(ChangeKind.INSERT, ("tea", 5)), Change(ChangeKind.UPDATE_AFTER, ("tea", 6))]
        >>> rows = from_changes(from_collection(came), key=lambda row: row[0])
        >>> rows.changelog(lambda kind, row: (kind.value, row[1])).collect()
        [('+I', 5), ('-U', 5), ('+U', 6)]
    """
    for argument, function in (("op", op), ("row", row), ("key", key)):
        if function is not None:
            check_plain_function(function, argument, "row" if argument == "key" else "record")
    record_type = stream.node.element_type
    changes, row_type = stream, record_type
    if op is not None:
        if row is None and key is None:
            raise refusal(
                "from_changes needs the row, or the key of the row that is withdrawn",
                given="op without row and key",
                expected="row=, which takes from a record what is equal in a row and its withdrawal, or key=",
            )
        row_type = record_type if row is None else made_type(row, record_type)
        change = RowChange(op, row)
        changes = stream.map(change) if key is None else _newest(stream, key, key, change, name)
    elif row is not None:
        raise refusal("row= takes the row from a record that op= tells of", given="row without op")
    elif record_type is not None:
        if (get_origin(record_type) or record_type) is not Change:
            raise refusal(
                "from_changes needs to know what the records do",
                given=record_type,
                expected="a stream of Change",
                hint="flat_map(TableChange[Row].changes) before, which makes records of Change; or op=, row= and key=",
            )
        row_type = next(iter(get_args(record_type)), None)
    if op is None and key is not None:
        take_key = key
        changes = _newest(stream, lambda change: take_key(change.value), key, _same, name)
    if row_type is not None and changes is not stream:
        change_type: Any = GenericAlias(Change, (row_type,))
        changes = changes.returns(change_type)
    if key is not None:
        name = None  # that of the step with the state
    return DataStream(
        FromChangesNode(input=changes.node, element_type=row_type, name=name, row_key=key if row is None else None)
    )


# Any: records and keys of every type.
def _newest(
    stream: DataStream[Any],
    take_key: Callable[[Any], Any],
    shown: Callable[[Any], Any],
    change: Callable[[Any], Change[Any]],
    name: str | None,
) -> DataStream[Any]:
    """Keeps the newest row of each key, and withdraws the one before."""
    newest: NewestRow[Any, Any, Any] = NewestRow(change, f"the newest row by {function_name(shown)}")
    return stream.key_by(take_key).process(newest, name=name)


def _same(change: Change[R]) -> Change[R]:
    return change
