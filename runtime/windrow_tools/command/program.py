"""Parses the command line, imports the subcommand that it names, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

import windrow
from windrow_tools.command.failures import ExitCode, show_failure
from windrow_tools.command.process import Termination, prepare_streams, terminable

COMMANDS: Final = {
    "run": "runs a pipeline, by the interpreter or on Spark",
    "explain": "shows the plan of a pipeline, and how an engine runs each step",
    "doctor": "checks what this machine needs to run pipelines on Spark",
    "new": "makes the folder of a new project, with a pipeline and its tests",
    "check-upgrade": "says whether a changed pipeline may go on from a checkpoint",
    "replay": "runs the batches of a checkpoint again by the interpreter, and compares",
    "savepoint": "writes the state of a checkpoint into files of Parquet, from which another checkpoint can begin",
    "rescale": "gives a checkpoint another number of partitions",
    "upgrade": "gives a checkpoint another plan, which goes on with its state",
    "state": "shows what keys hold in a savepoint",
}
"""What each subcommand does. It lies in the module of its name, with an underscore for a hyphen."""

_CODES: Final = """\
exit codes:
  0    all is well
  1    the run failed, or a check found something wrong
  2    the command could not begin: its arguments are wrong, or a file or a pipeline is not there or cannot be imported
  130  Ctrl-C interrupted it
  143  SIGTERM, as of `kill`, did so
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
    prepare_streams()
    words = sys.argv[1:] if arguments is None else list(arguments)
    with terminable() as termination:
        return _executed(words, termination)


def _executed(words: Sequence[str], termination: Termination) -> int:
    named = next((word for word in words if not word.startswith("-")), None)
    code, is_verbose = ExitCode.NOT_BEGUN, False
    try:
        try:
            options = _parsed(named, words)
        except SystemExit as exited:  # argparse has shown the help, or what is wrong
            return exited.code if isinstance(exited.code, int) else ExitCode.NOT_BEGUN
        is_verbose = options.verbose
        work = _module(options.command).prepare(options)
        code = ExitCode.FAILED
        result = work()
        sys.stdout.flush()
        return termination.code if result == ExitCode.INTERRUPTED else result
    except KeyboardInterrupt:
        return _interrupted(termination)
    except BrokenPipeError:  # what reads the output, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python fails once more as it ends
        return code
    except Exception as error:
        if termination.is_asked and not is_verbose:  # a service manager sends the signal to Java and to workers, too
            return _interrupted(termination)
        show_failure(error, with_stack=is_verbose)
        return code


def _parsed(named: str | None, words: Sequence[str]) -> argparse.Namespace:
    """Parses the command line; where it names a pipeline, the words after ``--`` set parameters of that."""
    parser, subparser = _parser(named)
    if subparser is None or subparser.get_default("words") is None:
        return parser.parse_args(words)
    end = [*words].index("--") if "--" in words else len(words)
    options, unknown = parser.parse_known_args(words[:end])
    if unknown:
        arguments = " ".join(unknown)
        subparser.error(
            f"unrecognized arguments: {arguments}; parameters of the pipeline stand after --, as in "
            f"{subparser.prog} FILE -- {arguments}"
        )
    options.words = [*words[end + 1 :]]
    return options


def _interrupted(termination: Termination) -> int:
    print(f"windrow: {'terminated' if termination.is_asked else 'interrupted'}", file=sys.stderr)
    return termination.code


def _parser(named: str | None) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """Makes the parser, with that of one subcommand, so that the modules of others are not imported."""
    parser = argparse.ArgumentParser(
        prog="windrow",
        description="Runs, explains and checks pipelines of windrow.",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"windrow {windrow.__version__}")
    chosen = None
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, does in COMMANDS.items():
        if name != named:
            subparsers.add_parser(name, help=does)
            continue
        module = _module(name)
        chosen = subparsers.add_parser(
            name, help=does, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(chosen)
        chosen.add_argument("--verbose", action="store_true", help="show the stacks of errors, and Spark's messages")
    return parser, chosen


def _module(name: str) -> Subcommand:
    # The cast is one to a protocol: type checkers do not know the module.
    return cast(Subcommand, import_module(f"windrow_tools.command.{name.replace('-', '_')}"))
