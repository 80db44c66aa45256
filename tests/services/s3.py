"""A server that speaks S3's protocol and keeps objects in memory, and the jars of Hadoop's client to it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tests.services.cache import cache_folder
from tests.services.errors import NoServiceError
from tests.services.jars import Jars
from tests.services.server import LOOPBACK, Server, free_ports, new_folder, running_server, start_server

__all__ = ["BUCKET", "CONNECTOR", "running", "settings"]

BUCKET: Final = "windrow-tests"
"""The bucket that a server has from its start."""

_NAME: Final = "s3"
# moto[server] brings twice as many packages, for other services than S3. They lie in the cache and not in the
# environment, whose versions of other packages they would narrow.
_PACKAGES: Final = ("moto[s3]==5.2.5", "boto3==1.44.8", "flask==3.1.3", "flask-cors==6.0.5", "werkzeug==3.1.9")
_SECONDS: Final = 240
_PROGRAM: Final = "import sys; from moto.server import main; main(sys.argv[2:])"


@dataclass(frozen=True)
class _Connector:
    """Hadoop's client, and the parts of the SDK that it needs: 18 MB, of which the whole SDK has 659."""

    client = Jars(
        "client of S3",
        ("org.apache.hadoop:hadoop-aws:3.5.0", "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1"),
        with_dependencies=False,
    )
    kit = Jars(
        "client of S3",
        (
            "software.amazon.awssdk:s3:2.35.4",
            "software.amazon.awssdk:s3-transfer-manager:2.35.4",
            "software.amazon.awssdk:sts:2.35.4",
        ),
    )

    def fetch(self) -> list[Path]:
        """Fetch the jars unless they are in the cache; see :meth:`Jars.fetch`."""
        return [*self.client.fetch(), *self.kit.fetch()]


CONNECTOR: Final = _Connector()
"""What a session needs in ``spark.jars`` to open ``s3a://``."""


def settings(address: str) -> dict[str, str]:
    """What a session needs besides, to find the server at an address."""
    return {
        "spark.hadoop.fs.s3a.endpoint": f"http://{address}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "anyone",
        "spark.hadoop.fs.s3a.secret.key": "anything",
    }


def _packages() -> Path:
    """The folder of the server's packages, which pip fetches once.

    Raises:
        NoServiceError: If pip fails, such as without a network.
    """
    mark = blake2b(repr((_PACKAGES, sys.version_info[:2])).encode(), digest_size=4).hexdigest()
    folder = cache_folder() / f"moto-{mark}"
    if folder.exists():
        return folder
    cache_folder().mkdir(parents=True, exist_ok=True)
    # Another process may do the same, so that the folder gets its name when it is whole.
    with tempfile.TemporaryDirectory(dir=cache_folder()) as name:
        target = Path(name) / "packages"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), *_PACKAGES]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise NoServiceError(f"no S3: pip took more than {_SECONDS} seconds") from None
        if done.returncode != 0:
            raise NoServiceError(f"no S3: pip cannot fetch moto: {done.stderr.strip()[-300:]}")
        try:
            target.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


def launch(*, outlives: bool = False, host: str = LOOPBACK) -> Server:
    """Start one in a new folder of its own, and wait until it answers at a host; see :func:`start_server`."""
    packages = _packages()
    with new_folder(_NAME) as folder:
        (port,) = free_ports(1)
        path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
        command = ["env", f"PYTHONPATH={path}", sys.executable, "-c", _PROGRAM]
        return start_server(
            _NAME,
            [*command, str(folder), "-H", host, "-p", str(port)],
            folder,
            address=f"{host}:{port}",
            answers=lambda: _makes_bucket(host, port),
            outlives=outlives,
        )


def _makes_bucket(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("PUT", f"/{BUCKET}")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def running() -> Iterator[Server]:
    """The server that ``python -m tests.services s3 start`` has started, or a new one until the end.

    Raises:
        NoServiceError: If its packages cannot be fetched.
    """
    with running_server(_NAME, launch) as server:
        yield server


def fetch() -> None:
    """Bring the packages and the jars into the cache."""
    _packages()
    CONNECTOR.fetch()
