"""The folder that tests give to Java as Spark's home, and the archive of the classes that Java loads from there.

``python -m tests.spark_home`` makes the archive, in some twenty seconds, if it is missing; ``make test`` does so. Tests
run without it, too: each Java that they start then takes four seconds more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from tests.java import JAVA_OPTIONS

__all__ = ["home_to_write_in", "home_without_zip", "make_class_archive", "options_with_classes"]

_CACHE = Path(__file__).parents[1] / ".spark_cache"
_PROGRAM = """
import tempfile
from datetime import timedelta
from pathlib import Path

from tests.spark.session import embedded_session
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

with tempfile.TemporaryDirectory() as folder, embedded_session(Path(folder)) as session:
    stamped = from_collection([("a", 1), ("b", 2)]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda pair: pair[1]
    )
    windows = stamped.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    SparkRunner(session).run(Pipeline("classes", windows.reduce(lambda one, other: one).sink_to(CollectSink())))
    java = session.sparkContext._gateway.proc
java.stdin.close()
java.wait()  # it writes the archive
"""


@cache
def home_without_zip() -> str | None:
    """Make a folder that links to the commands and the jars of the installed Spark, and not to its `pyspark.zip`.

    Spark starts a Python process of its own for each query, for each source that is written in Python and for each
    error that it looks up. They take pyspark from the zip file in its home, whose modules Python compiles anew in each
    process, which takes a second. Without that file they take the installed package, which is the same.

    Returns:
        The folder, which is kept; None if pyspark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    installed = Path(spec.origin).parent
    folder = _CACHE / _name_for([str(installed), sys.version])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        if not (folder / name).exists():
            # Another process may do the same.
            link = Path(tempfile.mkdtemp(dir=_CACHE)) / name
            link.symlink_to(installed / name)
            link.rename(folder / name)
            link.parent.rmdir()
    return str(folder)


def home_to_write_in(folder: Path) -> str:
    """Make a folder that links to the same, for masters such as `local-cluster`, which write into Spark's home."""
    home = home_without_zip()
    assert home is not None, "pyspark is not installed"
    folder.mkdir()
    for entry in Path(home).iterdir():
        (folder / entry.name).symlink_to(entry)
    return str(folder)


def options_with_classes() -> str:
    """The options with which tests start Java; the archive of classes is among them if it is there."""
    archive = _class_archive()
    if archive is None or not archive.exists():
        return JAVA_OPTIONS
    # Java goes on without an archive that it cannot use, and must not write of it between the lines of a test.
    return f"{JAVA_OPTIONS} -XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr"


def make_class_archive() -> None:
    """Run a small pipeline, and have Java write the classes that it has loaded by then, if the archive is missing."""
    home, archive = home_without_zip(), _class_archive()
    if home is None or archive is None or archive.exists():
        return
    print("making an archive of Spark's classes", flush=True)
    unfinished = archive.with_suffix(f".{os.getpid()}")
    options = f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": options, "SPARK_HOME": home}
    run = subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=False)
    if run.returncode or not unfinished.exists():
        print(f"there is none, and tests take longer: {run.stderr[-1000:]}", file=sys.stderr)
        return
    unfinished.rename(archive)


def _class_archive() -> Path | None:
    """The archive for this Java and this Spark; None: one of them is missing."""
    home, java = home_without_zip(), shutil.which(os.path.join(os.environ.get("JAVA_HOME", ""), "bin", "java"))
    java = java or shutil.which("java")
    if home is None or java is None:
        return None
    program = os.path.realpath(java)
    stamps = [str(os.stat(path).st_mtime_ns) for path in (program, os.path.join(home, "jars"))]
    return Path(home).with_name(f"classes-{_name_for([home, program, *stamps])}.jsa")


def _name_for(texts: Iterable[str]) -> str:
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


if __name__ == "__main__":
    make_class_archive()
