"""Silences one of Spark's processes and starts it sooner; Python imports this module in each one of a quiet session.

At each start of a query Spark runs a process beside the driver that asks each stateful step for its state. The process
prints five useless messages on its standard output, the first one before it imports windrow, and Spark copies them to
stderr. So the standard output of that process is discarded; it sends its errors by a socket. Workers, and the output of
users' functions, are not changed. The process imports pyspark from the installed package, since it would compile all
modules of Spark's archive anew: that took 0.4 s of each start.
"""

from __future__ import annotations

import os
import sys

_SILENCED = "pyspark.sql.streaming.transform_with_state_driver_worker"


def _silence() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def pass_over_archive() -> None:
    """Makes Python import pyspark from the installed package instead of from Spark's archive.

    Python compiles the modules of the archive anew in each process. If Spark itself came with the installed package,
    both have the same modules.
    """
    home = os.environ.get("SPARK_HOME", "")
    if os.path.basename(home) == "pyspark" and os.path.dirname(home) in sys.path:
        archive = os.path.join(home, "python", "lib", "pyspark.zip")
        sys.path[:] = [path for path in sys.path if path != archive]


def _import_next() -> None:
    """Import the user's ``sitecustomize``, if any, which this module hides: Python imports only the first one."""
    own_folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != own_folder]
    this = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", this)


if __name__ == "sitecustomize":
    if _SILENCED in sys.orig_argv:
        _silence()
        pass_over_archive()
    _import_next()
