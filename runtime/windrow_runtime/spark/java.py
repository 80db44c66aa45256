"""Finds the Java that starts Spark, without any package of the engine's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

from windrow.errors import UnsupportedOperationError

_NEEDED: Final = "Java 17 or newer"
_INSTALL: Final = "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17"


def check_java() -> str:
    """Refuses a missing Java and one that is too old; returns what there is, such as ``Java 17, /usr/bin/java``."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        raise UnsupportedOperationError(
            "Spark needs Java, and there is none",
            given=f"JAVA_HOME={home}" if home else None,
            expected=_NEEDED,
            hint=_INSTALL,
        )
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) >= 17:
        return f"Java {version[1] if version else 'of an unknown version'}, {java}"
    raise UnsupportedOperationError(
        "Spark needs a newer Java", given=f"Java {version[1]}", expected=_NEEDED, hint=_INSTALL
    )
