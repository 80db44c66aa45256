"""How tests have Java run Spark."""

from __future__ import annotations

__all__ = ["JAVA_OPTIONS"]

# Short lives: what takes long is the start and what runs once, and the best compiled code never pays.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
