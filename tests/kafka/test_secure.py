"""Topics of a broker that takes connections by TLS, with a login or a certificate, and schemas of such a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pytest

from tests.services.certificates import Certificates
from tests.services.errors import NoServiceError
from tests.services.kafka import MAKES_TOPICS, PASSWORD, USER, SecureListeners, launch
from tests.services.registry import running_registry
from tests.services.server import LOOPBACK, free_ports
from tests.support.thorough import thorough
from windrow import Pipeline, from_collection, from_source
from windrow.errors import MalformedRecordError, SinkError, SourceError, WindrowError
from windrow.kafka import AvroFormat, KafkaSink, KafkaSource
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reading(NamedTuple):
    sensor: str
    celsius: float


READINGS = [Reading("roof", 21.5), Reading("cellar", 12.0)]


@dataclass(frozen=True)
class Secured:
    """A broker, its certificates, and the options of clients by the kind of login."""

    certificates: Certificates
    listeners: SecureListeners
    plain: str

    @property
    def sasl(self) -> str:
        return f"{LOOPBACK}:{self.listeners.sasl}"

    @property
    def tls(self) -> str:
        return f"{LOOPBACK}:{self.listeners.tls}"

    def login(self, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            "ssl.ca.location": str(self.certificates.authority),
        }

    def certificate(self) -> dict[str, str]:
        certificate, key = self.certificates.client
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        }

    def of(self, kind: str) -> tuple[str, dict[str, str]]:
        """The servers and the options of a kind of login."""
        return (self.tls, self.certificate()) if kind == "certificate" else (self.sasl, self.login(kind))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with ExitStack() as stack:
        try:
            certificates = Certificates.make(tmp_path_factory.mktemp("certificates"))
            listeners = SecureListeners(certificates, *free_ports(2))
            server = launch(properties=MAKES_TOPICS, secure=listeners)
        except NoServiceError as error:
            pytest.skip(str(error))
        stack.callback(server.kill)
        yield Secured(certificates, listeners, server.address)


@pytest.fixture
def topic(client: None) -> str:
    return f"secure-{uuid4().hex[:8]}"


def write(servers: str, topic: str, options: dict[str, str]) -> None:
    sink = KafkaSink[Reading](servers, topic, options=options)
    LocalRunner().run(Pipeline("writes", from_collection(READINGS).sink_to(sink)))


def source(servers: str, topic: str, options: dict[str, str]) -> KafkaSource[Reading]:
    return KafkaSource(servers, topic, Reading, starting_offsets="earliest", ending_offsets="latest", options=options)


def read(servers: str, topic: str, options: dict[str, str]) -> list[Reading]:
    sink = CollectSink[Reading]()
    readings = from_source(source(servers, topic, options))
    return sorted(LocalRunner().run(Pipeline("reads", readings.sink_to(sink))).collected(sink))


KINDS = ["PLAIN", "SCRAM-SHA-256", "certificate"]


@pytest.mark.server
@pytest.mark.parametrize("kind", KINDS)
def test_the_interpreter_logs_in(kind: str, secured: Secured, topic: str) -> None:
    servers, options = secured.of(kind)
    write(servers, topic, options)
    assert read(servers, topic, options) == sorted(READINGS)


@pytest.mark.server
@pytest.mark.parametrize(
    "kind", [thorough("PLAIN", reason="test_secure.py has it in the interpreter, and another login here"), *KINDS[1:]]
)
def test_planners_and_workers_of_spark_log_in(kind: str, secured: Secured, topic: str, spark: SparkSession) -> None:
    """From topic to topic, by transactions of the workers."""
    servers, options = secured.of(kind)
    write(servers, topic, options)
    copied = f"{topic}-copied"
    warmer = from_source(source(servers, topic, options)).map(lambda r: Reading(r.sensor, r.celsius + 1))
    sink = KafkaSink[Reading](servers, copied, options=options)
    SparkRunner(spark).run(Pipeline("warmer", warmer.sink_to(sink)))
    assert read(servers, copied, options) == sorted(Reading(r.sensor, r.celsius + 1) for r in READINGS)


def by_sasl(secured: Secured, **options: str) -> tuple[str, dict[str, str]]:
    return secured.sasl, {**secured.login("PLAIN"), **{name.replace("_", "."): text for name, text in options.items()}}


def without_certificate(secured: Secured) -> tuple[str, dict[str, str]]:
    options = secured.certificate()
    return secured.tls, {name: options[name] for name in ("security.protocol", "ssl.ca.location")}


SILENT = "the broker closes such a connection without a word, as test_passing.py has it of one that is away"
REFUSED = [
    pytest.param(lambda secured: by_sasl(secured, sasl_password="swordfish"), "have the login", id="password"),
    pytest.param(
        lambda secured: by_sasl(secured, sasl_mechanism="SCRAM-SHA-256", sasl_password="swordfish"),
        "have the login",
        id="SCRAM password",
    ),
    pytest.param(
        lambda secured: by_sasl(secured, ssl_ca_location=str(secured.certificates.client[0])),
        r"do not come together by TLS(.|\n)*certificate verify failed(.|\n)*ssl\.ca\.location",
        id="authority",
    ),
    thorough(without_certificate, "security.protocol", reason=SILENT, id="no certificate"),
    thorough(lambda secured: (secured.sasl, {}), "security.protocol", reason=SILENT, id="no TLS"),
]


@pytest.mark.server
@pytest.mark.parametrize(("login", "reason"), REFUSED)
def test_who_is_refused_is_told_why(
    login: Callable[[Secured], tuple[str, dict[str, str]]], reason: str, secured: Secured, topic: str
) -> None:
    servers, options = login(secured)
    write(secured.plain, topic, {})
    calls: list[tuple[Callable[[], object], type[WindrowError]]] = [
        (lambda: read(servers, topic, options), SourceError),
        (lambda: write(servers, topic, options), SinkError),
    ]
    for call, error in calls:
        with pytest.raises(error, match=reason) as caught:
            call()
        assert "swordfish" not in str(caught.value)
        assert PASSWORD not in str(caught.value)


@pytest.mark.server
def test_a_registry_is_asked_by_tls_with_a_login(secured: Secured, topic: str) -> None:
    pytest.importorskip("fastavro")
    servers, options = secured.of("PLAIN")
    login = f"{USER}:{PASSWORD}"
    trusts = {"ssl.ca.location": str(secured.certificates.authority)}
    with running_registry(secured.certificates, login) as registry:
        assert registry.address.startswith("https://")
        form = AvroFormat(registry.address, options={**trusts, "basic.auth.user.info": login})
        sink = KafkaSink[Reading](servers, topic, value_format=form, options=options)
        LocalRunner().run(Pipeline("writes", from_collection(READINGS).sink_to(sink)))
        collect = CollectSink[Reading]()

        def read_by(read_form: AvroFormat) -> list[Reading]:
            readings = from_source(
                KafkaSource(
                    servers,
                    topic,
                    Reading,
                    value_format=read_form,
                    starting_offsets="earliest",
                    ending_offsets="latest",
                    options=options,
                )
            )
            return LocalRunner().run(Pipeline("reads", readings.sink_to(collect))).collected(collect)

        assert sorted(read_by(form)) == sorted(READINGS)
        wrong = AvroFormat(registry.address, options={**trusts, "basic.auth.user.info": f"{USER}:swordfish"})
        distrusting = AvroFormat(registry.address, options={"basic.auth.user.info": login})
        for refused in (wrong, distrusting):
            with pytest.raises(WindrowError) as caught:
                read_by(refused)
            assert not isinstance(caught.value, MalformedRecordError)
            assert "registry" in str(caught.value)
            assert "swordfish" not in str(caught.value)
            assert PASSWORD not in str(caught.value)
