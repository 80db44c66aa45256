"""A broker that is killed and starts again, while topics are read from it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from tests.kafka.topics import Record, Topics
from tests.services.kafka import RESTARTS_SOON, launch, restart_kafka
from tests.services.server import Server, stop_server
from windrow import Pipeline, from_source
from windrow.kafka import KafkaSource
from windrow.sinks import CollectSink
from windrow_kafka.reader import TopicReader
from windrow_kafka.topics import TopicReads
from windrow_runtime.inputs.batches import elements_of


@pytest.fixture
def server(client: None, kafka: str) -> Iterator[Server]:
    """A broker of its own; the other fixtures skip the test where there can be none."""
    own = launch(properties=RESTARTS_SOON)
    try:
        yield own
    finally:
        stop_server(own)


def planned(topics: Topics, topic: str) -> TopicReads:
    source = KafkaSource(topics.servers, topic, str, value_format="text", starting_offsets="earliest")
    step = Pipeline("p", from_source(source, name="in").sink_to(CollectSink[str]())).steps[0]
    return TopicReader(source, step).reads()


def test_all_that_a_source_asks_outlasts_a_restart(server: Server) -> None:
    topics = Topics(server.address, "restart")
    topic = topics.make("in")
    text = b"x" * 6_000
    count = 10_000  # more than a client fetches beforehand
    topics.send(topic, [Record(text, timestamp=1_000) for _ in range(count)])
    read = planned(topics, topic)
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    expected = {f"{topic}/0": count}
    assert read.latest() == expected
    (range_,) = read.ranges({}, read.advance({}, read.latest()))
    batches = read.read(range_)
    taken = len(elements_of(next(batches)).values)
    with ThreadPoolExecutor(5) as pool:
        server.kill()
        started = pool.submit(restart_kafka, server)
        asked = [pool.submit(ask) for ask in (read.partitions, read.latest, lambda: read.advance({}, expected),
                                              lambda: read._brokers.offsets(expected, begin))]  # fmt: skip
        taken += sum(len(elements_of(rows).values) for rows in batches)
        answers = [each.result() for each in asked]
        restarted = started.result()
    try:
        known = [0, count, read.seen.ids[topic]]
        assert answers == [[f"{topic}/0"], expected, {f"{topic}/0": known}, {f"{topic}/0": 0}]
        assert taken == count
        assert sum(len(elements_of(rows).values) for rows in read.read(range_)) == count
        # Leaders have another epoch after a restart, and the client knows of the one before.
        restarted = restart_kafka(restarted)
        assert read._brokers.offsets(expected, "latest") == expected
    finally:
        stop_server(restarted)
