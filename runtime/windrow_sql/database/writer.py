"""Answers what engines ask of a sink that writes a table of a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windrow.sinks import DatabaseSink
from windrow_runtime.outputs.output import Identity, Output, written_type
from windrow_runtime.outputs.writer import SinkWriter, Target

# Any in this module: elements of every type.


class DatabaseWriter(SinkWriter[DatabaseSink[Any]]):
    """Writes tables of PostgreSQL and SQLite."""

    extra = "database"

    def output(self, identity: Identity) -> Output:
        # SQLAlchemy is imported only if a plan has such a sink.
        from windrow_sql.database.output import DatabaseOutput

        return DatabaseOutput(self.step, self.sink, identity)

    def encoder(self) -> Callable[[Sequence[Any]], object]:
        from windrow_sql.database.row_encoder import RowEncoder

        return RowEncoder(written_type(self.step), self.sink.url.backend, {}).encode

    @property
    def target(self) -> Target:
        return Target(DatabaseSink.__name__, self.sink.qualified_table, is_exact=True)
