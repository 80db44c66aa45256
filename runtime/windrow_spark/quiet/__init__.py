"""Keeps Spark's own messages off stderr in a session that a runner starts.

Stderr still shows the output of the user's program, in workers too, errors that do not end the query, and the one line
in which Java announces a module.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER: Final = Path(__file__).parent
_LOG4J: Final = _FOLDER / "log4j2.properties"
_JAVA_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
# The variables in which a user may name a configuration of log4j for the JVM.
_NAMING: Final = (_JAVA_OPTIONS, "PYSPARK_SUBMIT_ARGS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_quiet: Final[set[str]] = set()


class QuietFailure(Exception):  # noqa: N818  the WindrowError beside it is the error
    """Ends a query whose failure the runner itself raises, so that Spark and py4j need not log it."""


def quiet_session(start: Callable[[], SparkSession]) -> SparkSession:
    """Returns the session that ``start`` makes, whose log shows only errors that the runner does not raise.

    A configuration of log4j that the user has set is left in place.
    """
    # py4j logs an error of windrow's functions before Spark gets it.
    logging.getLogger("py4j.clientserver").addFilter(_is_news)
    # It logs Ctrl-C by the root logger, once for its own call and once for that of PySpark's handler.
    logging.getLogger().addFilter(_is_no_interruption)
    with _log4j_named():
        session = start()
    _quiet.add(session.sparkContext.applicationId)
    return session


def quiet_paths() -> list[str]:
    """Returns the folder in which the Python processes of a quiet session find ``sitecustomize``."""
    return [str(_FOLDER)] if _LOG4J.is_file() else []


def is_quiet(spark: SparkSession) -> bool:
    """Returns whether :func:`quiet_session` started the session."""
    context = getattr(spark, "sparkContext", None)
    return context is not None and context.applicationId in _quiet


@contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Sets an environment variable within the block, for a process that is started there."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _log4j_named() -> Iterator[None]:
    """Set windrow's configuration of log4j for a JVM that is started within the block."""
    # A package in an archive has no file to name.
    if not _LOG4J.is_file() or _has_own_log4j():
        yield
        return
    named = f'"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"'
    with variable_set(_JAVA_OPTIONS, f"{os.environ.get(_JAVA_OPTIONS, '')} {named}".strip()):
        yield


def _has_own_log4j() -> bool:
    """Returns whether the user has configured log4j, in any of the ways that Spark documents."""
    if any("log4j" in os.environ.get(name, "").lower() for name in _NAMING):
        return True
    if any(name.upper().startswith("LOG4J") for name in os.environ):
        return True
    from pyspark.find_spark_home import _find_spark_home

    folder = Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf"))
    defaults = folder / "spark-defaults.conf"
    return any(folder.glob("log4j2*")) or (
        defaults.is_file() and "log4j" in defaults.read_text(encoding="utf-8", errors="replace")
    )


def _is_news(record: logging.LogRecord) -> bool:
    """Returns whether a log record of py4j has an error that the runner does not raise."""
    return record.exc_info is None or not isinstance(record.exc_info[1], QuietFailure)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Returns False for log records in which py4j reports that Ctrl-C interrupted a call of Java."""
    if not isinstance(record.msg, str) or not record.msg.endswith("while sending command.") or record.exc_info is None:
        return True
    error = record.exc_info[1]
    # The call of PySpark's handler fails as a reentrant call, since another one waits for its answer.
    return not (interrupted_by(error) or any("reentrant call" in str(link) for link in _chain(error)))


def interrupted_by(error: BaseException | None) -> KeyboardInterrupt | None:
    """Returns the KeyboardInterrupt in the chain of an exception's causes; None if there is none."""
    return next((link for link in _chain(error) if isinstance(link, KeyboardInterrupt)), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
