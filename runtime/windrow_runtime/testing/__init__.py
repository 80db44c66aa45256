"""Harnesses to test pipelines, triggers and assigners step by step, in milliseconds, without Spark."""

from windrow_tools.testing import *  # noqa: F403  a door
from windrow_tools.testing import __all__ as __all__
