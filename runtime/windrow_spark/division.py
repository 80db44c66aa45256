"""Describes what divides the elements of a batch among tasks, so that a batch that runs again is divided alike.

Tasks that write topics, or users' own sinks, note by their number what they have written. Elements that come straight
from a source lie in the tasks that Spark and windrow make of its files. So a checkpoint keeps the division of the batch
that has begun, and the next run finishes this batch with it, whatever cores and settings it has itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from windrow_spark.session import DEFAULT_PARTITIONS, SHUFFLE_PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CORES: Final = "spark.sql.leafNodeDefaultParallelism"
_DIVIDING: Final = (
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.openCostInBytes",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.maxPartitionNum",
    _CORES,
)

# Spark orders files by the sample of a long list, which is another one in each run.
_SAMPLED: Final = "spark.sql.execution.rangeExchange.sampleSizePerPartition"
_ALL_FILES: Final = "1000000"  # the most that Spark takes


@dataclass(frozen=True, slots=True)
class Division:
    """What decides, besides the files and offsets of a batch, which task takes which element."""

    cores: int | None  # None: a server does not tell them
    partitions: int  # the shuffle partitions of the session; those of the query are in its checkpoint anyway
    large_file_bytes: int
    settings: Mapping[str, str | None]  # Spark's; None: the session has no value
    in_parts: Sequence[int] = ()  # the sources, by their number, of which large files are read in parts

    @classmethod
    def of(cls, spark: SparkSession, large_file_bytes: int, in_parts: Sequence[int] = ()) -> Division:
        """Returns what decides it in a session now."""
        context = getattr(spark, "sparkContext", None)  # a session of a Spark Connect server has none
        return cls(
            None if context is None else int(context.defaultParallelism),
            int(spark.conf.get(SHUFFLE_PARTITIONS, None) or DEFAULT_PARTITIONS),
            large_file_bytes,
            {name: spark.conf.get(name, None) for name in _DIVIDING},
            list(in_parts),
        )

    @property
    def fixed_settings(self) -> dict[str, str | None]:
        """The settings with which Spark divides files so, though executors come and go."""
        cores = None if self.cores is None else str(self.cores)
        return {**self.settings, _CORES: self.settings.get(_CORES) or cores, _SAMPLED: _ALL_FILES}

    def __str__(self) -> str:
        settings = {name: value for name, value in self.settings.items() if value is not None}
        numbers = {"cores": self.cores, SHUFFLE_PARTITIONS: self.partitions}
        return ", ".join(
            f"{name}={value}" for name, value in {**numbers, **settings, "large files": self.large_file_bytes}.items()
        )
