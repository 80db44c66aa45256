"""Where and when a benchmark ran."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from windrow.distribution import DISTRIBUTION

__all__ = ["Environment", "environment"]

_PACKAGES = (DISTRIBUTION, "pyspark", "pyarrow", "pandas", "numpy", "msgspec")


@dataclass(frozen=True, slots=True)
class Environment:
    """Where and when.

    Attributes:
        date: When the run began, UTC.
        cores: The processor cores of the machine.
        load: The load average of the last minute when the run began. Figures from a busy machine are low.
        processor: What the machine says of its processor.
        python: The version of Python.
        packages: The versions of what matters.
        revision: The commit of the sources, with ``-dirty`` where files differ from it.
    """

    date: str
    cores: int
    load: float
    processor: str
    python: str
    packages: dict[str, str]
    revision: str

    @property
    def is_busy(self) -> bool:
        """Whether something else was running."""
        return self.load > 0.5

    def text(self) -> str:
        """In two lines, or three if the machine was busy."""
        versions = ", ".join(f"{name} {version}" for name, version in self.packages.items())
        lines = [
            f"{self.date}, {self.cores} cores, {self.processor}, load {self.load} before the run",
            f"Python {self.python}, {versions}, revision {self.revision}",
        ]
        if self.is_busy:
            lines.append("The machine was busy before the run: neither figures nor ratios can be relied on.")
        return "\n".join(lines)


def environment() -> Environment:
    """The present environment."""
    packages: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            packages[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return Environment(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        cores=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 2),
        processor=_processor(),
        python=platform.python_version(),
        packages=packages,
        revision=_revision(),
    )


def _revision() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
