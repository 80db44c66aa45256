"""The server of the page: what it answers, to whom, and what it tells at the end."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import socket
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from tests.view.recorded import RecordedRun, clicks_pipeline
from windrow.errors import EngineError, InvalidArgumentError
from windrow_runtime.view import Dashboard, RunHistory, dashboard


def ask(served: Dashboard, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """A request of a browser of this machine; underscores in names of headers stand for hyphens."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), content


# Any: a document of JSON has values of all types.
def events(served: Dashboard, connection: socket.socket) -> Iterator[tuple[str, dict[str, object]]]:
    """The kinds and the data of the events that a page is told, until the server ends them."""
    connection.sendall(f"GET /events HTTP/1.1\r\nHost: localhost:{served.port}\r\n\r\n".encode())
    with connection.makefile() as lines:
        kind = "message"
        for line in lines:
            if line.startswith("event: "):
                kind = line[7:].strip()
            elif line.startswith("data: "):
                yield kind, json.loads(line[6:])


@pytest.fixture
def run() -> RecordedRun:
    run = RecordedRun(clicks_pipeline())
    run.report(0, late=1)
    return run


@pytest.fixture
def served(run: RecordedRun) -> Iterator[Dashboard]:
    with dashboard(run) as served:
        yield served


@pytest.fixture
def connection(served: Dashboard) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        yield connection


def test_the_page_needs_no_other_file(served: Dashboard) -> None:
    status, headers, page = ask(served, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    text = page.decode()
    assert re.findall(r"""(?:src|href)=["'](?!plan\.svg|data:,)""", text) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    policy = headers["Content-Security-Policy"]
    assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; connect-src 'self'")


def test_what_the_page_shows_is_json_and_the_plan_a_picture(served: Dashboard) -> None:
    _, headers, document = ask(served, "/run.json")
    _, _, plan = ask(served, "/plan.svg")
    missing, _, _ = ask(served, "/../page.html")
    shown = json.loads(document)
    assert (shown["pipeline"], shown["state"], shown["batch"], shown["late"]) == ("clicks", "running", 0, 3)
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers
    assert ElementTree.fromstring(plan).tag == "{http://www.w3.org/2000/svg}svg"
    assert b"on columns" in plan
    assert missing == 404


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:8000", "[::1]:8000", "LOCALHOST"])
def test_names_of_this_machine_are_answered(served: Dashboard, host: str) -> None:
    assert ask(served, "/run.json", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "", "[", "10.0.0.1"]
)
@pytest.mark.parametrize("path", ["/", "/run.json", "/events", "/plan.svg"])
def test_other_names_are_refused(served: Dashboard, host: str, path: str) -> None:
    status, _, content = ask(served, path, Host=host)
    assert status == 421
    assert content == b"this server answers to localhost and 127.0.0.1 alone\n"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_are_refused(served: Dashboard, site: str) -> None:
    assert ask(served, "/events", Sec_Fetch_Site=site)[0] == 403
    assert ask(served, "/run.json", Sec_Fetch_Site=site)[0] == 403
    assert ask(served, "/", Sec_Fetch_Site=site)[0] == 200  # a link leads to it
    assert ask(served, "/run.json", Sec_Fetch_Site="same-origin")[0] == 200


def test_nothing_but_reading_is_answered(served: Dashboard) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("POST", "/", body="x")
    assert connection.getresponse().status == 501
    connection.close()


def test_only_this_machine_is_served(served: Dashboard) -> None:
    assert served.url == f"http://127.0.0.1:{served.port}/"
    assert served._server.server_address == ("127.0.0.1", served.port)


def test_pages_are_told_of_each_change_and_of_the_end(
    run: RecordedRun, served: Dashboard, connection: socket.socket
) -> None:
    told = events(served, connection)
    assert next(told)[1]["batch"] == 0
    run.report(1)
    assert next(told)[1]["batch"] == 1
    run.end()
    assert next(told)[1]["state"] == "ended"


def test_an_end_that_ends_the_block_is_told_too(run: RecordedRun) -> None:
    with socket.socket() as connection:
        connection.settimeout(60)
        with dashboard(run) as served:
            connection.connect(("127.0.0.1", served.port))
            told = events(served, connection)
            next(told)
            run.end(EngineError("Spark gave up", given="<script>alert(1)</script>"))
        *changes, over = told
    assert (changes[-1][1]["state"], over) == ("failed", ("over", {}))
    assert "<script>alert(1)</script>" in str(changes[-1][1]["error"])


@pytest.mark.parametrize("target", ["http://[", "//[x]/", "*", "http://[::1", "/%zz", "\x7f"])
def test_a_target_that_names_no_page_is_answered(
    connection: socket.socket, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    answer = connection.makefile("rb").read()
    assert answer.split()[1] in {b"400", b"404"}
    assert caplog.text == ""


def test_the_server_is_gone_after_the_block(run: RecordedRun) -> None:
    with dashboard(run) as served:
        ask(served, "/")
    with pytest.raises(ConnectionRefusedError):
        ask(served, "/")


def test_a_history_is_served_without_a_running_pipeline(run: RecordedRun) -> None:
    history = RunHistory(run.pipeline)
    with dashboard(history) as served:
        history.add(run.recent_progress[0])
        assert json.loads(ask(served, "/run.json")[2])["batch"] == 0


def test_more_pages_than_the_server_has_threads_for_are_refused(served: Dashboard) -> None:
    connections = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(16)]
    for connection in connections:
        next(events(served, connection))
    assert ask(served, "/events")[0] == 503
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("port", [-1, 70_000])
def test_no_port_is_an_error(run: RecordedRun, port: int) -> None:
    with pytest.raises(InvalidArgumentError, match="no page can be served on this port"), dashboard(run, port=port):
        pass


def test_a_port_that_is_taken_is_an_error(run: RecordedRun, served: Dashboard) -> None:
    with pytest.raises(InvalidArgumentError, match="in use"), dashboard(run, port=served.port):
        pass
