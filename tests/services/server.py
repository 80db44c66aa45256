"""Servers as child processes: free ports, a wait until they answer, and a record of those that outlive the program."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.services.cache import cache_folder

__all__ = [
    "LOOPBACK",
    "Server",
    "free_ports",
    "keep_server",
    "kept_server",
    "new_folder",
    "recorded",
    "running_server",
    "start_server",
    "stop_kept_server",
    "stop_server",
]

LOOPBACK: Final = "127.0.0.1"
_SECONDS: Final = 90
_PORTS: Final = (20_000, 32_768)  # systems give those above to connections
_LOG_SHOWN: Final = 3000
# Runs a command until that ends, or until the program at the other end of standard input does, however it ends.
_GUARD: Final = ("sh", "-c", '{ "$0" "$@"; kill -9 $$; } & cat > /dev/null; kill -9 0')
_children: Final[dict[int, subprocess.Popen[bytes]]] = {}


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        name: Of the service, such as ``kafka``.
        pid: The process, which leads a group of its own.
        address: Where it answers, as its clients are told.
        folder: Its data and its log; its command line names it.
    """

    name: str
    pid: int
    address: str
    folder: str

    @property
    def is_running(self) -> bool:
        """Whether its process is there: by now another one may have the number."""
        command = ["ps", "-ww", "-o", "stat=,args=", "-p", str(self.pid)]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        return self.folder in found and not found.startswith("Z")

    def record(self) -> None:
        """Note it in the cache, so that other programs find it."""
        _record_of(self.name).write_text(json.dumps(asdict(self)), encoding="utf-8")

    def kill(self) -> None:
        """End it at once, and wait until it has; what it has stored is as after a crash."""
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)
        if self.pid in _children:
            child = _children.pop(self.pid)
            if child.stdin is not None:
                child.stdin.close()
            child.wait()
        while self.is_running:
            time.sleep(0.01)
        record = recorded(self.name)
        if record is not None and record.pid == self.pid:
            _record_of(self.name).unlink()


def recorded(name: str) -> Server | None:
    """The server that was noted in the cache, whether it still runs or not."""
    try:
        return Server(**json.loads(_record_of(name).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def free_ports(count: int) -> list[int]:
    """Ports of the loopback device that nothing uses, and that no connection gets while a server starts again."""
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = random.SystemRandom().randrange(*_PORTS)
            with suppress(OSError):
                stack.enter_context(socket.create_server((LOOPBACK, port)))
                found.append(port)
    return found


def start_server(
    name: str,
    command: Sequence[str],
    folder: Path,
    *,
    address: str,
    answers: Callable[[], bool],
    outlives: bool = False,
) -> Server:
    """Start a server, and wait until it answers. It ends with this program at the latest, unless it ``outlives`` it.

    Raises:
        RuntimeError: If it ends, or does not answer in a minute and a half; with the end of its log.
    """
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command if outlives else [*_GUARD, *command],
            cwd=folder,
            stdin=subprocess.DEVNULL if outlives else subprocess.PIPE,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    _children[process.pid] = process
    server = Server(name, process.pid, address, str(folder))
    end = time.monotonic() + _SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > end:
            server.kill()
            told = log.read_text(encoding="utf-8", errors="replace")[-_LOG_SHOWN:]
            raise RuntimeError(f"{name} does not answer at {address}; its log ends in\n{told}")
        time.sleep(0.05)
    return server


@contextmanager
def new_folder(name: str) -> Iterator[Path]:
    """A new folder for the data and the log of a service, which is removed if the service does not start."""
    folder = Path(tempfile.mkdtemp(prefix=f"windrow-{name}-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder)
        raise


def stop_server(server: Server) -> None:
    """Kill a server, and remove its folder: nobody needs what it has stored."""
    server.kill()
    shutil.rmtree(server.folder, ignore_errors=True)


def kept_server(name: str) -> Server | None:
    """The server that outlives the programs, if it runs."""
    there = recorded(name)
    return there if there is not None and there.is_running else None


def keep_server(name: str, start: Callable[..., Server]) -> Server:
    """The server that outlives the programs: the one that runs, or one that is started and noted."""
    server = kept_server(name)
    if server is None:
        server = start(outlives=True)
        cache_folder().mkdir(parents=True, exist_ok=True)
        server.record()
    return server


def stop_kept_server(name: str) -> bool:
    """Stop the server that outlives the programs; returns whether there was one."""
    there = recorded(name)
    if there is not None:
        stop_server(there)
    return there is not None


@contextmanager
def running_server(name: str, start: Callable[[], Server]) -> Iterator[Server]:
    """The server that was started by hand, or a new one until the end."""
    there = kept_server(name)
    if there is not None:
        yield there
        return
    server = start()
    try:
        yield server
    finally:
        stop_server(server)


def _record_of(name: str) -> Path:
    return cache_folder() / f"{name}.json"
