"""A process with a Spark session that has the connector, which runs the bodies of tests.

The session that other tests share has no connector: one of them is about that, and a session cannot get jars later.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkChild", "spark_child"]

# Any in this module: the arguments of tests.

_session: SparkSession | None = None
_stack = ExitStack()


class SparkChild:
    """Runs functions in a process with a session, one after the other."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def failure_of(self, module: str, name: str, arguments: dict[str, Any]) -> str | None:
        """Call a function of a module with its arguments and the session, as ``spark_with_connector``.

        Returns:
            The traceback of what it raised, or None.
        """
        return self._pool.submit(_failure_of, module, name, arguments).result()


@contextmanager
def spark_child(warehouse: Path, jars: Sequence[Path]) -> Iterator[SparkChild]:
    """Start such a process, and end it, and Java with it."""
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=_start, initargs=(warehouse, jars)
    ) as pool:
        yield SparkChild(pool)
        pool.submit(_stack.close).result()


def _start(warehouse: Path, jars: Sequence[Path]) -> None:
    from tests.spark.session import embedded_session

    global _session  # noqa: PLW0603  the process has one session
    _session = _stack.enter_context(embedded_session(warehouse, jars=jars))


def _failure_of(module: str, name: str, arguments: dict[str, Any]) -> str | None:
    try:
        getattr(import_module(module), name)(**arguments, spark_with_connector=_session)
    except BaseException:
        return traceback.format_exc()
    return None
