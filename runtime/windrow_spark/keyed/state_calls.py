"""Sends many calls of Spark's state API before it reads the first answer.

Spark's client in a worker sends a request to the JVM and waits for the answer before the next one, so that each call
costs two changes of threads: 0.1 to 0.3 ms, of which a third is work. The JVM answers requests in their order, so as
many as fit into the sockets' buffers may be sent before the first answer is read. That takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from windrow.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

# Any in this module: the parts of Spark's client that are looked for have no types.

Call: TypeAlias = "Callable[[], object]"

_AT_ONCE: Final = 32
"""Requests and answers of 32 calls are far smaller than the kernel's buffer for a socket: neither side waits
for the other one to read. Only answers to reads are large, and while the JVM waits with one the requests are sent."""
_BYTES_AT_ONCE: Final = 64 << 10  # requests that write pages are large themselves
_DONE: Final = (0, "", b"")


class StateCalls:
    """Makes calls of Spark's state API, together; one by one if Spark's client lacks the parts that this needs.

    It may be given any state of the processor: they share their client.
    """

    def __init__(self, state: MapState) -> None:
        client = getattr(getattr(state, "_mapStateClient", None), "_stateful_processor_api_client", None)
        attributes = ("sockfile", "_receive_proto_message", "_deserialize_from_bytes")
        self._client: Any = client if all(hasattr(client, part) for part in attributes) else None

    def make(self, calls: Iterable[Call]) -> None:
        """Make calls that write, in their order. Raises a ``PySparkRuntimeError`` if Spark refuses one."""
        if self._client is None:
            for call in calls:
                call()
            return
        waiting = iter(calls)
        while batch := list(islice(waiting, _AT_ONCE)):
            self._together(batch)

    def read(self, calls: Sequence[Callable[[], tuple[Any, ...] | None]]) -> list[tuple[Any, ...] | None]:
        """Returns the results of calls that read one value each; None where there is no value."""
        if self._client is None or len(calls) == 1:
            return [call() for call in calls]
        results: list[tuple[Any, ...] | None] = []
        for start in range(0, len(calls), _AT_ONCE):
            answers = self._together(calls[start : start + _AT_ONCE])
            results += [self._client._deserialize_from_bytes(data) if data else None for data in answers]
        return results

    def _together(self, calls: Sequence[Call]) -> list[bytes]:
        """Sends calls together; returns the values of their answers."""
        client = self._client
        file = client.sockfile
        requests = _Requests(file)
        client.sockfile = requests
        # Each call gets an empty answer now: the true answers are read later.
        client._receive_proto_message = lambda: _DONE
        try:
            for call in calls:
                call()
        except BaseException:
            self._restore(file)
            self._answers(requests.count)
            raise
        self._restore(file)
        if requests.count != len(calls):
            raise UnsupportedOperationError(
                "Spark's client in a worker sends other requests than are known",
                given=f"{requests.count} requests for {len(calls)} calls",
                expected="a version of pyspark that windrow names in its dependencies",
            )
        return self._answers(len(calls))

    def _restore(self, file: Any) -> None:
        self._client.sockfile = file
        del self._client._receive_proto_message

    def _answers(self, count: int) -> list[bytes]:
        """Reads ``count`` answers; returns their values. Spark sends none after one that is an error."""
        from pyspark.errors import PySparkRuntimeError

        client = self._client
        unsent: OSError | None = None
        try:
            client.sockfile.flush()
        except OSError as error:
            # Spark has closed the socket; an answer that it sent before may hold the reason.
            unsent = error
        values: list[bytes] = []
        for _ in range(count):
            try:
                status, message, value = client._receive_proto_message()
            except EOFError as error:
                raise PySparkRuntimeError("Spark's state API gave no answer") from unsent or error
            if status:
                raise PySparkRuntimeError(f"Spark's state API refused a call: {message}")
            values.append(value)
        return values


class _Requests:
    """Counts the requests to a file, and leaves them in the file's buffer until that is full."""

    def __init__(self, file: Any) -> None:
        self.count = 0
        self.write = file.write

    def flush(self) -> None:
        """Counts a request: Spark's client calls this at the end of each."""
        self.count += 1


class StoredPages:
    """The pages of the current key group in Spark's state store. Writes are made when :meth:`settle` is called."""

    def __init__(self, state: MapState, calls: StateCalls) -> None:
        self._state = state
        self._calls = calls
        self._waiting: dict[int, bytes | None] = {}
        self._size = 0

    def get(self, number: int) -> bytes | None:
        """Returns a page; None if there is none."""
        (page,) = self.get_all([number])
        return page

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        """Returns pages; None for each that does not exist."""
        waiting, state = self._waiting, self._state
        unknown = [number for number in numbers if number not in waiting]
        rows = self._calls.read([partial(state.getValue, (number,)) for number in unknown]) if unknown else []
        stored = {number: None if row is None else bytes(row[0]) for number, row in zip(unknown, rows, strict=True)}
        return [waiting[number] if number in waiting else stored[number] for number in numbers]

    def put(self, number: int, data: bytes) -> None:
        """Store a page."""
        self._waiting[number] = data
        self._size += len(data)
        if self._size > _BYTES_AT_ONCE or len(self._waiting) >= _AT_ONCE:
            self.settle()

    def remove(self, number: int) -> None:
        """Forget a page."""
        self._waiting[number] = None
        if len(self._waiting) >= _AT_ONCE:
            self.settle()

    def settle(self, more: Iterable[Call] = ()) -> None:
        """Make the waiting calls, and then ``more``."""
        state = self._state
        calls: list[Call] = [
            partial(state.removeKey, (number,)) if data is None else partial(state.updateValue, (number,), (data,))
            for number, data in self._waiting.items()
        ]
        self._waiting.clear()
        self._size = 0
        self._calls.make([*calls, *more])
