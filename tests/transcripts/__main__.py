"""``python -m tests.transcripts [--engine local|spark] FILE...``: run transcripts of triggers; say what differed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from tests.conformance import runner
from tests.transcripts.engine import Engine
from tests.transcripts.local import local_engine
from tests.transcripts.running import run_file


@contextmanager
def _local() -> Iterator[Engine]:
    yield local_engine


@contextmanager
def _spark() -> Iterator[Engine]:
    # The interpreter needs no Spark.
    from tests.transcripts.spark import started_engine

    with started_engine() as engine:
        yield engine


ENGINES: Final[dict[str, Callable[[], AbstractContextManager[Engine]]]] = {"local": _local, "spark": _spark}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files, as :func:`tests.conformance.runner.main` says."""
    return runner.main(
        "tests.transcripts",
        "Run transcripts of triggers and say what differed.",
        arguments,
        ENGINES,
        lambda engine, files: [outcome for file in files for outcome in run_file(Path(file), engine)],
    )


if __name__ == "__main__":
    sys.exit(main())
