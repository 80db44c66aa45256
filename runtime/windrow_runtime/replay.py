"""Replays the batches of a run on Spark by the interpreter, and compares their results.

A checkpoint has notes of each batch: what it has read, its clock, its watermarks, and its counters. The interpreter
processes the same batches under the same times, so even results that depend on the clock or on the batches must be
equal. If they are not, one engine is wrong, or a function returns something else at each call. The command is
``windrow replay CHECKPOINT FILE:PIPELINE``. Only the last 100 batches of a run have notes, so the run may have at most
100 batches. Its sources must be collections and files of mounted file systems, which still exist.
"""

from windrow_tools.replay import *  # noqa: F403  a door
from windrow_tools.replay import __all__ as __all__  # noqa: PLC0414  type checkers know it so
