"""Answers the probes of Kubernetes and of others about a run, by HTTP."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, TypeAlias

from windrow.errors import InvalidArgumentError
from windrow_runtime.metrics.health import Health

_LOG: Final = logging.getLogger("windrow")
_POLL_SECONDS: Final = 0.1

Ask: TypeAlias = "Callable[[], Health | None]"
"""Returns how the run is; None while it starts."""


class HealthServer(ThreadingHTTPServer):
    """Answers probes on a port of all interfaces of the machine, which is where a cluster asks; use :func:`probed`."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.ask: Ask = lambda: None
        with _port_errors(port):
            super().__init__(("", port), partial(_Handler, self))

    # Any: what the base class calls a request, and an address.
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs an error, which the base class would write to stderr."""
        _LOG.exception("a probe could not be answered")


@contextmanager
def probed(port: int) -> Iterator[HealthServer]:
    """Answers probes until the end of the block, at ``/livez`` and ``/readyz``.

    Args:
        port: The port; 0: a free one, which ``server_port`` has.

    Yields:
        The server, whose ``ask`` the run sets.

    Raises:
        InvalidArgumentError: If the port is taken, or none.
    """
    server = HealthServer(port)
    serve = partial(server.serve_forever, poll_interval=_POLL_SECONDS)
    thread = threading.Thread(target=serve, name="windrow health", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def check_port(port: int) -> None:
    """Raises an ``InvalidArgumentError`` if probes cannot be answered on a port at the moment."""
    with _port_errors(port), socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, HealthServer.allow_reuse_address)
        listening.bind(("", port))


@contextmanager
def _port_errors(port: int) -> Iterator[None]:
    try:
        yield
    except (OSError, OverflowError) as error:
        raise InvalidArgumentError(
            f"probes cannot be answered on this port: {error}",
            given=port,
            expected="a free port of this machine, or 0, which takes any",
        ) from error


class _Handler(BaseHTTPRequestHandler):
    server_version = "windrow"
    sys_version = ""
    timeout: ClassVar[float | None] = 30.0

    # Any: what the server gives each handler.
    def __init__(self, site: HealthServer, *arguments: Any) -> None:
        self._site = site
        super().__init__(*arguments)

    def handle(self) -> None:
        with suppress(OSError):  # the probe was given up
            super().handle()

    def do_GET(self) -> None:
        """Answers with 200 if the run is alive, or ready, and else with 503; the body says how it is."""
        health = self._site.ask()
        match self.path:
            case "/livez":
                is_good = health is None or health.is_alive
            case "/readyz":
                is_good = health is not None and health.is_ready
            case _:
                self._send(HTTPStatus.NOT_FOUND, {"error": "there are /livez and /readyz"})
                return
        self._send(HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE, shown(health))

    def _send(self, status: HTTPStatus, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # Any: as in the base class.
    def log_message(self, *arguments: Any) -> None:
        """Writes nothing: probes come every few seconds."""


def shown(health: Health | None) -> dict[str, object]:
    """Returns what everybody who reaches the port may see: figures, and the class of an error without its text."""
    if health is None:
        return {"state": "starting"}
    return {
        "pipeline": health.pipeline,
        "state": health.state,
        "ready": health.is_ready,
        "batch": health.batch,
        "batch_age_seconds": health.batch_age_seconds,
        "lag_ms": health.lag_ms,
        "backlog": {step: backlog._asdict() for step, backlog in health.backlog.items()},
        "last_error": None if health.last_error is None else type(health.last_error).__name__,
    }
