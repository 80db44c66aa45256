"""Files on S3 or HDFS, which the program that kills a pipeline sees by HTTP alone, with no client of Hadoop's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from getpass import getuser
from html import unescape
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tests.services import hdfs, s3

__all__ = ["SYSTEMS", "Elsewhere", "Here", "Url"]

SYSTEMS = ("s3", "hdfs")
"""Where a pipeline may have its files, besides a mounted file system."""


# The server of S3's protocol takes any signature, and HDFS none.
_SIGNED = "AWS4-HMAC-SHA256 Credential=anyone/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=any"


_TRIES = 5


class Url(os.PathLike[str]):
    """The URL of a folder, which is put together as a path is."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __fspath__(self) -> str:
        return self._url

    def __truediv__(self, name: str) -> Url:
        return Url(f"{self._url}/{name}")


class Here:
    """A folder of this machine, where all files of a pipeline are already."""

    submit_arguments = "pyspark-shell"

    def __init__(self, url: str) -> None:
        self.url = url

    def shown(self, folder: str) -> dict[str, str]:
        """The files in the folders of a folder that readers do not pass over, with a mark of each."""
        found: dict[str, str] = {}
        for top in Path(self.url, folder).glob("*/"):
            for below, inside, files in os.walk(top):
                inside[:] = filter(_is_shown, inside)
                for name in filter(_is_shown, files):
                    path = Path(below, name)
                    with suppress(FileNotFoundError):  # its mark will be missed
                        status = path.stat()
                        found[str(path.relative_to(self.url))] = f"{status.st_ino} {status.st_mtime_ns}"
        return found

    def read(self, path: str) -> bytes:
        """What a file has."""
        return Path(self.url, path).read_bytes()

    def put(self, folder: Path, name: str) -> None:
        """Does nothing, as do the others."""

    def fetch(self, folder: Path, *names: str) -> None: ...

    def put_log(self, folder: Path, log: Path | None) -> None: ...

    def delete(self, path: str) -> None: ...


@dataclass
class Elsewhere(Here):
    """A folder on S3 or HDFS, with a copy of some of its files in a folder here.

    Attributes:
        url: The folder, for Spark.
        web: The same by HTTP.
        submit_arguments: What makes a session find it.
    """

    url: str
    web: str
    submit_arguments: str
    is_s3: bool = False
    _known: dict[str, str] = field(default_factory=dict)

    @staticmethod
    @contextmanager
    def opened(system: str, name: str) -> Iterator[Elsewhere]:
        """A new folder, on the server that runs, or on one that runs until the end."""
        if system == "hdfs":
            with hdfs.running() as server:
                web = f"http://{hdfs.web_address(server)}/webhdfs/v1/{name}"
                yield Elsewhere(f"hdfs://{server.address}/{name}", web, "pyspark-shell")
            return
        with s3.running() as server:
            jars = ",".join(map(str, s3.CONNECTOR.fetch()))
            settings = " ".join(f"--conf {key}={value}" for key, value in s3.settings(server.address).items())
            web, url = f"http://{server.address}/{s3.BUCKET}", f"s3a://{s3.BUCKET}/{name}"
            yield Elsewhere(url, web, f"--jars {jars} {settings} pyspark-shell", is_s3=True)

    @property
    def _prefix(self) -> str:
        return self.url.partition("://")[2].partition("/")[2]

    def files(self, folder: str) -> dict[str, str]:
        """The files in a folder and below it: their paths from the whole folder on, with a mark of their content."""
        return dict(self._keys(folder) if self.is_s3 else self._listed(folder))

    def shown(self, folder: str) -> dict[str, str]:
        found = self._keys(folder) if self.is_s3 else self._listed(folder, _is_shown)
        return {path: mark for path, mark in found if all(map(_is_shown, path.split("/")))}

    def _keys(self, folder: str) -> Iterator[tuple[str, str]]:
        start = ""
        while True:
            given = f"list-type=2&prefix={quote(f'{self._prefix}/{folder}/')}&start-after={quote(start)}"
            text = _asked(f"{self.web}?{given}").decode()
            found = re.findall(r"<Key>(.*?)</Key>.*?<ETag>(.*?)</ETag>", text, re.DOTALL)
            for key, mark in found:
                start = unescape(key)
                if not start.endswith("/"):
                    yield start.removeprefix(f"{self._prefix}/"), mark
            if "<IsTruncated>true" not in text:
                return

    def _listed(self, folder: str, is_wanted: Callable[[str], bool] = bool) -> Iterator[tuple[str, str]]:
        try:
            statuses = json.loads(_asked(self._operation(folder, "LISTSTATUS")))["FileStatuses"]["FileStatus"]
        except HTTPError:
            return  # there is no such folder, or it went away
        for status in statuses:
            path = f"{folder}/{status['pathSuffix']}"
            if not is_wanted(status["pathSuffix"]):
                continue
            if status["type"] == "DIRECTORY":
                yield from self._listed(path, is_wanted)
            else:
                yield path, f"{status['modificationTime']} {status['length']} {status['fileId']}"

    def _address(self, path: str) -> str:
        return f"{self.web}/{quote(f'{self._prefix}/{path}' if self.is_s3 else path)}"

    def _operation(self, path: str, operation: str) -> str:
        return f"{self._address(path)}?user.name={getuser()}&op={operation}"

    def read(self, path: str) -> bytes:
        return _asked(self._address(path) if self.is_s3 else self._operation(path, "OPEN"))

    def write(self, path: str, content: bytes) -> None:
        """Write a file, instead of one that is there."""
        if self.is_s3:
            _asked(self._address(path), "PUT", content)
            return
        # The node that keeps it is asked for first.
        asked = self._operation(path, "CREATE&overwrite=true&noredirect=true")
        _asked(json.loads(_asked(asked, "PUT"))["Location"], "PUT", content)

    def put(self, folder: Path, name: str) -> None:
        """Write the files of a folder here that were not written yet, in the order of their names."""
        for file in sorted((folder / name).iterdir()):
            path = f"{name}/{file.name}"
            if path not in self._known:
                self.write(path, file.read_bytes())
                self._known[path] = ""

    def fetch(self, folder: Path, *names: str) -> None:
        """Bring folders to the folder here, as they are now; files of input are named as they are named here."""
        for name in names:
            there = self.files(name)
            here = {path for path in self._known if path.startswith(f"{name}/")}
            for path in here - there.keys():
                (folder / path).unlink(missing_ok=True)
                del self._known[path]
            for path, mark in there.items():
                if self._known.get(path) != mark:
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    try:
                        content = self.read(path)
                    except HTTPError:
                        continue  # a temporary file has got its name meanwhile
                    if "/spark/sources/" in path:
                        content = content.replace(f"{self.url}/in/".encode(), f"{(folder / 'in').as_uri()}/".encode())
                    (folder / path).write_bytes(content)
                    self._known[path] = mark

    def put_log(self, folder: Path, log: Path | None) -> None:
        """Write a log of Spark's that was written here."""
        if log is not None:
            content = log.read_bytes()
            self.write(
                str(log.relative_to(folder)),
                content.replace(f"{(folder / 'in').as_uri()}/".encode(), f"{self.url}/in/".encode()),
            )

    def delete(self, path: str) -> None:
        """Delete a file."""
        _asked(self._address(path) if self.is_s3 else self._operation(path, "DELETE"), "DELETE")


def _is_shown(name: str) -> bool:
    """Whether Spark, Hive, Arrow and others take a file or a folder of this name."""
    return not name.startswith((".", "_"))


def _asked(url: str, method: str = "GET", content: bytes | None = None) -> bytes:
    head = {"Authorization": _SIGNED, "Content-Type": "application/octet-stream"}
    for left in reversed(range(_TRIES)):
        try:
            with urlopen(Request(url, content, head, method=method), timeout=60) as answer:
                body: bytes = answer.read()
                return body
        except HTTPError as error:
            # The server of S3's protocol fails where a list is read while another request changes it.
            if error.code < 500 or not left:
                raise
    raise AssertionError
