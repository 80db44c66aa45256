"""How tests have Java run Spark."""

from __future__ import annotations

__all__ = ["JAVA_OPTIONS"]

JAVA_OPTIONS = " ".join(
    (
        # Short lives: what takes long is the start and what runs once, and the best compiled code never pays.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        # Hadoop starts a process for the mode of each file: without the helper between them, in two thirds of the time.
        "-Djdk.lang.Process.launchMechanism=VFORK",
        # With the first compiler alone, Java reserves 48 MiB for code, which Spark fills: it throws code away.
        "-XX:ReservedCodeCacheSize=256m",
        # The jars of Spark are those that were verified in the process before this one.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
    )
)
