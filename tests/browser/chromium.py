"""A headless Chromium for tests of pages, driven by Playwright."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, sync_playwright

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class NoBrowserError(Exception):
    """There is no Chromium on this machine; the message says how to get one."""


def executable() -> str:
    """Returns the path of Chromium: that of the variable CHROMIUM, or the first one on PATH.

    Raises:
        NoBrowserError: If there is none.
    """
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise NoBrowserError(
            "there is no Chromium; Debian, Ubuntu: apt-get install chromium, or set CHROMIUM to its path"
        )
    return found


def fetch() -> None:
    """Installs Chromium on a machine of CI, which is root and has apt; does nothing where there is one.

    Raises:
        NoBrowserError: If there is none, and this is not such a machine, or apt cannot install it.
    """
    try:
        executable()
    except NoBrowserError:
        if not (os.environ.get("CI") and shutil.which("apt-get") and os.geteuid() == 0):
            raise
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
            done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoBrowserError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}") from None


_running: Final[list[Browser]] = []


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A Chromium that runs until the end of the block; within another block its own, as Playwright allows one."""
    path = executable()
    if _running:
        yield _running[0]
        return
    # No sandbox: root, as which CI runs, has none; the pages are this repository's.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        _running.append(browser)
        try:
            yield browser
        finally:
            _running.clear()
            browser.close()


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name of the base class
        """Says nothing: the tests look at the page."""


class QuietServer(ThreadingHTTPServer):
    """Says nothing of browsers that close a connection before they have read all, as they do with a page they leave."""

    def handle_error(self, request: Any, client_address: Any) -> None:  # Any: as the base class has them
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server on loopback that gives the files of a folder until the end of the block."""
    with QuietServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
