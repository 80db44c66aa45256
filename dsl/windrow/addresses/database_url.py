"""Checks addresses of databases when the plan is built, and shows them without their secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from windrow.addresses.redaction import REDACTED, redact, spellings
from windrow.errors import InvalidArgumentError

_BACKENDS: Final = {
    "postgresql": "postgresql",
    "postgresql+psycopg": "postgresql",
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}
# A password with an @, /, ? or # would be cut by one reader of the address and not by the next, and then be shown.
_SERVER: Final = re.compile(
    r"(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<where>(?:\[[^]@/?#]*\]|[^]:@/?#[]*)(?::\d*)?(?:/[^@?#]*)?)(?:\?(?P<query>[^@#]*))?"
)
# Any other parameter of a query may be a secret or the path to one: drivers take a password there as well.
_SHOWN_PARAMETERS: Final = frozenset(
    ["application_name", "connect_timeout", "host", "mode", "port", "sslmode", "timeout", "uri"]
)
_EXPECTED: Final = "sqlite:///file.db, or postgresql://user:password@host:port/database"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """The address of a database.

    Attributes:
        backend: ``postgresql`` or ``sqlite``.
        text: The address as it was given, with its secrets; never shown.
        masked: The address without them; what ``str`` and ``repr`` give.
        secrets: What :attr:`text` has and :attr:`masked` has not.
    """

    backend: str
    text: str
    masked: str
    secrets: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> DatabaseUrl:
        """Read an address.

        Raises:
            InvalidArgumentError: For another kind of database, and for an address that can be read in two ways. The
                error does not show the address.
        """
        scheme, separator, rest = text.partition("://") if isinstance(text, str) else ("", "", "")
        backend = _BACKENDS.get(scheme.lower())
        if not separator or backend is None:
            raise InvalidArgumentError(
                "this is not the address of a database that windrow writes to",
                given=f"{scheme}://..." if separator else "a text without ://",
                expected=_EXPECTED,
            )
        secrets: tuple[str, ...] = ()
        if backend == "sqlite":
            shown, _, query = rest.partition("?")
            _check_file(scheme, shown)
        else:
            match = _SERVER.fullmatch(rest)
            if match is None:
                raise InvalidArgumentError(
                    "the address of the database can be read in two ways",
                    given=f"{scheme}://... with an @, /, ? or # in a name or a password, or a port that is no number",
                    expected=_EXPECTED,
                    hint="percent-encode such a character: urllib.parse.quote(password, safe='')",
                )
            password = "" if match["password"] is None else f":{REDACTED}"
            login = "" if match["user"] is None else f"{match['user']}{password}@"
            shown, query = f"{login}{match['where']}", match["query"] or ""
            secrets = spellings(match["password"] or "")
        names: list[str] = []
        for name, value in parse_qsl(query, keep_blank_values=True):
            is_shown = name in _SHOWN_PARAMETERS
            names.append(f"{name}={value if is_shown else REDACTED}")
            secrets += () if is_shown else spellings(value)
        masked = f"{scheme}://{shown}{'?' if names else ''}{'&'.join(names)}"
        return DatabaseUrl(backend, text, masked, secrets)

    def scrub(self, text: str) -> str:
        """A text, such as an error of the driver, without the secrets of the address."""
        # A long one first: it may hold a short one.
        return redact(text, sorted(self.secrets, key=len, reverse=True))

    def __str__(self) -> str:
        return self.masked

    def __repr__(self) -> str:
        return f"DatabaseUrl({self.masked!r})"


def _check_file(scheme: str, path: str) -> None:
    if not path.startswith("/") or path == "/" or ":memory:" in path:
        raise InvalidArgumentError(
            "the address of a SQLite database names a file",
            given=f"{scheme}://{path}",
            expected="sqlite:///relative.db or sqlite:////absolute/file.db",
            hint="a database in memory would be gone after each batch; collect into a CollectSink instead",
        )
