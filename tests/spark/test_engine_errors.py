"""What workers and Spark say when they fail, told in a few lines. Without Spark: it is all in its texts."""

from __future__ import annotations

import logging
import traceback
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

import pytest

from windrow import Pipeline, from_source
from windrow.errors import (
    CheckpointError,
    EngineError,
    Location,
    MissingTimestampError,
    SourceError,
    UserFunctionError,
    WindrowError,
)
from windrow.kafka import KafkaSink, KafkaSource
from windrow_runtime.operators.outcome import secrets_of
from windrow_spark.faults import MarkedError, engine_failure, failures_marked, find_failure, secrets_hidden, unwritable
from windrow_spark.run.query import Query
from windrow_spark.sinks.batch_writer import BatchWriter, ConnectWriter

# Any in this module: what stands for Spark.

FRAME = "\tat org.apache.spark.sql.execution.streaming.state.StateStoreRDD.compute(StateStoreRDD.scala:1)"
FRAMES = "\n".join([FRAME] * 50)


def divide(value: int) -> float:
    return 1 / value


MESSAGE = "a function raised ZeroDivisionError: division by zero"


def fail() -> None:
    try:
        divide(0)
    except ZeroDivisionError as error:
        where = "sensors.2.map, pipeline.py:7"
        raise UserFunctionError(MESSAGE, given={"value": 0}, where=where, hint="look") from error


def test_an_error_of_a_worker_is_found_in_the_text_that_spark_makes_of_it() -> None:
    with pytest.raises(MarkedError) as caught, failures_marked():
        fail()
    spark_text = f"[STREAM_FAILED] Query terminated:\n  {caught.value}\n SQLSTATE: XXKST\n=== Streaming Query ==="
    failure = find_failure(RuntimeError(spark_text))
    assert type(failure) is UserFunctionError
    told = "given:    {'value': 0}", "where:    sensors.2.map, pipeline.py:7", "hint:     look"
    assert str(failure).split("\n  ") == [MESSAGE, *told]
    cause = str(failure.__cause__)
    assert "in divide\n    return 1 / value" in cause
    assert cause.endswith("ZeroDivisionError: division by zero")


def test_the_kind_and_the_parts_of_a_marked_error_survive() -> None:
    error = MissingTimestampError("no timestamp", given=3, expected="one", where=Location("a.py", 3))
    failure = find_failure(MarkedError(error))
    assert type(failure) is MissingTimestampError
    assert str(failure) == str(error)
    assert failure.__cause__ is None


def test_errors_without_a_mark_pass() -> None:
    with pytest.raises(KeyError), failures_marked():
        raise KeyError("mine")
    assert find_failure(RuntimeError("no mark")) is None
    assert isinstance(find_failure(MarkedError(WindrowError("x"))), WindrowError)


class JavaError(Exception):
    """As PySpark raises what Java raised."""

    def __init__(self, *causes: str) -> None:
        self._stackTrace = f"\n{FRAMES}\nCaused by: ".join(causes) + f"\n{FRAMES}"
        super().__init__(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {causes[0]}")


SPARK = "org.apache.spark.SparkException"
OF_A_WORKER = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "worker.py", line 1, in main\n'
)
NO_STORE = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred."
NO_FILE = "FileNotFoundException: File file:/c/state/0/1.zip does not exist"
NO_PROGRAM = 'Cannot run program "./environment/bin/python": error=2, No such file'
NOT_EMPTY = "SparkException: [STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY] The checkpoint location /c is not empty"
CONCURRENT = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."
NO_CLASS = "ModuleNotFoundError: No module named 'readings'"
FULL = "IOException: No space left on device"
HEAP = "OutOfMemoryError: Java heap space"
SIZE = "Total size of serialized results of 2 tasks (7.8 MiB) is bigger than spark.driver.maxResultSize (1024.0 KiB)"
LARGE = "a batch has more for the driver than Spark lets it take: the elements of sinks that the driver writes"
CASES: list[tuple[tuple[str, ...], type[WindrowError], str, str]] = [
    ((f"{SPARK}: Job aborted.", f"java.io.{FULL}"), EngineError, "a disk is full, or a file may not grow", FULL),
    ((OF_A_WORKER + NO_CLASS,), EngineError, "a worker cannot import a module", NO_CLASS),
    (
        (f"java.io.IOException: {NO_PROGRAM}", "java.io.IOException: error=2, No such file"),
        EngineError,
        "Spark cannot start a Python worker",
        NO_PROGRAM,
    ),
    ((f"{SPARK}: Job aborted.", f"java.lang.{HEAP}"), EngineError, "Spark ran out of memory", HEAP),
    (
        (f"{SPARK}: Job aborted due to stage failure: {SIZE}",),
        EngineError,
        LARGE,
        f"SparkException: Job aborted due to stage failure: {SIZE}",
    ),
    (
        (f"{SPARK}: {CONCURRENT} SQLSTATE: 40000",),
        CheckpointError,
        "two runs use one checkpoint",
        f"SparkException: {CONCURRENT}",
    ),
    (
        (f"org.apache.spark.{NOT_EMPTY} SQLSTATE: 42K03",),
        CheckpointError,
        "the checkpoint has files of a query, and nothing says how far that query came",
        NOT_EMPTY,
    ),
    (
        (f"{SPARK}: {NO_STORE}", f"java.io.{NO_FILE}"),
        CheckpointError,
        "Spark cannot read or write its part of the checkpoint",
        f"{NO_STORE} ({NO_FILE})",
    ),
    ((OF_A_WORKER + "SystemExit: 3",), EngineError, "Spark stopped the pipeline", "SystemExit: 3"),
    # The stack has the state store in it whatever happened; that says nothing.
    ((f"{SPARK}: Job 3 cancelled",), EngineError, "Spark stopped the pipeline", "SparkException: Job 3 cancelled"),
]


@pytest.mark.parametrize(("causes", "kind", "message", "given"), CASES)
def test_an_error_of_spark_is_told_short(
    causes: tuple[str, ...], kind: type[WindrowError], message: str, given: str
) -> None:
    failure = engine_failure(JavaError(*causes), "pipeline 'p', checkpoint /c")
    assert type(failure) is kind
    assert (failure.message, failure.given, failure.where) == (message, given, "pipeline 'p', checkpoint /c")
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


SOURCE = KafkaSource(
    "a:9092", "in", str, options={"sasl.jaas.config": 'PlainLoginModule required username="me" password="hunter22";'}
)
SINK = KafkaSink[str]("a:9092", "out", options={"ssl.keystore.password": "swordfish"})
PLAN = Pipeline("secret", from_source(SOURCE).sink_to(SINK))
SECRETS = secrets_of(PLAN.steps)
CONSUMER = JavaError(
    "org.apache.spark.SparkException: Job aborted due to stage failure",
    "org.apache.kafka.common.KafkaException: Failed to construct kafka consumer",
    "org.apache.kafka.common.KafkaException: javax.security.auth.login.LoginException: "
    f"no login for hunter22 with {SOURCE.options['sasl.jaas.config']}",
)
PRODUCER = JavaError("org.apache.kafka.common.KafkaException: Failed to load SSL keystore with swordfish")


def assert_hidden(error: BaseException) -> None:
    """Nothing that Python prints of an error is secret, the beginning of what was cut included."""
    text = "".join(traceback.format_exception(error))
    for secret in (*SECRETS, "hunter", "swordf", "required username"):
        assert secret not in text
    assert "*****" in text


@pytest.mark.parametrize("cut", range(300, 320))
def test_what_a_source_says_while_it_runs_is_told_without_secrets(cut: int) -> None:
    message = f"LoginException: {'x' * (cut - 22)} hunter22"
    failure = engine_failure(JavaError("java.lang.Exception: Job aborted", f"java.io.{message}"), "pipeline", SECRETS)
    assert "hunt" not in "".join(traceback.format_exception(failure))


@pytest.mark.parametrize("raised", [CONSUMER, PRODUCER], ids=["consumer", "producer"])
def test_what_the_connector_says_is_told_without_secrets(raised: Exception) -> None:
    failure = engine_failure(raised, "pipeline 'secret'", SECRETS)
    assert type(failure) is EngineError
    assert str(failure.given).startswith("KafkaException: ")
    assert_hidden(failure)
    with pytest.raises(EngineError) as caught, secrets_hidden(SECRETS, "pipeline 'secret'"):
        raise raised
    assert caught.value.where == "pipeline 'secret'"
    assert caught.value.__suppress_context__
    assert_hidden(caught.value)


def test_what_shows_no_secret_passes_as_it_is() -> None:
    error = ValueError("token=abc")
    with pytest.raises(ValueError, match="token=abc") as caught, secrets_hidden(SECRETS):
        raise error
    assert caught.value is error
    with secrets_hidden(SECRETS):
        pass


def test_an_error_that_a_worker_marked_is_told_without_secrets() -> None:
    error = UserFunctionError("a function raised", given="key 'swordfish'", where="p.2.map, p.py:3")
    error.__cause__ = ValueError("swordfish")
    failure = engine_failure(JavaError(str(MarkedError(error))), "pipeline 'p'", SECRETS)
    assert type(failure) is UserFunctionError
    assert failure.given == "key '*****'"
    assert_hidden(failure)


def test_a_file_that_cannot_be_read_is_told_without_the_password_of_its_address() -> None:
    found = find_failure(
        JavaError(
            "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
            "s3a://ann:s3cret@bucket/in/0.json. Reason: no s3a://ann:s3cret@bucket SQLSTATE: KD001"
        )
    )
    assert found is not None
    assert found.given == "s3a://ann:*****@bucket/in/0.json"
    assert "s3cret" not in str(found)


REFUSED = "AccessControlException: Permission denied: me"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(13, "Permission denied"), "[Errno 13] Permission denied"),
        (JavaError("java.io.IOException: Mkdirs failed"), "IOException: Mkdirs failed"),
        (JavaError(f"org.apache.hadoop.{REFUSED}, swordfish"), f"{REFUSED}, *****"),
        (JavaError(f"{SPARK}: Job 3 cancelled"), None),
    ],
)
def test_why_files_cannot_be_written_is_told_without_secrets(error: Exception, told: str | None) -> None:
    assert unwritable(error, SECRETS) == told


class Batch:
    """Stands for the DataFrame of a batch, and writes it, which fails."""

    sparkSession: Any = SimpleNamespace(addTag=str, removeTag=str)  # noqa: N815  Spark's name

    def save(self) -> None:
        raise PRODUCER


def test_what_a_batch_raises_gets_to_spark_and_its_log_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    query: Any = SimpleNamespace(
        _gate=SimpleNamespace(enter=lambda batch, session: None, leave=lambda: None, is_stopping=False),
        _batches=lambda frame, batch: frame.save(),
        _secrets=SECRETS,
        _place="pipeline 'secret'",
        failure=None,
        _is_quiet=False,
        lock=SimpleNamespace(check=lambda: None),
        lowered=SimpleNamespace(clock=None),
        checkpoint=SimpleNamespace(hand_on=lambda *_: None),
    )
    frame: Any = Batch()
    with caplog.at_level(logging.DEBUG), pytest.raises(EngineError) as caught:
        copy_context().run(Query._write_here, query, frame, 0)  # which keeps the session
    assert_hidden(caught.value)
    assert query.failure is caught.value
    assert "swordfish" not in caplog.text


def test_what_a_batch_raises_gets_to_the_log_of_a_connect_server_without_secrets() -> None:
    class Failing(BatchWriter):
        def __call__(self, frame: Any, batch: int) -> None:
            frame.save()

    frame: Any = Batch()
    unused: Any = None
    writer = ConnectWriter(Failing({3: PLAN.steps[-1]}, (), unused, "query", {}, unused), SECRETS)
    with pytest.raises(MarkedError) as caught:
        writer(frame, 0)
    assert_hidden(caught.value)
    failure = engine_failure(caught.value, "pipeline 'secret'", SECRETS)
    assert type(failure) is EngineError
    assert failure.where == "pipeline 'secret'"
    assert_hidden(failure)
