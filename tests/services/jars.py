"""Brings jars of Maven Central into the cache."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tests.services.cache import cache_folder
from tests.services.errors import NoServiceError

__all__ = ["Jars"]

_SECONDS: Final = 240
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_NONE_OF_ITS_OWN: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


@dataclass(frozen=True)
class Jars:
    """Jars that are fetched together.

    Attributes:
        service: What they are for, in words for the reason of a skip.
        artifacts: Their coordinates, as ``group:artifact:version``.
        with_dependencies: Whether what they depend on is fetched, too.
    """

    service: str
    artifacts: Sequence[str]
    with_dependencies: bool = True

    @property
    def folder(self) -> Path:
        """Where the jars are once they were fetched. Other coordinates have another folder."""
        name = self.artifacts[0].split(":")[1]
        return cache_folder() / f"{name}-{blake2b(self._pom().encode(), digest_size=4).hexdigest()}"

    def fetch(self) -> list[Path]:
        """Fetch the jars unless they are in the cache.

        Raises:
            NoServiceError: If Maven is missing or fails, such as without a network.
        """
        if not self.folder.exists():
            self._download()
        return sorted(self.folder.glob("*.jar"))

    def _download(self) -> None:
        maven = shutil.which("mvn")
        if maven is None:
            raise NoServiceError(f"no {self.service}: mvn is not on PATH (apt-get install maven)")
        cache_folder().mkdir(parents=True, exist_ok=True)
        # Another process may do the same, so that the folder gets its name when it is whole.
        with tempfile.TemporaryDirectory(dir=cache_folder()) as name:
            folder = Path(name)
            (folder / "pom.xml").write_text(self._pom(), encoding="utf-8")
            command = [maven, "-q", "-B", _PLUGIN, "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"]
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS
                )
            except subprocess.TimeoutExpired:
                raise NoServiceError(f"no {self.service}: Maven took more than {_SECONDS} seconds") from None
            if done.returncode != 0:
                errors = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
                said = errors[0] if errors else done.stderr[-300:]
                raise NoServiceError(f"no {self.service}: Maven cannot fetch it: {said.strip()[:300]}")
            try:
                (folder / "jars").rename(self.folder)
            except OSError:
                if not self.folder.exists():
                    raise

    def _pom(self) -> str:
        exclusions = "" if self.with_dependencies else _NONE_OF_ITS_OWN
        dependencies = "".join(
            f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(artifact)}</artifactId>"
            f"<version>{escape(version)}</version>{exclusions}</dependency>"
            for group, artifact, version in (each.split(":") for each in self.artifacts)
        )
        return (
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>windrow</groupId><artifactId>services</artifactId><version>1</version><packaging>pom</packaging>"
            f"<dependencies>{dependencies}</dependencies></project>\n"
        )
