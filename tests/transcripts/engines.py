"""The engines that run transcripts, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.transcripts.engine import Engine
from tests.transcripts.local import local_engine


@contextmanager
def _local() -> Iterator[Engine]:
    yield local_engine


@contextmanager
def _spark() -> Iterator[Engine]:
    # The interpreter needs no Spark.
    from tests.transcripts.spark import started_engine

    with started_engine() as engine:
        yield engine


ENGINES: Final[dict[str, Callable[[], AbstractContextManager[Engine]]]] = {"local": _local, "spark": _spark}
