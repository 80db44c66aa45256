"""Runs the command as ``python -m windrow_runtime.command``."""

import sys

from windrow_runtime.command.program import main

if __name__ == "__main__":
    sys.exit(main())
