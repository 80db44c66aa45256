"""Gives the types of the fixtures for tests of pipelines."""

from windrow_tools.pytest_plugin import *  # noqa: F403  a door
from windrow_tools.pytest_plugin import __all__ as __all__  # noqa: PLC0414  type checkers know it so
