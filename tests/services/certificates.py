"""Certificates for servers and clients of tests, by an authority of their own."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.services.errors import NoServiceError
from tests.services.server import LOOPBACK

__all__ = ["Certificates"]


@dataclass(frozen=True)
class Certificates:
    """A folder with the certificate of an authority, and what it has signed."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """Make an authority, and sign a certificate for a server of this machine and one for a client.

        Raises:
            NoServiceError: If openssl is missing.
        """
        if shutil.which("openssl") is None:
            raise NoServiceError("no certificates: openssl is not on PATH (apt-get install openssl)")
        made = cls(folder)
        authority = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests of windrow"]
        made._run(*authority, "-keyout", "ca.key", "-out", "ca.pem")
        for name, subject in (("server", f"/CN={LOOPBACK}"), ("client", "/CN=ann")):
            asked = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", subject]
            asked += ["-addext", f"subjectAltName=IP:{LOOPBACK}"]
            made._run(*asked, "-keyout", f"{name}.key", "-out", f"{name}.csr")
            signed = ["x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
            made._run(*signed, "-days", "2", "-copy_extensions", "copy", "-out", f"{name}.pem")
        both = made.key.read_text() + (folder / "server.pem").read_text()
        made.server.write_text(both)
        return made

    @property
    def authority(self) -> Path:
        """What clients and servers trust."""
        return self.folder / "ca.pem"

    @property
    def key(self) -> Path:
        """The key of the server."""
        return self.folder / "server.key"

    @property
    def server(self) -> Path:
        """The key and the certificate of the server, in one file."""
        return self.folder / "server-with-key.pem"

    @property
    def client(self) -> tuple[Path, Path]:
        """The certificate and the key of the client."""
        return self.folder / "client.pem", self.folder / "client.key"

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)
