"""Runs the command, by the script ``windrow`` or as ``python -m windrow_tools.command``."""

import sys


def start() -> int:
    """Runs the command with the arguments of the process; returns the exit code.

    The command is imported here, so that Ctrl-C ends it without a stack meanwhile, too.
    """
    try:
        from windrow_tools.command.program import main

        return main()
    except KeyboardInterrupt:
        print("windrow: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(start())
