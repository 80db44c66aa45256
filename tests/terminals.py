"""Runs a program in a terminal, and keeps what its user sees."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyte

ROWS, COLUMNS = 24, 120


@dataclass(frozen=True)
class Seen:
    """What the user of a program saw: each state of the screen, its last state, what is on stdout, the exit code."""

    screens: list[list[str]]
    output: str
    code: int

    @property
    def last(self) -> list[str]:
        return self.screens[-1]


def seen_of(folder: Path, *arguments: str) -> Seen:
    """Runs Python with some arguments, with a terminal as stderr and a pipe as stdout."""
    screen_side, program_side = os.openpty()
    fcntl.ioctl(program_side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    states: list[list[str]] = []
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        stdin=program_side,
        stdout=subprocess.PIPE,
        stderr=program_side,
        text=True,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)},
    )
    os.close(program_side)
    try:
        while written := _read(screen_side):
            stream.feed(written)
            state = _rows(screen)
            if not states or state != states[-1]:
                states.append(state)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        os.close(screen_side)
    return Seen(states or [[""] * ROWS], output, process.returncode)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # on Linux: all processes that had the terminal have ended
        return b""


def _rows(screen: pyte.Screen) -> list[str]:
    rows: Sequence[str] = screen.display
    return [row.rstrip() for row in rows]
