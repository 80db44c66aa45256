from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.outputs.postgres import NoServerError, running_server
from tests.services import hdfs as hdfs_service
from tests.services import s3 as s3_service
from tests.services.errors import NoServiceError
from tests.services.kafka import running_kafka


@pytest.fixture(scope="session")
def postgres() -> Iterator[Path]:
    """The folder of the socket of a PostgreSQL server that runs for these tests alone."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(running_server())
        except NoServerError as error:
            pytest.skip(str(error))
        yield folder


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """Where a Kafka broker answers; it runs for these tests alone unless one was started by hand."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_kafka())
        except NoServiceError as error:
            pytest.skip(str(error))
        yield server.address


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Where a server of S3's protocol answers; it runs for these tests alone unless one was started by hand."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(s3_service.running())
            s3_service.CONNECTOR.fetch()
        except NoServiceError as error:
            pytest.skip(str(error))
        yield server.address


@pytest.fixture(scope="session")
def hdfs() -> Iterator[str]:
    """Where an HDFS of one node answers; it runs for these tests alone unless one was started by hand."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(hdfs_service.running())
        except NoServiceError as error:
            pytest.skip(str(error))
        yield server.address
