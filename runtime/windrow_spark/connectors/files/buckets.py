"""Says with which settings windrow opens the buckets of ``s3a://``: those of Hadoop's client of S3 in the session.

Where a session asks for what windrow cannot do, such as a proxy or credentials by a class of Java, Spark opens the
bucket instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from windrow_runtime.connectors.files.objects import ENDPOINT
from windrow_spark.run.background import uninterrupted
from windrow_spark.session import is_connect, session_of_run

# Any in this module: objects of the JVM.

_TEMPORARY: Final = "TemporaryAWSCredentialsProvider"
_SIMPLE: Final = "SimpleAWSCredentialsProvider"
_OF_ENVIRONMENT: Final = {
    "EnvironmentVariableCredentialsProvider",
    "EnvironmentVariableCredentialsProviderV2",
    "DefaultCredentialsProvider",
}
_PROVIDERS: Final = {
    _TEMPORARY,
    _SIMPLE,
    *_OF_ENVIRONMENT,
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "ContainerCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
}
"""The names of the classes that find credentials where obstore does as well."""
_ANONYMOUS: Final = "AnonymousAWSCredentialsProvider"
_UNKNOWN: Final = (
    "proxy.host",
    "accesspoint.arn",
    "security.credential.provider.path",
    "encryption.cse.custom.keyring.class.name",
    "s3.client.factory.impl",
    "custom.signers",
)
"""Settings that change how a bucket is opened, and which windrow does not know."""
_SECRETS: Final = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
}


def bucket_options(bucket: str) -> dict[str, str] | None:
    """Returns the settings of a bucket by obstore's names; None: Spark has to open it."""
    session: Any = session_of_run()
    if session is None:
        return {}  # a process without a session
    if is_connect(session):
        return None  # the settings are the server's

    def read() -> dict[str, str] | None:
        settings = session._jsparkSession.sessionState().newHadoopConf()

        def text(name: str) -> str:
            value = settings.get(f"fs.s3a.bucket.{bucket}.{name}") or settings.get(f"fs.s3a.{name}")
            return str(value or "").strip()

        def secret(name: str) -> str:
            signs = settings.getPassword(f"fs.s3a.bucket.{bucket}.{name}") or settings.getPassword(f"fs.s3a.{name}")
            return "" if signs is None else "".join(signs)

        return options_of(bucket, text, secret)

    return uninterrupted(read)


def options_of(
    bucket: str, text: Callable[[str], str], secret: Callable[[str], str], environment: Any = os.environ
) -> dict[str, str] | None:
    """Translates the settings of Hadoop's client, of which ``text`` and ``secret`` give one by its name.

    The names come without ``fs.s3a.``; "" is a setting that nobody has made.
    """
    providers = {
        name.strip().rpartition(".")[2] for name in text("aws.credentials.provider").split(",") if name.strip()
    }
    if any(map(text, _UNKNOWN)) or not providers <= {*_PROVIDERS, _ANONYMOUS}:
        return None
    # Hadoop's client takes a setting where one of its classes for credentials is to look for it.
    takes_token = not providers or _TEMPORARY in providers
    secrets = _SECRETS if takes_token or _SIMPLE in providers else {}
    credentials = {option: secret(name) for name, option in secrets.items() if takes_token or name != "session.token"}
    by_others = any(credentials.values()) or not providers or providers & _OF_ENVIRONMENT
    if not by_others and _ANONYMOUS not in providers and "AWS_ACCESS_KEY_ID" in environment:
        return None  # obstore would take it
    encrypted = _encryption(text)
    placed = _place(bucket, text, environment)
    if encrypted is None or placed is None:
        return None
    options = {option: value for option, value in credentials.items() if value} | encrypted | placed
    if _ANONYMOUS in providers and "aws_access_key_id" not in options:
        options["aws_skip_signature"] = "true"
    if text("requester.pays.enabled").lower() == "true":
        options["aws_request_payer"] = "true"
    return options


def _encryption(text: Callable[[str], str]) -> dict[str, str] | None:
    algorithm = (text("encryption.algorithm") or text("server-side-encryption-algorithm")).upper()
    key = text("encryption.key") or text("server-side-encryption.key")
    if algorithm in ("SSE-S3", "AES256"):
        return {"aws_server_side_encryption": "AES256"}
    if algorithm == "SSE-KMS":
        return {"aws_server_side_encryption": "aws:kms"} | ({"aws_sse_kms_key_id": key} if key else {})
    return None if algorithm else {}


def _place(bucket: str, text: Callable[[str], str], environment: Any) -> dict[str, str] | None:
    """Returns where the bucket lies: its region, and the address of a store that is not Amazon's."""
    endpoint, region = text("endpoint"), text("endpoint.region")
    host = endpoint.partition("://")[2] or endpoint
    if not host or host.rstrip("/").endswith(".amazonaws.com"):
        parts = host.split(".")
        region = region or (parts[1] if len(parts) == 4 and parts[0] == "s3" else "")
        own_region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        return {"aws_region": own_region} if own_region else None  # Hadoop's client asks Amazon for the region
    scheme = endpoint.partition("://")[0] if "://" in endpoint else ""
    scheme = scheme or ("http" if text("connection.ssl.enabled").lower() == "false" else "https")
    in_path = text("path.style.access").lower() == "true"
    address = f"{scheme}://{host}" if in_path else f"{scheme}://{bucket}.{host}"
    return {
        ENDPOINT: address.rstrip("/"),
        "aws_region": region or "us-east-1",
        "aws_virtual_hosted_style_request": "false" if in_path else "true",
    }
