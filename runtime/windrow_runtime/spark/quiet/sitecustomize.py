"""Silences one of Spark's processes and starts it sooner; Python imports this module in each one of a quiet session.

At each start of a query Spark runs a process beside the driver that asks each stateful step for its state. The process
prints five messages of no use to a user on its standard output, the first one before it reads anything of windrow's,
and Spark copies them to stderr. So that process alone gets a standard output that leads nowhere; its errors travel on a
socket. Workers, and what the user's functions print there, are left as they are. The process imports pyspark from the
installed package, since it would compile all modules of Spark's archive anew: that took 0.4 s of each start.
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
    """Has Python import pyspark from the installed package.

    Spark has its processes take it from an archive, whose modules Python compiles anew in each process. If Spark
    itself came with the installed package, both hold the same.
    """
    home = os.environ.get("SPARK_HOME", "")
    if os.path.basename(home) == "pyspark" and os.path.dirname(home) in sys.path:
        archive = os.path.join(home, "python", "lib", "pyspark.zip")
        sys.path[:] = [path for path in sys.path if path != archive]


def _import_next() -> None:
    """Import the ``sitecustomize`` that this module hides: Python imports only the first one that it finds."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
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
