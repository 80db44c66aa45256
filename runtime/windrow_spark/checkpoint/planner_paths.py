"""Opens files of a checkpoint for planners, the processes in which Spark plans batches of Python sources.

A planner runs on the machine of the driver and has no JVM. If the file system of the checkpoint is not mounted, the
planner asks the driver's process, by a socket of the machine, and a thread there opens the file by the driver's JVM.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any, Final, Self

import msgspec

from windrow.addresses.redaction import redact_address
from windrow_spark.checkpoint.storage import HadoopPath, StoragePath

# Any in this module: arguments and results of methods of paths, and addresses of sockets.

_LOG: Final = logging.getLogger("windrow")
_METHODS: Final = ("names", "read_bytes", "write_once", "unlink")
_PAUSE_SECONDS: Final = 1.0

_shared: Final[dict[str, HadoopPath]] = {}
_starting: Final = threading.Lock()
_socket: tuple[Any, bytes] | None = None


class _Call(msgspec.Struct):
    """A call of a method of a path."""

    url: str
    method: str
    arguments: list[Any] = []


class _Answer(msgspec.Struct):
    """What the method has returned, or the number, the text and the file of its ``OSError``."""

    result: Any = None
    error: tuple[int, str, str] | None = None


def for_planners(path: StoragePath) -> StoragePath:
    """Returns a path as planners open it, with what lies below it, while this process lives."""
    if not isinstance(path, HadoopPath):
        return path.absolute()  # the planner may run in another folder
    global _socket  # noqa: PLW0603  one socket serves all checkpoints of the process
    with _starting:
        if _socket is None:
            key = secrets.token_bytes(32)
            listener = _listener()
            _in_background(_serve, listener, key)
            _socket = listener.address, key
        _shared[path.url] = path
        return PlannerPath(path.url, *_socket)


class PlannerPath(HadoopPath):
    """A path that a planner opens through the driver: it reads, writes once, lists and deletes files, no more."""

    def __init__(self, url: str, address: Any, key: bytes) -> None:
        super().__init__(url)
        self._address, self._key = address, key

    def __reduce__(self) -> tuple[Any, ...]:
        return PlannerPath, (self.url, self._address, self._key)

    def _at(self, url: str) -> Self:
        return type(self)(url, self._address, self._key)

    def glob(self, pattern: str, /) -> Iterator[Self]:
        return (self / name for name in self._ask("names") if fnmatchcase(name, pattern))

    def read_bytes(self) -> bytes:
        content: bytes = self._ask("read_bytes")
        return content

    def write_once(self, content: bytes, *, whole: bool = False) -> bool:
        return bool(self._ask("write_once", content, whole))

    def unlink(self, missing_ok: bool = False) -> None:
        self._ask("unlink", missing_ok)

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            with Client(self._address, authkey=self._key) as connection:
                connection.send_bytes(msgspec.msgpack.encode(_Call(self.url, method, list(arguments))))
                answer = msgspec.msgpack.decode(connection.recv_bytes(), type=_Answer)
        except (OSError, EOFError) as error:
            # Where the socket is missing, nobody has said that the file is.
            raise OSError(errno.EIO, f"the driver does not answer: {error}", redact_address(self.url)) from error
        if answer.error is not None:
            raise OSError(*answer.error)
        return answer.result


def _listener() -> Listener:
    try:
        return Listener()  # in a folder that no other user may open
    except OSError:  # the folder for temporary files has too long a name for a socket
        return Listener(("localhost", 0))


def _in_background(work: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=work, args=arguments, name="windrow serves planners", daemon=True).start()


def _serve(listener: Listener, key: bytes) -> None:
    """Serve each planner in a thread of its own: another one may wait for a file system that does not answer."""
    while True:
        try:
            _in_background(_serve_one, listener.accept(), key)
        except (OSError, RuntimeError):  # the process has too many open files, or threads, at the moment
            _LOG.warning("a planner could not be served", exc_info=True)
            time.sleep(_PAUSE_SECONDS)


def _serve_one(connection: Connection, key: bytes) -> None:
    with connection:
        try:
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
            call = msgspec.msgpack.decode(connection.recv_bytes(), type=_Call)
            connection.send_bytes(msgspec.msgpack.encode(_answer(call)))
        except Exception:  # a planner was stopped meanwhile, or a process does not know the key
            _LOG.debug("a planner got no answer", exc_info=True)


def _answer(call: _Call) -> _Answer:
    try:
        return _Answer(_call(call))
    except OSError as error:
        file = error.filename or redact_address(call.url)
        return _Answer(error=(error.errno or errno.EIO, error.strerror or str(error), file))
    except Exception as error:  # py4j's: Java is gone
        return _Answer(error=(errno.EIO, repr(error), redact_address(call.url)))


def _call(call: _Call) -> Any:
    path = next((path for url, path in _shared.items() if f"{call.url}/".startswith(f"{url}/")), None)
    leads_out = ".." in call.url.split("/")  # Hadoop follows it
    if path is None or leads_out or call.method not in _METHODS:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), redact_address(call.url))
    path = path._at(call.url)
    match call.method:
        case "names":
            return [each.name for each in path.glob("*")]
        case "write_once":
            content, whole = call.arguments
            return path.write_once(content, whole=whole)
        case _:
            return getattr(path, call.method)(*call.arguments)
