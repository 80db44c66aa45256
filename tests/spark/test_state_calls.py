"""Calls of Spark's state API that are on their way together, against a client like Spark's."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from windrow.errors import UnsupportedOperationError
from windrow_spark.keyed.state_calls import StateCalls, StoredPages

# Any in this module: Spark's client has no types.


class Client:
    """Sends a request and reads its answer, as Spark's client does."""

    def __init__(self) -> None:
        self.sockfile: Any = self
        self.stored: dict[int, bytes] = {}
        self.log: list[str] = []
        self.refused: set[int] = set()
        self.has_failed = False
        self._answers: list[tuple[int, str, bytes]] = []

    def write(self, data: bytes) -> None:
        """The JVM does what it is asked for; its answer waits."""
        self.log.append("ask")
        kind, number, content = data[:1], data[1], data[2:]
        if self.has_failed:
            return
        if number in self.refused:
            self.has_failed = True
            self._answers.append((1, f"no page {number}", b""))
            return
        if kind == b"p":
            self.stored[number] = content
        elif kind == b"r":
            del self.stored[number]
        self._answers.append((0, "", self.stored.get(number, b"") if kind == b"g" else b""))

    def flush(self) -> None:
        self.log.append("flush")

    def _receive_proto_message(self) -> tuple[int, str, bytes]:
        self.log.append("answer")
        if not self._answers:
            raise EOFError
        return self._answers.pop(0)

    @staticmethod
    def _deserialize_from_bytes(data: bytes) -> tuple[bytes]:
        return (data,)

    def call(self, kind: bytes, number: int, content: bytes = b"") -> Any:
        self.sockfile.write(kind + bytes([number]) + content)
        self.sockfile.flush()
        status, message, data = self._receive_proto_message()
        if status:
            raise PySparkRuntimeError(message)
        return data


class MapClient:
    def __init__(self, client: Client) -> None:
        self._stateful_processor_api_client = client


class Map:
    """Spark's map of pages."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._mapStateClient = MapClient(client)

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802  Spark's name
        data = self._client.call(b"g", *key)
        return (data,) if data else None

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802  Spark's name
        self._client.call(b"p", *key, *value)

    def removeKey(self, key: tuple[int]) -> None:  # noqa: N802  Spark's name
        self._client.call(b"r", *key)


class UnknownMap(Map):
    """That of a Spark whose client has other parts."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        del self._mapStateClient


def pages_of(kind: type[Map], client: Client) -> StoredPages:
    state: Any = kind(client)
    return StoredPages(state, StateCalls(state))


@pytest.mark.parametrize("kind", [Map, UnknownMap])
def test_pages_are_written_and_read(kind: type[Map]) -> None:
    client = Client()
    pages = pages_of(kind, client)
    for number in range(100):
        pages.put(number, b"page %d" % number)
    pages.remove(7)
    pages.put(8, b"another")
    # What is not written yet is known all the same.
    assert pages.get_all([6, 7, 8, 200]) == [b"page 6", None, b"another", None]
    assert pages.get(7) is None
    pages.settle()
    assert client.stored == {n: b"page %d" % n for n in range(100) if n not in {7, 8}} | {8: b"another"}
    assert pages.get_all(list(range(100))) == [client.stored.get(n) for n in range(100)]


def test_requests_go_before_answers_come() -> None:
    client = Client()
    pages = pages_of(Map, client)
    for number in range(20):
        pages.put(number, b"x")
    assert client.log == []
    pages.settle([lambda: client.call(b"p", 50, b"more")])
    assert client.log == ["ask"] * 21 + ["flush"] + ["answer"] * 21
    client.log.clear()
    pages.get_all(list(range(40)))
    assert client.log == ["ask"] * 32 + ["flush"] + ["answer"] * 32 + ["ask"] * 8 + ["flush"] + ["answer"] * 8
    # Spark's own calls are as they were.
    client.log.clear()
    assert client.call(b"g", 50) == b"more"
    assert client.log == ["ask", "flush", "answer"]


def test_large_pages_do_not_wait() -> None:
    client = Client()
    pages = pages_of(Map, client)
    for number in range(3):
        pages.put(number, bytes(40 << 10))
    assert len(client.stored) == 2


def test_spark_says_why_it_refuses_a_call_and_nothing_more() -> None:
    client = Client()
    pages = pages_of(Map, client)
    client.refused = {3}
    for number in range(6):
        pages.put(number, b"x")
    with pytest.raises(PySparkRuntimeError, match="no page 3"):
        pages.settle()
    # No answer is waited for that does not come.
    assert client.log == ["ask"] * 6 + ["flush"] + ["answer"] * 4
    with pytest.raises(PySparkRuntimeError, match="no answer"):
        pages.get_all([4, 5])


def test_a_client_that_goes_other_ways_is_refused() -> None:
    client = Client()
    state: Any = Map(client)
    with pytest.raises(UnsupportedOperationError, match="0 requests for 1 calls"):
        StateCalls(state).make([lambda: None])


def test_a_call_that_fails_before_it_is_sent_leaves_no_answers_behind() -> None:
    client = Client()
    pages = pages_of(Map, client)

    def wrong() -> None:
        raise ValueError("not sent")

    pages.put(1, b"x")
    with pytest.raises(ValueError, match="not sent"):
        pages.settle([wrong])
    assert client.call(b"g", 1) == b"x"


def test_the_client_of_the_installed_spark_is_known(tmp_path: Path) -> None:
    from pyspark.sql.streaming.map_state_client import MapStateClient
    from pyspark.sql.streaming.stateful_processor import MapState
    from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
    from pyspark.sql.types import LongType, StructType

    schema = StructType().add("page", LongType())
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "state"))
        server.listen()
        client = StatefulProcessorApiClient(str(tmp_path / "state"), schema)
        assert StateCalls(MapState(MapStateClient(client, schema, schema), "pages"))._client is client
        client.sockfile.close()
        client._client_socket.close()
