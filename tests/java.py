"""How tests have Java run Spark."""

from __future__ import annotations

__all__ = ["JAVA_OPTIONS"]

JAVA_OPTIONS = " ".join(
    (
        # Short lives: what takes long is the start and what runs once, and the best compiled code never pays.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        # Java would collect all garbage four times while it loads Spark: it begins with room for few classes.
        "-XX:MetaspaceSize=256m",
        # Hadoop runs `chmod` for each file that it makes. Without its helper Java starts it in 1.0 ms instead of 1.6.
        "-Djdk.lang.Process.launchMechanism=VFORK",
        # With its first compiler alone Java keeps 48 MiB of compiled code; Spark needs more, and Java throws some away.
        "-XX:ReservedCodeCacheSize=256m",
        # Java would verify the classes of Spark, which never change, in each of two dozen processes.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
    )
)
