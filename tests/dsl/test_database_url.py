"""Addresses of databases: what is shown of them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.dsl.plans import plan, refusal
from windrow import from_collection
from windrow.addresses.database_url import DatabaseUrl
from windrow.sinks import DatabaseSink, DeltaSink


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("sqlite:///totals.db", "sqlite:///totals.db"),
        ("sqlite:////var/at@home.db?timeout=5", "sqlite:////var/at@home.db?timeout=5"),
        ("sqlite:///a.db?key=s3cret", "sqlite:///a.db?key=*****"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://ann@host:5433/db", "postgresql://ann@host:5433/db"),
        ("postgresql+psycopg://ann:s3cret@host/db", "postgresql+psycopg://ann:*****@host/db"),
        ("postgresql://ann:s3%2Fcr%40et@[::1]:1/db", "postgresql://ann:*****@[::1]:1/db"),
        (
            "postgresql:///db?host=/run/pg&user=ann&password=s3cret&sslkey=/s3cret&sslmode=require",
            "postgresql:///db?host=/run/pg&user=*****&password=*****&sslkey=*****&sslmode=require",
        ),
    ],
)
def test_an_address_is_shown_without_its_secrets(text: str, masked: str) -> None:
    url = DatabaseUrl.parse(text)
    assert (url.masked, str(url), url.text) == (masked, masked, text)
    assert repr(url) == f"DatabaseUrl({masked!r})"


def test_a_secret_is_taken_out_of_a_text_in_every_spelling() -> None:
    url = DatabaseUrl.parse("postgresql://ann:s3%2Fcr%40et%20@host/db?sslpassword=a%2Bb")
    text = "s3/cr@et , s3%2Fcr%40et%20, s3/cr%40et%20, a+b and a%2Bb by ann"
    assert url.scrub(text) == "*****, *****, *****, ***** and ***** by ann"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mysql://ann:s3cret@host/db", "not the address of a database"),
        ("ann:s3cret@host", "not the address of a database"),
        ("sqlite://", "names a file"),
        ("sqlite:///:memory:", "names a file"),
        ("postgresql://ann:s3c@ret@host/db", "two ways"),
        ("postgresql://ann:s3c/ret@host/db", "two ways"),
        ("postgresql://ann:s3c?ret@host/db", "two ways"),
        ("postgresql://ann:s3c#ret@host/db", "two ways"),
        ("postgresql://host/db?password=s3c@ret", "two ways"),
        ("postgresql://ann:s3cret@host:port/db", "two ways"),
    ],
)
def test_an_address_that_is_refused_is_not_shown(text: str, message: str) -> None:
    error = refusal(lambda: DatabaseSink[int](text, "totals"))
    assert message in str(error)
    assert not {"s3c", "ret@", "s3cret"} & set(str(error).split())
    assert "s3c" not in str(error)
    assert error.__cause__ is None


def test_a_plan_shows_sinks_without_their_secrets() -> None:
    numbers = from_collection([(1, 2)]).returns(tuple[int, int])
    database = DatabaseSink[tuple[int, int]]("postgresql://ann:s3cret@host/db", "t", key=["_1"], schema="s")
    delta = DeltaSink[tuple[int, int]]("s3://ann:s3cret@bucket/t", partition_by="_1", storage_options={"key": "s3cret"})
    text = plan(numbers.sink_to(database), numbers.sink_to(delta)).explain()
    assert "database postgresql://ann:*****@host/db, table s.t by _1" in text
    assert "delta s3://ann:*****@bucket/t partitioned by _1" in text
    assert "s3cret" not in text + repr(database) + repr(delta)


NAMES: dict[str, Callable[[], object]] = {
    "the table of a database sink needs a name": lambda: DatabaseSink[int]("sqlite:///a.db", ""),
    "the key of a database sink is made of the names": lambda: DatabaseSink[int]("sqlite:///a.db", "t", key=("a", "a")),
    "partition_by of a Delta sink is made of the names": lambda: DeltaSink[int]("t", partition_by=""),
}


@pytest.mark.parametrize("message", NAMES)
def test_names_that_cannot_be_meant(message: str) -> None:
    assert message in str(refusal(NAMES[message]))
