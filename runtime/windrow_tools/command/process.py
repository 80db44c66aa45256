"""Prepares the process of the command: its standard streams, and what SIGTERM does."""

from __future__ import annotations

import codecs
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from windrow_tools.command.failures import ExitCode


def prepare_streams() -> None:
    """Opens standard streams that are closed, and lets stdout write what it has no characters for as JSON does.

    Python has None for a stream that was closed, as by ``2>&-``. To print on it is to print on stdout, and a file that
    is opened later would get its number.
    """
    for name in ("stdin", "stdout", "stderr"):  # in the order of their numbers: open takes the lowest free one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115  to the end

    def escaped(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return json.dumps(error.object[error.start : error.end])[1:-1], error.end

    codecs.register_error("windrow_escapes", escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="windrow_escapes")  # so that no result of a run is lost for one


class Termination:
    """Remembers whether SIGTERM has asked the process to end.

    Attributes:
        is_asked: Whether it has.
    """

    def __init__(self) -> None:
        self.is_asked = False

    @property
    def code(self) -> ExitCode:
        """The exit code of a command that was interrupted."""
        return ExitCode.TERMINATED if self.is_asked else ExitCode.INTERRUPTED

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGTERM by doing what Ctrl-C does at the moment."""
        self.is_asked = True
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # programs that a shell starts in the background may ignore Ctrl-C
            raise KeyboardInterrupt
        handler(number, frame)


@contextmanager
def terminable() -> Iterator[Termination]:
    """Lets SIGTERM interrupt the command within the block as Ctrl-C does, unless it is ignored or handled already."""
    termination = Termination()
    is_handled = signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    if is_handled or threading.current_thread() is not threading.main_thread():
        yield termination
        return
    signal.signal(signal.SIGTERM, termination.interrupt)
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
