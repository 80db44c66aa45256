"""A schema registry in this process, with as much of Confluent's protocol as serializers use."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.services.certificates import Certificates
from tests.services.server import LOOPBACK

__all__ = ["Registry", "running_registry"]

# Any in this module: JSON.


@dataclass
class Registry:
    """What the registry knows.

    Attributes:
        address: What its clients are told.
        schemas: The schemas, by their ids.
        subjects: The ids of the schemas of each subject, in the order of their versions.
        asked: The requests, as method and path.
    """

    address: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Add a schema to a subject unless it is there; returns its id."""
        number = next((each for each, other in self.schemas.items() if other == schema), len(self.schemas) + 1)
        self.schemas[number] = schema
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the body of an answer."""
        match (method, *map(unquote, path.strip("/").split("/"))):
            case ("GET", "schemas", "ids", number):
                found = self.schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ("POST", "subjects", subject, "versions"):
                return 200, {"id": self.register(subject, _known(body))}
            case ("POST", "subjects", subject):
                numbers = [each for each in self.subjects.get(subject, ()) if self.schemas[each] == _known(body)]
                return (200, self._version(subject, numbers[0])) if numbers else (404, {"error_code": 40403})
            case ("GET", "subjects", subject, "versions", version):
                numbers = self.subjects.get(subject, [])
                if not numbers:
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                return 200, self._version(subject, numbers[-1 if version == "latest" else int(version) - 1])
        return 404, {"error_code": 404, "message": f"{method} {path}"}

    def _version(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "id": number, "version": version, **self.schemas[number]}


def _known(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}


@contextmanager
def running_registry(certificates: Certificates | None = None, login: str | None = None) -> Iterator[Registry]:
    """Answer until the end: by TLS with ``certificates``, and only who logs in by the ``login``, ``user:password``."""
    registry = Registry()
    expected = None if login is None else f"Basic {base64.b64encode(login.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, Any]) -> None:
            path = urlsplit(self.path).path
            registry.asked.append(f"{self.command} {path}")
            if expected is None or self.headers.get("Authorization") == expected:
                status, found = registry.answer(self.command, path, body)
            else:
                status, found = 401, {"error_code": 40101, "message": "Unauthorized"}
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its base class' name
            pass

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        if certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates.server)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        registry.address = f"http{'' if certificates is None else 's'}://{LOOPBACK}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
