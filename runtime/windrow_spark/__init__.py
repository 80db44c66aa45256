"""The Spark engine: runs a pipeline as one streaming query.

This module itself needs no package of the engine's: it names those that are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from windrow_runtime.metrics.health import Health
    from windrow_runtime.metrics.reports import Backlog, PipelineProgress, StepProgress
    from windrow_runtime.outputs.result import PipelineResult
    from windrow_spark.runner import RunningPipeline, SparkRunner

__all__ = ["Backlog", "Health", "PipelineProgress", "PipelineResult", "RunningPipeline", "SparkRunner", "StepProgress"]

_MODULES = {
    "Backlog": "windrow_runtime.metrics.reports",
    "Health": "windrow_runtime.metrics.health",
    "PipelineProgress": "windrow_runtime.metrics.reports",
    "StepProgress": "windrow_runtime.metrics.reports",
    "PipelineResult": "windrow_runtime.outputs.result",
    "RunningPipeline": "windrow_spark.run.running",
    "SparkRunner": "windrow_spark.runner",
}

PACKAGES: Final = {
    "pyspark": "pyspark",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "numpy": "numpy",
    "google.protobuf": "protobuf",
    "msgspec": "msgspec",
}
"""The modules of the extra ``spark``, with the distributions that they are in."""

_OLDEST: Final = (4, 2)


def __getattr__(name: str) -> object:
    # Modules are imported on first use: every Python worker imports this package, and none needs the runner.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "PipelineResult":
        return getattr(import_module(_MODULES[name]), name)
    with _spark_required():
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def check_installed() -> None:
    """Refuses a Python that lacks a package of the Spark engine, or has too old a PySpark."""
    with _spark_required():
        import_module("pyspark")


@contextmanager
def _spark_required() -> Iterator[None]:
    """Names the packages to install if an import of the Spark engine fails, or would fail later."""
    missing = [name for module, name in PACKAGES.items() if not _is_installed(module)]
    if missing:
        message = "packages that SparkRunner needs are not installed"
        raise _refusal("PySpark is not installed" if "pyspark" in missing else message, f"without {', '.join(missing)}")
    import pyspark

    version = getattr(pyspark, "__version__", "")
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and tuple(map(int, numbers.groups())) < _OLDEST:
        raise _refusal("this PySpark is too old", f"PySpark {version}")
    try:
        yield
    except ImportError as error:
        # A package is installed, but cannot be imported.
        if (error.name or "").partition(".")[0] not in {module.partition(".")[0] for module in PACKAGES}:
            raise
        raise _refusal("a package that SparkRunner needs cannot be imported", str(error)) from error


def _refusal(message: str, given: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(message, given=given, expected="PySpark 4.2 or newer", hint=install_hint("spark"))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
