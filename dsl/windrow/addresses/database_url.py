"""Addresses of databases: checked when the plan is built, and shown without their secrets."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from windrow.addresses.redaction import REDACTED, redact, spellings
from windrow.errors import InvalidArgumentError

__all__ = ["DatabaseUrl"]

_BACKENDS = {
    "postgresql": "postgresql",
    "postgresql+psycopg": "postgresql",
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}
# Any other parameter of a query may be a secret or the path to one: drivers take a password there as well.
_SHOWN_PARAMETERS = frozenset(
    ["application_name", "connect_timeout", "host", "mode", "port", "sslmode", "timeout", "uri"]
)
_EXPECTED = "sqlite:///file.db, or postgresql://user:password@host:port/database"


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
        parse = _parse_sqlite if backend == "sqlite" else _parse_server
        masked, secrets = parse(scheme, rest)
        return DatabaseUrl(backend, text, masked, secrets)

    def scrub(self, text: str) -> str:
        """A text, such as an error of the driver, without the secrets of the address."""
        # A long one first: it may hold a short one.
        return redact(text, sorted(self.secrets, key=len, reverse=True))

    def __str__(self) -> str:
        return self.masked

    def __repr__(self) -> str:
        return f"DatabaseUrl({self.masked!r})"


def _parse_sqlite(scheme: str, rest: str) -> tuple[str, tuple[str, ...]]:
    path, _, query = rest.partition("?")
    if not path.startswith("/") or path == "/" or ":memory:" in path:
        raise InvalidArgumentError(
            "the address of a SQLite database names a file",
            given=f"{scheme}://{path}",
            expected="sqlite:///relative.db or sqlite:////absolute/file.db",
            hint="a database in memory would be gone after each batch; collect into a CollectSink instead",
        )
    shown, secrets = _mask_query(query)
    return f"{scheme}://{path}{shown}", secrets


def _parse_server(scheme: str, rest: str) -> tuple[str, tuple[str, ...]]:
    authority = rest
    for end in "/?#":
        authority = authority.partition(end)[0]
    # A password with one of these would be cut by one reader of the address and not by the next, and then be shown.
    if rest.count("@") > 1 or ("@" in rest and "@" not in authority) or "#" in rest:
        raise _unreadable(scheme, "an @, /, ? or # in a user name, a password or a parameter")
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        port = parts.port
    except ValueError:
        raise _unreadable(scheme, "a port that is no number, or brackets that do not match") from None
    shown, secrets = _mask_query(parts.query)
    if parts.password is not None:
        secrets += spellings(parts.password)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    where = f"{host}{'' if port is None else f':{port}'}{parts.path}"
    return f"{scheme}://{_user(parts)}{where}{shown}", secrets


def _user(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    return f"{parts.username}@" if parts.password is None else f"{parts.username}:{REDACTED}@"


def _unreadable(scheme: str, given: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the address of the database can be read in two ways",
        given=f"{scheme}://... with {given}",
        expected=_EXPECTED,
        hint="percent-encode such a character: urllib.parse.quote(password, safe='')",
    )


def _mask_query(query: str) -> tuple[str, tuple[str, ...]]:
    shown: list[str] = []
    secrets: tuple[str, ...] = ()
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _SHOWN_PARAMETERS:
            shown.append(f"{name}={value}")
        else:
            shown.append(f"{name}={REDACTED}")
            secrets += spellings(value)
    return f"?{'&'.join(shown)}" if shown else "", secrets
