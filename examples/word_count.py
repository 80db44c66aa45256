"""Counts words over a collection: every word has one window, which fires when the input is at its end.

python examples/word_count.py [LINE ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from windrow import DataStream, Pipeline, from_collection
from windrow.functions import AggregateFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.sinks import CollectSink
from windrow.windows import GlobalWindow, GlobalWindows
from windrow_runtime.local import LocalRunner

LINES = ["to be or not to be", "that is the question"]


class Count(AggregateFunction[str, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: str, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator


class WithWord(ProcessWindowFunction[int, tuple[str, int], str, GlobalWindow]):
    def process(
        self, key: str, context: ProcessWindowContext[GlobalWindow], elements: Sequence[int]
    ) -> Iterable[tuple[str, int]]:
        return [(key, elements[0])]


def build(lines: Iterable[str]) -> DataStream[tuple[str, int]]:
    return (
        from_collection(lines)
        .flat_map(lambda line: line.lower().split())
        .key_by(lambda word: word)
        .window(GlobalWindows.create_with_end_of_stream_trigger())
        .aggregate(Count(), WithWord())
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", metavar="LINE", nargs="*", help="a line of words; by default two of Shakespeare's")
    lines: list[str] = parser.parse_args(arguments).lines
    counts = CollectSink[tuple[str, int]]("counts")
    pipeline = Pipeline("word count", build(lines or LINES).sink_to(counts))
    for word, count in sorted(LocalRunner().run(pipeline).collected(counts)):
        print(f"{count:4}  {word}")


if __name__ == "__main__":
    main(sys.argv[1:])
