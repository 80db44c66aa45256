"""Hypothesis strategies for streams whose elements arrive out of order; the extra ``testing`` brings Hypothesis."""

from windrow_tools.testing.strategies import *  # noqa: F403  a door
from windrow_tools.testing.strategies import __all__ as __all__  # noqa: PLC0414  type checkers know it so
