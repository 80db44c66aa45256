from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.outputs.postgres import NoServerError, running_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Path]:
    """The folder of the socket of a PostgreSQL server that runs for these tests alone."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(running_server())
        except NoServerError as error:
            pytest.skip(str(error))
        yield folder
