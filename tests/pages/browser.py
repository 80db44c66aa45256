"""Shows built pages in Chromium without a window: measures them at several widths, and makes pictures of them.

Chromium loads ``measure.html``, which shows each built page in a frame and sends what it found to the server here. So
nothing but the browser is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import NamedTuple

WIDTHS = (1280, 420)
"""The widths in pixels at which pages are measured: a laptop's and a phone's."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVER = Path(__file__).parent / "measure.html"
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")


class NoBrowserError(Exception):
    """There is no Chromium, or it does not answer."""


class Finding(NamedTuple):
    """What is wrong with a page at a width."""

    page: str
    width: int
    problem: str

    def __str__(self) -> str:
        return f"{self.page} at {self.width} px: {self.problem}"


def browser() -> str:
    """Returns the program.

    Raises:
        NoBrowserError: If none is installed.
    """
    for name in BROWSERS:
        if (found := shutil.which(name)) is not None:
            return found
    raise NoBrowserError(f"none of {', '.join(BROWSERS)} is installed; Debian, Ubuntu: apt-get install chromium")


def measure(folder: Path, pages: Sequence[str], *, seconds: float = 300.0) -> list[Finding]:
    """Returns what is wrong with pages: they scroll sideways, something is wider than they are, or code is cut.

    Raises:
        NoBrowserError: If there is no browser, or it does not answer in time.
    """
    program, answers = browser(), Queue[str]()
    # Processes of the browser may write into its home until they have ended, a moment after it.
    home_of_browser = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with _served(folder, pages, answers) as address, home_of_browser as home:
        command = [program, *OPTIONS, f"--user-data-dir={home}", "--window-size=1400,1000", f"{address}/-/measure.html"]
        quiet = subprocess.DEVNULL
        shown = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            answer = answers.get(timeout=seconds)
        except Empty:
            raise NoBrowserError(f"{program} has not shown the pages within {seconds:g} seconds") from None
        finally:
            os.killpg(shown.pid, signal.SIGKILL)
            shown.wait()
    return [Finding(each["page"], each["width"], each["problem"]) for each in json.loads(answer)]


@contextmanager
def _served(folder: Path, pages: Sequence[str], answers: Queue[str]) -> Iterator[str]:
    """Serves a folder, with the driver beside it, and puts what the driver sends into a queue."""

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/-/measure.html":
                self._answer(DRIVER.read_bytes(), "text/html; charset=utf-8")
            elif self.path == "/-/pages.json":
                self._answer(json.dumps({"pages": [*pages], "widths": WIDTHS}).encode(), "application/json")
            else:
                super().do_GET()

        def do_POST(self) -> None:
            answers.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._answer(b"", "text/plain")

        def _answer(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            """Says nothing of requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def photograph(folder: Path, pages: Sequence[str], into: Path, *, height: int = 1000) -> list[Path]:
    """Makes a picture of the top of each page at each width, light and dark, and returns the files.

    Raises:
        NoBrowserError: If there is no browser, or it makes no picture.
    """
    program = browser()
    into.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for page in pages:
        for width in WIDTHS:
            for name, dark in (("light", ()), ("dark", ("--force-dark-mode",))):
                file = into / f"{page.removesuffix('.html').replace('/', '-')}-{width}-{name}.png"
                size = (f"--window-size={width},{height}", f"--screenshot={file.resolve()}")
                command = [program, *OPTIONS, *dark, *size, (folder / page).resolve().as_uri()]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
                if not file.exists():
                    raise NoBrowserError(f"{program} made no picture of {page}: {done.stderr[-500:]}")
                files.append(file)
    return files
