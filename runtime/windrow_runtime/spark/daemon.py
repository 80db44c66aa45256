"""Runs the daemon of Python workers, for sessions whose ``spark.python.daemon.module`` names this module."""

from windrow_spark.daemon import DAEMON_MODULE, run

__all__ = ["DAEMON_MODULE", "run"]

if __name__ == "__main__":
    run()
