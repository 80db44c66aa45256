"""Keeps secrets out of what people read: plans, logs and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

__all__ = ["REDACTED", "redact", "redact_options", "secrets_in"]

REDACTED = "*****"
"""What stands where a secret was."""

_SECRET_NAME = re.compile(
    r"secret|passw(or)?d|passphrase|token|credential|jaas|access[._-]?key|api[._-]?key|private[._-]?key"
    r"|ssl\.key|keystore\.key|account\.key|signature",
    re.IGNORECASE,
)
_SECRET_IN_TEXT = re.compile(
    r"""((?:secret|passw(?:or)?d|passphrase|token|credentials?|access[._-]?key|api[._-]?key)\w*\s*[=:]\s*)"""
    r"""("[^"]*"|'[^']*'|[^\s;,&"']+)""",
    re.IGNORECASE,
)
_USER_IN_URL = re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/]*@", re.IGNORECASE)
_SHORTEST = 4


def redact_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options with the values of those hidden that are secret by their name or by their text.

    Args:
        options: The options of a source or sink.
    """
    return {name: REDACTED if _SECRET_NAME.search(name) else redact(value) for name, value in options.items()}


def secrets_in(options: Mapping[str, str]) -> tuple[str, ...]:
    """The values that :func:`redact_options` hides, and the passwords inside them: what no text may show."""
    found: list[str] = []
    for name, value in options.items():
        if _SECRET_NAME.search(name):
            found.append(value)
        found += (match[2].strip("\"'") for match in _SECRET_IN_TEXT.finditer(value))
    # The longest first, so that one that holds another is hidden as a whole.
    return tuple(sorted({text for text in found if len(text) >= _SHORTEST}, key=len, reverse=True))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets.

    Args:
        text: Such as a message of Spark's or of a driver.
        secrets: Texts to hide wherever they stand. What reads as ``password=...`` and the password of a URL are hidden
            besides.
    """
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = _USER_IN_URL.sub(rf"\g<1>{REDACTED}@", text)
    return _SECRET_IN_TEXT.sub(rf"\g<1>{REDACTED}", text)
