from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import NoBrowserError, running_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(running_browser())
        except NoBrowserError as error:
            pytest.skip(str(error))
        yield running
