"""Finds the Java that starts Spark, without any package of the engine's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

from windrow.errors import UnsupportedOperationError

_NEEDED: Final = "Java 17 or newer"
_SECONDS: Final = 60
_INSTALL: Final = "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17"


def check_java() -> str:
    """Refuses a Java that is missing, too old, or cannot be run; returns what there is: ``Java 17, /usr/bin/java``."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        raise UnsupportedOperationError(
            "Spark needs Java, and there is none",
            given=f"JAVA_HOME={home}" if home else "no JAVA_HOME, and no java on the PATH",
            expected=_NEEDED,
            hint=_INSTALL,
        )
    try:
        process = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", check=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        # macOS has a program of this name that only says where to get one.
        message = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        raise UnsupportedOperationError(
            "Spark needs Java, and this one cannot be run",
            given=f"{java}: {message.strip() or error}",
            expected=_NEEDED,
            hint=_INSTALL,
        ) from error
    version = re.search(r'version "((\d+)[^"]*)', process.stderr)
    if version is None or int(version[2]) >= 17:
        return f"Java {version[2] if version else 'of an unknown version'}, {java}"
    raise UnsupportedOperationError(
        "Spark needs a newer Java", given=f"Java {version[1]}", expected=_NEEDED, hint=_INSTALL
    )
