"""Tells the user's modules from those of Python, of windrow, of libraries that windrow builds on, and of others."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Final

from windrow.distribution import PACKAGES

_ENGINES: Final = frozenset(
    {"cloudpickle", "msgspec", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "typing_extensions"}
)
_STANDARD: Final = frozenset(sys.stdlib_module_names) - {"__main__"}


def top_package(module: str) -> str:
    """Returns the top-level package of a module."""
    return module.partition(".")[0]


def is_standard(module: str) -> bool:
    """Returns whether a module is of the standard library."""
    return top_package(module) in _STANDARD


def is_of_windrow(module: str) -> bool:
    """Returns whether a module is of windrow."""
    return top_package(module) in PACKAGES


def is_of_runtime(module: str) -> bool:
    """Returns whether a module is of the packages that run pipelines."""
    return top_package(module) in PACKAGES[1:]


def is_library(module: str | None) -> bool:
    """Returns whether a module belongs to the standard library, to windrow, or to a library that windrow builds on."""
    module = module or "builtins"
    return is_standard(module) or is_of_windrow(module) or top_package(module) in _ENGINES


@lru_cache(maxsize=1024)
def is_installed(package: str) -> bool:
    """Returns whether a package was installed, and is not part of the user's program."""
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def is_foreign(class_: type) -> bool:
    """Returns whether a class is neither the user's nor windrow's own."""
    module = class_.__module__
    return not is_of_windrow(module) and (is_library(module) or is_installed(top_package(module)))
