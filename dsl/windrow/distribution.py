"""Names the distribution that brings windrow, for hints that tell users what to install, and from where."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "windrow-streams"
"""The name on the package index. ``windrow`` is another project's there; imports are ``windrow`` all the same."""

PACKAGES: Final = ("windrow", "windrow_runtime", "windrow_spark", "windrow_kafka", "windrow_sql", "windrow_tools")
"""The import packages of the distribution. All but the first lie in one folder."""


def install_hint(extra: str) -> str:
    """The command that installs windrow with an extra, as a hint of an error shows it.

    It takes windrow from where the installed one came from: a checkout, a wheel, a git address, or a package index.
    """
    address, is_editable = _origin()
    if is_editable:
        return f"pip install --editable {shlex.quote(f'{_path(address)}[{extra}]')}"
    return f"pip install '{requirement(extra)}'"


def requirement(extra: str) -> str:
    """The requirement of windrow with an extra, as in ``pyproject.toml``: with an address if windrow came from one."""
    address, _ = _origin()
    return f"{DISTRIBUTION}[{extra}] @ {address}" if address else f"{DISTRIBUTION}[{extra}]"


def _origin() -> tuple[str, bool]:
    """Returns the address that windrow was installed from, as pip noted it, and whether that is editable.

    The address is empty if windrow came from an index, if it is not installed, or if the file is gone.
    """
    # Few programs show a hint, and these modules take a tenth of the time in which windrow is imported.
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        noted = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        address = str(noted.get("url", ""))
    except (PackageNotFoundError, ValueError, AttributeError):
        return "", False
    if address.startswith("file:") and not _path(address).exists():
        return "", False
    if commit := noted.get("vcs_info", {}):
        address = f"{commit['vcs']}+{address}@{commit['commit_id']}"
    if folder := noted.get("subdirectory"):
        address = f"{address}#subdirectory={folder}"
    return address, bool(noted.get("dir_info", {}).get("editable"))


def _path(address: str) -> Path:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return Path(url2pathname(urlsplit(address).path))
