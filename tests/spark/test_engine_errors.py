"""What Spark says when it gives up, told in a few lines. Without Spark: it is all in its texts."""

from __future__ import annotations

import pytest

from windrow.errors import CheckpointError, EngineError, SourceError, UserFunctionError, WindrowError
from windrow_runtime.spark.engine_errors import engine_failure, unwritable
from windrow_runtime.spark.failures import MarkedError

FRAME = "\tat org.apache.spark.sql.execution.streaming.state.StateStoreRDD.compute(StateStoreRDD.scala:1)"
FRAMES = "\n".join([FRAME] * 50)


class JavaError(Exception):
    """As PySpark raises what Java raised."""

    def __init__(self, *causes: str) -> None:
        self._stackTrace = f"\n{FRAMES}\nCaused by: ".join(causes) + f"\n{FRAMES}"
        super().__init__(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {causes[0]}")


@pytest.mark.parametrize(
    ("causes", "kind", "message", "given"),
    [
        (
            ("org.apache.spark.SparkException: Job aborted.", "java.io.IOException: No space left on device"),
            EngineError,
            "a disk is full, or a file may not grow",
            "IOException: No space left on device",
        ),
        (
            (
                "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
                '  File "worker.py", line 1, in main\n'
                "ModuleNotFoundError: No module named 'readings'",
            ),
            EngineError,
            "a worker cannot import a module",
            "ModuleNotFoundError: No module named 'readings'",
        ),
        (
            (
                'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file',
                "java.io.IOException: error=2, No such file",
            ),
            EngineError,
            "Spark cannot start a Python worker",
            'Cannot run program "./environment/bin/python": error=2, No such file',
        ),
        (
            ("org.apache.spark.SparkException: Job aborted.", "java.lang.OutOfMemoryError: Java heap space"),
            EngineError,
            "Spark ran out of memory",
            "OutOfMemoryError: Java heap space",
        ),
        (
            (
                "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. "
                "SQLSTATE: 40000",
            ),
            CheckpointError,
            "two runs use one checkpoint",
            "SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.",
        ),
        (
            (
                "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred.",
                "java.io.FileNotFoundException: File file:/c/state/0/1.zip does not exist",
            ),
            CheckpointError,
            "Spark cannot read or write its part of the checkpoint",
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred. "
            "(FileNotFoundException: File file:/c/state/0/1.zip does not exist)",
        ),
        (
            (
                "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
                '  File "worker.py", line 1, in main\n'
                "SystemExit: 3",
            ),
            EngineError,
            "Spark stopped the pipeline",
            "SystemExit: 3",
        ),
        # The stack has the state store in it whatever happened; that says nothing.
        (
            ("org.apache.spark.SparkException: Job 3 cancelled",),
            EngineError,
            "Spark stopped the pipeline",
            "SparkException: Job 3 cancelled",
        ),
    ],
)
def test_an_error_of_spark_is_told_short(
    causes: tuple[str, ...], kind: type[WindrowError], message: str, given: str
) -> None:
    failure = engine_failure(JavaError(*causes), "pipeline 'p', checkpoint /c")
    assert type(failure) is kind
    assert failure.message == message
    assert failure.given == given
    assert failure.where == "pipeline 'p', checkpoint /c"
    assert failure.hint
    assert "\tat " not in str(failure.__cause__)


def test_an_error_that_a_worker_marked_comes_first() -> None:
    error = UserFunctionError("a function raised OSError: No space left on device", where="p.2.map, p.py:3")
    marked = JavaError(str(MarkedError(error)))
    assert str(engine_failure(marked, "pipeline 'p'")) == str(error)
    assert unwritable(marked) is None


def test_an_error_of_ours_stays_what_it_is() -> None:
    error = SourceError("gone", given="/in")
    assert engine_failure(error, "pipeline 'p'") is error
    assert error.where == "pipeline 'p'"


def test_what_keeps_files_from_being_written() -> None:
    assert unwritable(OSError(13, "Permission denied")) == "[Errno 13] Permission denied"
    assert unwritable(JavaError("java.io.IOException: Mkdirs failed to create file:/out")) is not None
    assert unwritable(JavaError("org.apache.spark.SparkException: Job 3 cancelled")) is None
