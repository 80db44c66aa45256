"""Serves a page about a run to browsers of this machine, and tells the page of each change."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

from windrow_tools.view.follow import Running, history_of
from windrow_tools.view.history import RunHistory
from windrow_tools.view.ports import QuietHandler, QuietServer, check_free, port_errors

_LOOPBACK: Final = "127.0.0.1"
_TAKEN: Final = "no page can be served on this port"
_HOSTS: Final = frozenset({_LOOPBACK, "localhost", "::1"})
"""The names that a browser of this machine, or one that reaches it through a tunnel, calls this server by."""
_MOST_STREAMS: Final = 16
_POLL_SECONDS: Final = 0.1
_PAUSE_SECONDS: Final = 0.25
_SILENT_SECONDS: Final = 10.0
"""After so long without a change a line is sent, by which this server learns that a page was closed."""
_END_SECONDS: Final = 3.0


class Dashboard:
    """A page about a run; made by :func:`dashboard`.

    Attributes:
        url: The address of the page.
        port: The port.
    """

    def __init__(self, history: RunHistory, port: int) -> None:
        self._server = _Server(history, port)
        self.port: int = self._server.server_port
        self.url = f"http://{_LOOPBACK}:{self.port}/"
        serve = partial(self._server.serve_forever, poll_interval=_POLL_SECONDS)
        self._thread = threading.Thread(target=serve, name="windrow dashboard", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"Dashboard({self.url!r})"

    def close(self) -> None:
        """Tells open pages what there is to show last, and ends the server; :func:`dashboard` calls it."""
        self._server.end_streams()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def dashboard(running: Running | RunHistory, *, port: int = 0) -> Iterator[Dashboard]:
    """Serves a page about a pipeline that runs, on this machine alone, until the end of the block.

    The page shows rows a second, the time of batches, watermark and lag, windows that are open, late, malformed and
    dropped elements, the state of each step, and the plan. It follows the run, and says when it has ended, or why it
    has failed. It needs no network, and no package.

    Args:
        running: What :meth:`~windrow_runtime.spark.SparkRunner.start` returned; or a :class:`RunHistory`, which the
            runner's ``on_progress`` fills.
        port: The port; 0: a free one, which ``url`` has.

    Yields:
        The page's server, with its ``url``.

    Raises:
        InvalidArgumentError: If the port is taken, or none.
        UnsupportedOperationError: If the pipeline makes no reports, as
            :attr:`~windrow_runtime.spark.RunningPipeline.progress`.
    """
    with history_of(running) as (history, refresh):
        served = Dashboard(history, port)
        try:
            yield served
        finally:
            # The block may have ended with the run, and the page shall show that.
            refresh()
            served.close()


def check_port(port: int) -> None:
    """Raises an ``InvalidArgumentError`` if a dashboard cannot be served on a port at the moment."""
    check_free(_LOOPBACK, port, _TAKEN)


class _Server(QuietServer):
    def __init__(self, history: RunHistory, port: int) -> None:
        self.history = history
        self.page = files(__package__).joinpath("page.html").read_bytes()
        script = re.search(rb"<script>(.*?)</script>", self.page, re.DOTALL)
        assert script is not None
        self.script_hash = base64.b64encode(hashlib.sha256(script[1]).digest()).decode()
        self.is_ending = threading.Event()
        self._streams = 0
        self._stream_ended = threading.Condition()
        with port_errors(port, _TAKEN):
            super().__init__((_LOOPBACK, port), partial(_Handler, self))

    def describe_request(self) -> str:
        return f"a request to the dashboard of pipeline {self.history.pipeline.name}"

    def open_stream(self) -> bool:
        """Returns whether one more page may be told of changes."""
        with self._stream_ended:
            if self._streams >= _MOST_STREAMS or self.is_ending.is_set():
                return False
            self._streams += 1
            return True

    def close_stream(self) -> None:
        """Takes note that a page is not told of changes any more."""
        with self._stream_ended:
            self._streams -= 1
            self._stream_ended.notify_all()

    def end_streams(self) -> None:
        """Tells all pages what there is to show last."""
        self.is_ending.set()
        self.history.change()
        with self._stream_ended:
            self._stream_ended.wait_for(lambda: self._streams == 0, _END_SECONDS)


class _Handler(QuietHandler):
    # Any: what the server gives each handler.
    def __init__(self, site: _Server, *arguments: Any) -> None:
        self._site = site
        super().__init__(*arguments)

    def do_GET(self) -> None:  # noqa: N802 - the name of the base class
        """Answers with the page, or with what it shows."""
        if not self._is_from_here():
            return
        try:
            path = urlsplit(self.path).path
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "the request names no page")
            return
        if path == "/":
            self._send("text/html; charset=utf-8", self._site.page)
        elif path == "/run.json":
            self._send("application/json", _json(self._site.history))
        elif path == "/plan.svg":
            history = self._site.history
            self._send("image/svg+xml", history.pipeline.explain(history, format="svg").encode())
        elif path == "/events":
            self._stream()
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def _is_from_here(self) -> bool:
        """Refuses requests that a page of somebody else's makes, by a name of its own for this machine or by ours."""
        host = self.headers.get("Host", "")
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            name = None
        if name not in _HOSTS:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to localhost and 127.0.0.1 alone")
            return False
        if self.path != "/" and self.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers to its own page alone")
            return False
        return True

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self._send("text/plain; charset=utf-8", f"{text}\n".encode(), status)

    def _send(self, kind: str, content: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._head(kind, status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _head(self, kind: str, status: HTTPStatus) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src 'self' data:; "
            f"style-src 'unsafe-inline'; script-src 'sha256-{self._site.script_hash}'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        }.items():
            self.send_header(name, value)

    def _stream(self) -> None:
        """Sends what there is to show at each change, as server-sent events, until the end of the server."""
        server = self._site
        if not server.open_stream():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
            return
        try:
            self._head("text/event-stream", HTTPStatus.OK)
            self.end_headers()
            version = -1
            while True:
                is_last = server.is_ending.is_set()
                following = server.history.wait(version, 0.0 if is_last else _SILENT_SECONDS)
                self.wfile.write(b"data: " + _json(server.history) + b"\n\n" if following > version else b":\n\n")
                if is_last:
                    self.wfile.write(b"event: over\ndata: {}\n\n")
                    return
                version = following
                server.is_ending.wait(_PAUSE_SECONDS)
        finally:
            server.close_stream()


def _json(history: RunHistory) -> bytes:
    return json.dumps(asdict(history.snapshot())).encode()
