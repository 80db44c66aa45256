"""Answers the probes of Kubernetes and of others about a run, by HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from windrow_runtime.metrics.health import Health
from windrow_tools.view.ports import QuietHandler, QuietServer, check_free, port_errors

_POLL_SECONDS: Final = 0.1
_TAKEN: Final = "probes cannot be answered on this port"

Ask: TypeAlias = "Callable[[], Health | None]"
"""Returns how the run is; None while it starts."""


class HealthServer(QuietServer):
    """Answers probes on a port of all IPv4 addresses of the machine, where a cluster asks; use :func:`probed`."""

    def __init__(self, port: int) -> None:
        self.ask: Ask = lambda: None
        with port_errors(port, _TAKEN):
            super().__init__(("", port), partial(_Handler, self))

    def describe_request(self) -> str:
        return "a probe"


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
    check_free("", port, _TAKEN)


class _Handler(QuietHandler):
    # Any: what the server gives each handler.
    def __init__(self, site: HealthServer, *arguments: Any) -> None:
        self._site = site
        super().__init__(*arguments)

    def do_GET(self) -> None:  # noqa: N802 - the name of the base class
        """Answers with 200 if the run is alive, or ready, and else with 503; the body says how it is."""
        health = self._site.ask()
        match self.path.partition("?")[0]:
            case "/livez":
                is_good = health is None or health.is_alive
            case "/readyz":
                is_good = health is not None and health.is_ready
            case _:
                self._send(HTTPStatus.NOT_FOUND, {"error": "there are /livez and /readyz"})
                return
        self._send(HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE, shown(health))

    def do_HEAD(self) -> None:  # noqa: N802  the name that the library calls
        """Answers as to GET, without the body."""
        self.do_GET()

    def _send(self, status: HTTPStatus, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


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
