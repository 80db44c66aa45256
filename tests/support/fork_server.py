"""Forks the Python processes that Spark starts for each query, from one process that has their modules imported.

Spark starts a Python process for each source of each query, and for each step with state. Such a process takes some
0.7 s of processor time to import pandas, pyarrow and pyspark. `forked_python` makes a program that Spark takes for
Python: where the session says so, it has the server fork a process with its arguments, its environment and its standard
streams, and waits for its end. Anything else it leaves to Python. Tests marked `program` start
Spark's own processes, as users do: the first of tests/command/test_run_on_spark.py is one.
"""

from __future__ import annotations

import ast
import os
import runpy
import select
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Final

__all__ = ["ADDRESS_VARIABLE", "forked_python"]

ADDRESS_VARIABLE: Final = "WINDROW_FORK_SERVER"
"""Names the server to a process that shall be forked; Spark sets it for its Python processes."""

_MODULES: Final = (
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.datasource_internal",
    "windrow_spark.sources.ranges",
)
# Without the modules of a library, it starts in some milliseconds.
_PROGRAM: Final = """#!{python} -IS
import os, socket, sys
address, arguments = os.environ.get("{variable}"), sys.argv[1:]
if address and arguments[:1] == ["-m"] and arguments[1].startswith("pyspark."):
    request = repr((arguments[1:], dict(os.environ), os.getcwd())).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(request)
    status = connection.recv(1)
    os._exit(status[0] if status else 137)
os.execv("{python}", ["{python}", *arguments])
"""


@contextmanager
def forked_python(folder: Path) -> Iterator[tuple[str, str]]:
    """Run a server, and yield the program that Spark shall take for Python, and the address of the server."""
    address, program = folder / "socket", folder / "python"
    program.write_text(_PROGRAM.format(python=sys.executable, variable=ADDRESS_VARIABLE))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(128)
        # Requests that come before it has imported its modules wait for it.
        server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            cwd=Path(__file__).parents[2],
        )
    with server:  # which ends by itself if this process dies, and with it its standard input
        try:
            yield str(program), str(address)
        finally:
            server.kill()


def _serve(listener: socket.socket) -> None:
    from windrow_spark.daemon import preload

    paths = set(os.environ.get("PYTHONPATH", "").split(os.pathsep)) | {os.getcwd(), ""}
    library = [path for path in sys.path if path not in paths]
    for module in _MODULES:
        with suppress(ImportError):
            import_module(module)
    preload()
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _become(connection, library)
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _become(connection: socket.socket, library: list[str]) -> None:
    """Become the process that a program asks for."""
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as request:
        arguments, environment, folder = ast.literal_eval(request.read(int.from_bytes(size, "big")).decode())
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(folder)
    _change_environment(environment)
    sys.path[:] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *library]
    sys.argv, sys.orig_argv = list(arguments), [sys.executable, "-m", *arguments]
    if arguments[0] != "pyspark.daemon":  # it forks, and ends when Spark closes its standard input
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    status = 1
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            connection.send(bytes([status & 255]))
        os._exit(status)


def _change_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _end_with(connection: socket.socket) -> None:
    """End this process when the program that stands for it has ended: Spark has killed that one."""
    with suppress(OSError):
        connection.recv(1)
    os._exit(143)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
