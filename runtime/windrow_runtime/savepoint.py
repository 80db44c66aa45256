"""Takes savepoints of runs on Spark, reads them as tables, and gives checkpoints other partitions or plans.

A savepoint has the state of a pipeline, the positions of its sources and the numbers of its batches, apart from the
partitions of Spark. ``SparkRunner(checkpoint=new, savepoint=path)`` begins from one. The commands are ``windrow
savepoint``, ``windrow rescale``, ``windrow upgrade`` and ``windrow state``.
"""

from windrow_spark.savepoint.description import SavedFile, SavedStep, SavepointDescription
from windrow_spark.savepoint.reading import Savepoint, read
from windrow_spark.savepoint.stopped import rescale, take, upgrade

__all__ = ["SavedFile", "SavedStep", "Savepoint", "SavepointDescription", "read", "rescale", "take", "upgrade"]
