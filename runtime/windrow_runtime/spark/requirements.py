"""Checks that the packages of the Spark engine are installed. This module itself needs none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError

_PACKAGES: Final = {
    "pyspark": "pyspark",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "numpy": "numpy",
    "google.protobuf": "protobuf",
    "msgspec": "msgspec",
}
"""The modules of the extra ``spark``, with the distributions that they are in."""

_OLDEST: Final = (4, 1)


@contextmanager
def spark_required() -> Iterator[None]:
    """Names the packages to install if an import of the Spark engine fails, or would fail later.

    Raises:
        UnsupportedOperationError: If a package of the extra ``spark`` is missing, or PySpark is too old.
    """
    missing = [name for module, name in _PACKAGES.items() if not _is_installed(module)]
    if missing:
        message = "packages that SparkRunner needs are not installed"
        raise _refusal("PySpark is not installed" if "pyspark" in missing else message, f"without {', '.join(missing)}")
    import pyspark

    version = getattr(pyspark, "__version__", "")
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and tuple(map(int, found.groups())) < _OLDEST:
        raise _refusal("this PySpark is too old", f"PySpark {version}")
    try:
        yield
    except ImportError as error:
        # A package is installed, but cannot be imported.
        if (error.name or "").partition(".")[0] not in {module.partition(".")[0] for module in _PACKAGES}:
            raise
        raise _refusal("a package that SparkRunner needs cannot be imported", str(error)) from error


def _refusal(message: str, given: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(message, given=given, expected="PySpark 4.1 or newer", hint=install_hint("spark"))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
