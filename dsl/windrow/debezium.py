"""Changes of database tables, as Debezium tells them in JSON.

The fields have Debezium's names: https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from re import Pattern
from typing import Any, Final, Generic

from typing_extensions import TypeForm, TypeVar

from windrow.builder.stream import DataStream
from windrow.kafka import KafkaSource, LostOffsets, OffsetsPerBatch
from windrow.panes import Change, ChangeKind
from windrow.plan.location import refusal
from windrow.sources import OnMalformed
from windrow.stream_sources import from_source

__all__ = ["ChangeSource", "DebeziumMessage", "Operation", "TableChange", "from_debezium"]

R = TypeVar("R")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Operation(Enum):
    """What happened to a row; the values are those of Debezium's field ``op``."""

    READ = "r"
    """The row was in the table when Debezium began to read it (a snapshot)."""

    CREATE = "c"
    """The row was inserted."""

    UPDATE = "u"
    """The row was changed."""

    DELETE = "d"
    """The row was deleted."""

    TRUNCATE = "t"
    """All rows were deleted; Debezium tells it only with ``skipped.operations=none``, and then without a row."""


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """The place of a change in its database.

    Attributes:
        db: The database.
        ts_ms: When the change was made in the database, in milliseconds since 1970.
        schema: The schema, in databases that have some.
        table: The table.
    """

    db: str
    ts_ms: int
    schema: str | None = None
    table: str | None = None


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make one of a class with arguments
class TableChange(Generic[R]):
    """A change of a row of a table.

    Attributes:
        op: What happened.
        source: Where, and when.
        before: The row before an update or a deletion. PostgreSQL tells it whole after ``ALTER TABLE orders REPLICA
            IDENTITY FULL`` alone; by default ``before`` is None in an update, and a deletion has None, or the
            default of the column, in all columns but the key, which the type of the row has to allow.
        after: The row after a change; None for a deletion.
    """

    op: Operation
    source: ChangeSource
    before: R | None = None
    after: R | None = None

    @property
    def at(self) -> datetime:
        """When the change was made in the database, such as for a watermark strategy."""
        return _EPOCH + timedelta(milliseconds=self.source.ts_ms)

    def changes(self) -> tuple[Change[R], ...]:
        """The withdrawal of the row before and the row after, as :func:`~windrow.from_changes` takes them.

        With a key, ``from_changes`` needs no row before. A truncation makes none: it does not tell its rows.
        """
        before, after, is_update = self.before, self.after, self.op is Operation.UPDATE
        withdrawn = ChangeKind.UPDATE_BEFORE if is_update else ChangeKind.DELETE
        came = ChangeKind.UPDATE_AFTER if is_update else ChangeKind.INSERT
        rows = [] if before is None else [Change(withdrawn, before)]
        return tuple(rows if after is None else [*rows, Change(came, after)])


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make one of a class with arguments
class DebeziumMessage(Generic[R]):
    """A change with the schema around it, as Kafka Connect writes it with ``schemas.enable=true``, its default.

    Attributes:
        payload: The change.
    """

    payload: R


def from_debezium(
    servers: str | Sequence[str],
    topics: str | Sequence[str] | Pattern[str],
    row_type: TypeForm[R],
    *,
    schemas_enabled: bool = True,
    name: str | None = None,
    on_malformed: OnMalformed = "fail",
    timezone: str | tzinfo | None = None,
    starting_offsets: str | datetime = "earliest",
    max_offsets_per_batch: OffsetsPerBatch | None = None,
    options: Mapping[str, str] | None = None,
    on_lost_offsets: LostOffsets = "fail",
) -> DataStream[TableChange[R]]:
    """A stream of the changes of a table, which Debezium writes to a Kafka topic as JSON.

    The records without value that follow deletions (tombstones) are passed over. Changes of a row are in order, since
    its key decides the partition; Debezium may write one again after a failure of its own.

    Args:
        servers: The brokers to begin with, as for :class:`~windrow.kafka.KafkaSource`.
        topics: The topics, such as ``"shop.public.orders"``: a topic prefix, a schema and a table.
        row_type: The type of a row, whose fields are columns. Debezium's option ``decimal.handling.mode=string`` gives
            what a ``Decimal`` reads, and ``time.precision.mode=isostring`` what a ``datetime`` reads; a date is then a
            text such as ``2026-11-30Z``, for a field of type ``str``.
        schemas_enabled: Whether the messages have their schema around them: the option ``schemas.enable`` of the
            converter of values, which is true by default.
        name: Names the step that reads.
        on_malformed: What becomes of records that are no such changes, as for ``KafkaSource``; so for the others.
        timezone: Where the clock of dates and times without an offset is.
        starting_offsets: Where a new checkpoint begins; ``"earliest"`` reads the snapshot.
        max_offsets_per_batch: How many records make a batch at most.
        options: Further options of librdkafka.
        on_lost_offsets: What is done where records that were to be read are gone.

    Raises:
        InvalidArgumentError: If an argument is not what ``KafkaSource`` takes, or ``schemas_enabled`` is no bool.

    Example:
        >>> from typing import NamedTuple
        >>> from windrow.debezium import from_debezium
        >>> class Order(NamedTuple):
        ...     id: int
        ...     customer: str | None
        >>> changes = from_debezium("broker:9092", "shop.public.orders", Order)
        >>> changes.filter(lambda change: change.after is not None)
        DataStream(...)
    """
    if not isinstance(schemas_enabled, bool):
        raise refusal("messages have a schema or not", given=schemas_enabled, expected="a bool")
    # Any: subscripting with a type that is known at run time only.
    change_class: Any = TableChange
    message_class: Any = DebeziumMessage
    change = change_class[row_type]
    message = message_class[change] if schemas_enabled else change
    value_type: Any = message | None
    source: KafkaSource[Any] = KafkaSource(
        servers,
        topics,
        value_type,
        on_malformed=on_malformed,
        timezone=timezone,
        starting_offsets=starting_offsets,
        max_offsets_per_batch=max_offsets_per_batch,
        options=options,
        on_lost_offsets=on_lost_offsets,
    )
    messages: DataStream[Any] = from_source(source, name=name)
    changes: DataStream[TableChange[R]] = messages.flat_map(payload_of if schemas_enabled else present)
    return changes.returns(change)


def payload_of(message: DebeziumMessage[TableChange[R]] | None) -> tuple[TableChange[R], ...]:
    """Takes the change out of a message; a record without value has none."""
    return () if message is None else (message.payload,)


def present(change: TableChange[R] | None) -> tuple[TableChange[R], ...]:
    """Passes on a change; a record without value has none."""
    return () if change is None else (change,)
