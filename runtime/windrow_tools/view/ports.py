"""Defines servers that answer by HTTP from threads of this process: the page about a run, and probes."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

from windrow.errors import InvalidArgumentError

_LOG: Final = logging.getLogger("windrow")


class QuietServer(ThreadingHTTPServer):
    """Answers requests in threads that end with the process, and logs errors instead of writing them to stderr."""

    daemon_threads = True

    # Any: what the base class calls a request, and an address.
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs an error."""
        _LOG.exception("%s could not be answered", self.describe_request())

    def describe_request(self) -> str:
        """Returns a few words for what the server is asked."""
        return "a request"


class QuietHandler(BaseHTTPRequestHandler):
    """Answers a request; says nothing to stderr, which is the program's, and nothing of its version of Python."""

    server_version = "windrow"
    sys_version = ""
    timeout: ClassVar[float | None] = 30.0

    def handle(self) -> None:
        with suppress(OSError):  # who has asked is gone
            super().handle()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name of the base class
        """Says nothing."""


def check_free(address: str, port: int, failure: str) -> None:
    """Raises an ``InvalidArgumentError``, which begins with ``failure``, if the port is taken at the moment."""
    with port_errors(port, failure), socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, QuietServer.allow_reuse_address)
        listening.bind((address, port))


@contextmanager
def port_errors(port: int, failure: str) -> Iterator[None]:
    """Turns errors of sockets within the block into one about the port, which begins with ``failure``."""
    try:
        yield
    except (OSError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{failure}: {error}", given=port, expected="a free port of this machine, or 0, which takes any"
        ) from error
