"""What the secrets of a plan are, and that no error, nor its cause, shows one."""

from __future__ import annotations

import traceback

import pytest

from windrow import Pipeline, from_source
from windrow.errors import Fault, InvalidArgumentError, Location, PlanError, SinkError, UserFunctionError, WindrowError
from windrow.kafka import KafkaSink, KafkaSource
from windrow.sinks import CollectSink, DatabaseSink, DeltaSink, IcebergSink, ParquetFileSink
from windrow.sources import JsonFileSource, RateSource
from windrow_runtime.operators.errors import sink_unwritable
from windrow_runtime.operators.outcome import RedactedError, secrets_of, shown_in, without_secrets

SECRETS = ("swordfish/2", "hunter22")


def test_the_secrets_of_all_ends_of_a_plan_are_known() -> None:
    files = from_source(JsonFileSource("s3a://ann:fi%2Fles@bucket/in", str))
    topic = from_source(
        KafkaSource(
            "a:9092",
            "in",
            str,
            options={"sasl.jaas.config": 'PlainLoginModule required username="me" password="jaas-in";'},
        )
    )
    rate = from_source(RateSource(options={"token": "of the rate"})).map(str)
    plan = Pipeline(
        "secrets",
        files.sink_to(KafkaSink("a:9092", "out", options={"ssl.key.password": "of the topic"})),
        topic.sink_to(DatabaseSink("postgresql://ann:of%20tables@host/db?sslpassword=of-the-key", "t")),
        rate.sink_to(DeltaSink("s3://ann:of-delta@bucket/t", storage_options={"AWS_SECRET_ACCESS_KEY": "of-s3"})),
        rate.sink_to(IcebergSink("db.t", properties={"uri": "postgresql://ann:of-catalog@host", "token": "of-rest"})),
        files.sink_to(ParquetFileSink("s3a://ann:of-files@bucket/out")),
        files.sink_to(CollectSink()),
    )
    found = secrets_of(plan.steps)
    assert {
        "fi/les",
        "fi%2Fles",
        "jaas-in",
        "of the rate",
        "of the topic",
        "of tables",
        "of%20tables",
        "of-the-key",
        "of-delta",
        "of-s3",
        "of-catalog",
        "of-rest",
        "of-files",
    } <= set(found)
    assert list(found) == sorted(found, key=lambda secret: (-len(secret), secret))
    assert not {"ann", "me", "bucket", "host"} & set(found)


def test_a_short_word_is_not_hidden_everywhere() -> None:
    sink = KafkaSink[str]("a:9092", "out", options={"ssl.key.password": "it"})
    assert secrets_of(Pipeline("short", from_source(JsonFileSource("in", str)).sink_to(sink)).steps) == ()


def shown(error: BaseException) -> str:
    """All that Python prints of an error."""
    return "".join(traceback.format_exception(error))


# Any: every part may be what it is shown as.
def login(*, cause: Exception | None = None, given: object = "login as me") -> WindrowError:
    error = UserFunctionError("no login", given=given, where=Location("p.py", 3), hint="try again")
    error.__cause__ = cause
    return error


def test_an_error_without_secrets_stays_as_it_is() -> None:
    cause = ValueError("token=abc is no login")
    error = login(cause=cause)
    assert without_secrets(error, SECRETS) is error
    assert error.__cause__ is cause
    assert without_secrets(error, ()) is error
    assert not shown_in(error, SECRETS)
    assert not shown_in(error, ())


@pytest.mark.parametrize("given", ["password=hunter22, host", {"token": "hunter22"}, KeyError("swordfish/2")])
def test_a_secret_is_taken_out_of_an_error(given: object) -> None:
    error = login(given=given)
    assert shown_in(error, SECRETS)
    clean = without_secrets(error, SECRETS)
    assert type(clean) is UserFunctionError
    assert not any(secret in shown(clean) for secret in SECRETS)
    assert "*****" in str(clean.given)
    assert (clean.message, clean.where, clean.hint) == ("no login", Location("p.py", 3), "try again")
    assert str(clean) == str(error).replace("hunter22", "*****").replace("swordfish/2", "*****")


def test_a_secret_is_taken_out_of_the_cause_and_its_cause() -> None:
    try:
        try:
            raise OSError("refused: swordfish/2")
        except OSError as error:
            raise ValueError("no login") from error
    except ValueError as error:
        failure = login(cause=error)
    clean = without_secrets(failure, SECRETS)
    assert clean is failure
    assert isinstance(clean.__cause__, RedactedError)
    text = shown(clean)
    assert "swordfish" not in text
    assert "OSError: refused: *****" in text
    assert "ValueError: no login" in text
    assert "test_secrets.py" in text  # the user's lines stay


def test_every_kind_of_error_is_cleaned() -> None:
    plan = PlanError([Fault("no login with hunter22", "p.1.source", "try again")])
    clean = without_secrets(plan, SECRETS)
    assert type(clean) is PlanError
    assert "hunter22" not in shown(clean) + str(clean.__dict__)
    refused = without_secrets(InvalidArgumentError("no login with hunter22"), SECRETS)
    assert isinstance(refused, ValueError)
    assert refused.message == "no login with *****"


def test_files_that_cannot_be_written_are_told_without_the_secrets_of_their_address() -> None:
    path = "s3a://ann:swordfish%2F2@bucket/out"
    (step,) = (
        step
        for step in Pipeline("p", from_source(JsonFileSource("in", str)).sink_to(ParquetFileSink(path))).steps
        if step.node.kind == "sink"
    )
    error = sink_unwritable(step, path, f"AccessDenied for ann, swordfish/2: {path}/batch-0")
    assert isinstance(error, SinkError)
    assert error.given == (
        "s3a://ann:*****@bucket/out: AccessDenied for ann, *****: s3a://ann:*****@bucket/out/batch-0"
    )
    local = sink_unwritable(step, "/data/token=abc", "No space left on device: /data/token=abc/batch-0")
    assert local.given == "/data/token=abc: No space left on device: /data/token=abc/batch-0"
