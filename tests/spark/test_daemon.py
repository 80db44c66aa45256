"""The daemon that Python workers are copies of."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from windrow_spark.daemon import silent_when_closed
from windrow_spark.quiet.sitecustomize import pass_over_archive

PROGRAM = """
import os, sys, zipimport
from pathlib import Path
from windrow_spark.daemon import preload
preload()
print("a line of the protocol")
threads = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
print(*sorted(threads), sep=",", file=sys.stderr)
print("pyspark.zip" in "".join(sys.path), "pyarrow" in sys.modules, "pandas" in sys.modules, file=sys.stderr)
archives = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimport.zipimporter)]
print("archives", *[path for path in archives if path.startswith(os.environ["SPARK_HOME"])], file=sys.stderr)
if os.fork() == 0:
    import pyarrow as pa
    import pyarrow.compute as pc
    print(pc.sum(pa.array(range(1_000_000))), file=sys.stderr)
    os._exit(0)
os.wait()
"""


@pytest.mark.program
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux tells a process its threads")
def test_it_imports_what_workers_need_and_can_still_be_copied() -> None:
    import pyspark

    home = os.path.dirname(pyspark.__file__)
    archive = os.path.join(home, "python", "lib", "pyspark.zip")
    system = {**os.environ, "SPARK_HOME": home, "PYTHONPATH": os.pathsep.join([archive, *sys.path])}
    # From Python 3.12 on a process with threads is warned of its fork, in the main module alone; the daemon is none.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM]
    done = subprocess.run(command, env=system, capture_output=True, text=True, check=True)
    # Spark reads what the daemon prints.
    assert done.stdout == "a line of the protocol\n"
    threads, imported, listed, total = done.stderr.splitlines()[-4:]
    # Its own, and one of pyarrow's allocator, which looks after itself.
    assert sum(name != "jemalloc_bg_thd" for name in threads.split(",")) == 1
    assert imported == "False True True"
    # Each worker would list the files of these before its first task.
    assert listed == "archives"
    assert total == "499999500000"


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_whose_connection_was_closed_ends_silently(
    error: type[OSError], capfd: pytest.CaptureFixture[str]
) -> None:
    # Spark's loop of a worker prints each error that comes out of here, with its traceback.
    def flush(connection: socket.socket, authenticated: bool) -> int:
        raise error(32, "Broken pipe")

    with socket.socket() as connection:
        assert silent_when_closed(flush)(connection, True) == 1
    assert capfd.readouterr() == ("", "")


def test_a_worker_tells_its_other_errors() -> None:
    def fail(connection: socket.socket, authenticated: bool) -> int:
        raise FileNotFoundError

    with socket.socket() as connection, pytest.raises(FileNotFoundError):
        silent_when_closed(fail)(connection, True)


def test_spark_s_archive_gives_way_to_the_installed_package_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = os.path.join("site-packages", "pyspark", "python", "lib", "pyspark.zip")
    monkeypatch.setattr(sys, "path", [archive, "site-packages"])
    monkeypatch.setenv("SPARK_HOME", os.path.join("opt", "spark"))
    pass_over_archive()
    assert sys.path == [archive, "site-packages"]
    monkeypatch.setenv("SPARK_HOME", os.path.join("site-packages", "pyspark"))
    pass_over_archive()
    assert sys.path == ["site-packages"]
