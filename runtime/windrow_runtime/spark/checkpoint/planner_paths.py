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
from collections.abc import Iterator
from fnmatch import fnmatchcase
from multiprocessing.connection import Client, Listener
from typing import Any, Final, Self

import msgspec

from windrow_runtime.spark.checkpoint.storage import HadoopPath, StoragePath

# Any in this module: arguments and results of methods of paths, and addresses of sockets.

_LOG: Final = logging.getLogger("windrow")
_METHODS: Final = ("names", "read_bytes", "write_once", "unlink")

_shared: Final[dict[str, HadoopPath]] = {}
_starting: Final = threading.Lock()
_socket: tuple[Any, bytes] | None = None


class _Asked(msgspec.Struct):
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
            listener = _listener(key)
            threading.Thread(target=_serve, args=(listener,), name="windrow serves planners", daemon=True).start()
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
        with Client(self._address, authkey=self._key) as connection:
            connection.send_bytes(msgspec.msgpack.encode(_Asked(self.url, method, list(arguments))))
            answer = msgspec.msgpack.decode(connection.recv_bytes(), type=_Answer)
        if answer.error is not None:
            raise OSError(*answer.error)
        return answer.result


def _listener(key: bytes) -> Listener:
    try:
        return Listener(authkey=key)  # in a folder that no other user may open
    except OSError:  # the folder for temporary files has too long a name for a socket
        return Listener(("localhost", 0), authkey=key)


def _serve(listener: Listener) -> None:
    while True:
        try:
            with listener.accept() as connection:
                asked = msgspec.msgpack.decode(connection.recv_bytes(), type=_Asked)
                connection.send_bytes(msgspec.msgpack.encode(_answer(asked)))
        except Exception:  # a planner was stopped meanwhile, or a process does not know the key
            _LOG.debug("a planner got no answer", exc_info=True)


def _answer(asked: _Asked) -> _Answer:
    try:
        return _Answer(_call(asked))
    except OSError as error:
        return _Answer(error=(error.errno or errno.EIO, error.strerror or str(error), error.filename or asked.url))
    except Exception as error:  # py4j's: Java is gone
        return _Answer(error=(errno.EIO, repr(error), asked.url))


def _call(asked: _Asked) -> Any:
    path = next((path for url, path in _shared.items() if f"{asked.url}/".startswith(f"{url}/")), None)
    if path is None or asked.method not in _METHODS:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), asked.url)
    path = path._at(asked.url)
    match asked.method:
        case "names":
            return [each.name for each in path.glob("*")]
        case "write_once":
            content, whole = asked.arguments
            return path.write_once(content, whole=whole)
        case _:
            return getattr(path, asked.method)(*asked.arguments)
