"""Keeps secrets out of what people read: plans, logs and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, unquote

REDACTED = "*****"
"""What stands where a secret was."""

_SECRET_NAME = re.compile(
    r"secret|passw(or)?d|passphrase|token|credential|jaas|access[._-]?key|api[._-]?key|private[._-]?key"
    r"|ssl\.key|keystore\.key|account[._-]?key|sas[._-]?key|signature",
    re.IGNORECASE,
)
_SECRET_IN_TEXT = re.compile(
    r"""((?:secret|passw(?:or)?d|passphrase|token|credentials?|(?:access|api|account)[._-]?key"""
    r"""|(?<=[?&-])sig(?:nature)?)[\w.-]*\\?["']?[ \t]*[=:][ \t]*)"""
    r"""(\\"[^"\\]*\\"|"[^"]*"|'[^']*'|[^\s;,&"']+)""",
    re.IGNORECASE,
)
# A slash in a password is wrong, and a secret all the same; after a number it begins the path.
_USER_IN_URL = re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@]*:)([^\s/]*|(?!\d*/)[^\s@]*)(?=@)", re.IGNORECASE)
_SHORTEST = 4


def redact_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options with the values of those hidden that are secret by their name or by their text.

    Args:
        options: The options of a source or sink.
    """
    return {name: REDACTED if _SECRET_NAME.search(name) else redact(value) for name, value in options.items()}


def secrets_in(options: Mapping[str, str]) -> tuple[str, ...]:
    """The values that :func:`redact_options` hides, and the passwords inside them: what no text may show."""
    secrets: list[str] = []
    for name, value in options.items():
        if _SECRET_NAME.search(name):
            secrets.append(value)
        secrets += _secrets_of(value)
    return _in_order(secrets)


def secrets_in_address(path: str) -> tuple[str, ...]:
    """What :func:`redact_address` hides: what no text may show."""
    return _in_order(_secrets_of(path)) if _is_remote(path) else ()


def spellings(secret: str) -> tuple[str, ...]:
    """A secret as an address, a driver or a log may spell it."""
    plain = unquote(secret)
    return tuple({text for text in (secret, plain, quote(plain, safe=""), quote(plain)) if text})


def longest_first(secrets: Iterable[str]) -> tuple[str, ...]:
    """Secrets in the order in which to hide them: one that holds another is hidden as a whole.

    Those of fewer than four characters are left out: they would be found in words that say nothing of them.
    """
    long_secrets = {secret for secret in secrets if len(secret) >= _SHORTEST}
    return tuple(sorted(long_secrets, key=lambda secret: (-len(secret), secret)))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets.

    Args:
        text: Such as a message of Spark's or of a driver.
        secrets: Texts to hide wherever they stand. What reads as ``password=...`` and the password of a URL are hidden
            besides.
    """
    text = _USER_IN_URL.sub(rf"\g<1>{REDACTED}", hide(text, secrets))
    return _SECRET_IN_TEXT.sub(rf"\g<1>{REDACTED}", text)


def redact_address(path: str) -> str:
    """A path without the secrets that its address may hold; one of a mounted file system holds none."""
    return redact(path) if _is_remote(path) else path


def hide(text: str, secrets: Iterable[str]) -> str:
    """A text without some secrets, wherever they stand.

    Args:
        text: Any text.
        secrets: The secrets, a long one before one that it holds.
    """
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def _is_remote(path: str) -> bool:
    return "://" in path and not path.startswith("file:")


def _secrets_of(text: str) -> Iterator[str]:
    yield from (match[2].strip("\\\"'") for match in _SECRET_IN_TEXT.finditer(text))
    yield from (match[2] for match in _USER_IN_URL.finditer(text))


def _in_order(secrets: Iterable[str]) -> tuple[str, ...]:
    """Each in all its spellings."""
    return longest_first(text for secret in secrets for text in spellings(secret))
