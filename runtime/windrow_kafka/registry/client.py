"""Asks a schema registry, by confluent-kafka's client, which each process keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from windrow.addresses.redaction import redact
from windrow.connectors.registry_formats import AvroFormat, RegistryFormat
from windrow.distribution import install_hint
from windrow.errors import SinkError, SourceError, UnsupportedOperationError, WindrowError

# Any in this module: confluent-kafka's client and fastavro are not everywhere, and have no types here.


def client_of(value_format: RegistryFormat) -> Any:
    """Returns the client for a format's registry."""
    return _kept_client(value_format.registry, tuple(sorted(value_format.options.items())), os.getpid())


@lru_cache(maxsize=8)
def _kept_client(registry: str, options: tuple[tuple[str, str], ...], process: int) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient.new_client({"url": registry, **dict(options)})


def check_libraries(value_format: RegistryFormat) -> None:
    """Refuses a format whose libraries are not there."""
    try:
        import confluent_kafka.schema_registry

        if isinstance(value_format, AvroFormat):
            import fastavro  # noqa: F401
        else:
            import confluent_kafka.schema_registry.protobuf  # noqa: F401
    except ImportError as error:
        raise UnsupportedOperationError(
            "a library is missing that the values need",
            given=f"{value_format!r}, without {error.name}",
            hint=install_hint("kafka-avro" if isinstance(value_format, AvroFormat) else "kafka-protobuf"),
        ) from error


@contextmanager
def registry_errors(value_format: RegistryFormat, kind: type[SourceError | SinkError], what: str) -> Iterator[None]:
    """Turns errors of the client into windrow's, without secrets."""
    try:
        yield
    except WindrowError:
        raise
    except Exception as error:
        reason = redact(f"{type(error).__name__}: {error}", value_format.secrets)
        raise kind(
            "a schema registry does not give what is asked for",
            given=f"{what} at {redact(value_format.registry)}: {reason}",
            expected="a registry that answers, and a schema that it takes",
            hint="the address and the options of the format say where, and with which rights",
        ) from None
