"""Runs the command as ``python -m windrow_runtime.command``."""

import sys

from windrow_tools.command.__main__ import start

if __name__ == "__main__":
    sys.exit(start())
