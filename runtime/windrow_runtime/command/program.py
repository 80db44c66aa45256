"""Parses the command line, imports the subcommand that it names, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

import windrow
from windrow_runtime.command.failures import ExitCode, show_failure

__all__ = ["COMMANDS", "main"]

COMMANDS: Final = {
    "run": "runs a pipeline, by the interpreter or on Spark",
    "explain": "shows the plan of a pipeline, and how an engine runs each step",
    "doctor": "checks what this machine needs to run pipelines on Spark",
    "new": "makes the folder of a new project, with a pipeline and its tests",
    "lateness": "measures how far the timestamps of files are out of order",
    "check-upgrade": "says whether a changed pipeline may go on from a checkpoint",
    "replay": "runs the batches of a checkpoint again by the interpreter, and compares",
}
"""What each subcommand does. It lies in the module of its name, with an underscore for a hyphen."""

_CODES: Final = """\
exit codes:
  0    all is well
  1    the run failed, or a check found something wrong
  2    the command could not begin: its arguments are wrong, or a file or a pipeline is not there or cannot be imported
  130  Ctrl-C interrupted it
"""


class Subcommand(Protocol):
    """The module of a subcommand. Its docstring describes it to users."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments of the subcommand to its parser."""
        ...

    def prepare(self, options: argparse.Namespace) -> Callable[[], int]:
        """Checks the arguments; returns the work, which returns the exit code.

        What it raises is a mistake in the arguments or in what they name; what the work raises is a failure.
        """
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with some arguments, by default those of the process; returns the exit code."""
    _escape_what_cannot_be_shown()
    given = sys.argv[1:] if arguments is None else list(arguments)
    named = next((argument for argument in given if not argument.startswith("-")), None)
    try:
        options = _parser(named).parse_args(given)
    except SystemExit as exited:  # argparse has shown the help, or what is wrong
        return exited.code if isinstance(exited.code, int) else ExitCode.NOT_BEGUN
    return _executed(_module(options.command), options)


def _escape_what_cannot_be_shown() -> None:
    """Lets stdout write characters that it does not have as JSON does, so that no result of a run is lost for one."""

    def escaped(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return json.dumps(error.object[error.start : error.end])[1:-1], error.end

    codecs.register_error("windrow_escapes", escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="windrow_escapes")


def _executed(subcommand: Subcommand, options: argparse.Namespace) -> int:
    code = ExitCode.NOT_BEGUN
    try:
        work = subcommand.prepare(options)
        code = ExitCode.FAILED
        result = work()
        sys.stdout.flush()
        return result
    except KeyboardInterrupt:
        print("windrow: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # what reads the output, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python fails once more as it ends
        return code
    except Exception as error:
        show_failure(error, with_stack=options.verbose)
        return code


def _parser(named: str | None) -> argparse.ArgumentParser:
    """Makes the parser, with the arguments of one subcommand alone, so that the modules of others are not imported."""
    parser = argparse.ArgumentParser(
        prog="windrow",
        description="Runs, explains and checks pipelines of windrow.",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"windrow {windrow.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, does in COMMANDS.items():
        if name != named:
            subparsers.add_parser(name, help=does)
            continue
        module = _module(name)
        subparser = subparsers.add_parser(
            name, help=does, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(subparser)
        subparser.add_argument("--verbose", action="store_true", help="show the stacks of errors, and Spark's messages")
    return parser


def _module(name: str) -> Subcommand:
    # The cast is one to a protocol: type checkers do not know the module.
    return cast(Subcommand, import_module(f"windrow_runtime.command.{name.replace('-', '_')}"))
