"""Draws pictures of a run: windows as in the Dataflow paper, other keyed steps with a lane for each stream."""

from windrow_tools.pictures import *  # noqa: F403  a door
from windrow_tools.pictures import __all__ as __all__  # noqa: PLC0414  type checkers know it so
