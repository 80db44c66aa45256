"""Runs the command, by the script ``windrow`` or as ``python -m windrow_runtime.command``."""

import sys


def start() -> int:
    """Runs the command with the arguments of the process; returns the exit code.

    The command is imported here, so that Ctrl-C ends it without a stack meanwhile, too.
    """
    try:
        from windrow_runtime.command.program import main

        return main()
    except KeyboardInterrupt:
        print("windrow: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(start())
