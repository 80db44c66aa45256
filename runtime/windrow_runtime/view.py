"""Shows a pipeline while it runs: in a terminal, in a notebook, and as a page for a browser of this machine."""

from windrow_tools.view import *  # noqa: F403  a door
from windrow_tools.view import __all__ as __all__  # noqa: PLC0414  type checkers know it so
