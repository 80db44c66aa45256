"""Answers what engines ask of a sink that writes Kafka topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windrow.errors import SinkError
from windrow.kafka import KafkaSink
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.writer import SinkWriter, Target

# Any in this module: elements of every type.


class TopicWriter(SinkWriter[KafkaSink[Any]]):
    """Writes topics by confluent-kafka."""

    extra = "kafka"

    def output(self, identity: Identity) -> Output:
        # The library is imported only if a plan has such a sink.
        from windrow_kafka.writes import TopicOutput

        return TopicOutput(self.step, self.sink, identity)

    def encoder(self) -> Callable[[Sequence[Any]], object]:
        from windrow_kafka.records import TopicRecords
        from windrow_kafka.registry.values import UnfitTypeError

        records = TopicRecords.of(self.step, self.sink)

        def encode(values: Sequence[Any]) -> object:
            try:
                return records.of_elements(values)
            except UnfitTypeError as error:  # it is no failure of an element
                raise SinkError(
                    error.message, given=error.given, expected=error.expected, where=error.where, hint=error.hint
                ) from None

        return encode

    @property
    def target(self) -> Target:
        text = self.sink.topic if isinstance(self.sink.topic, str) else "topics-by-element"
        return Target(KafkaSink.__name__, text, is_exact=True)

    @property
    def functions(self) -> tuple[object, ...]:
        return tuple([each for each in (self.sink.topic, self.sink.key) if callable(each)])
