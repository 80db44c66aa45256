"""A batch from files to a topic that was killed in the middle is finished on other cores, each record once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kafka.on_cores import LAST
from tests.kafka.topics import Topics

ROOT = Path(__file__).parents[2]


@contextmanager
def started(topics: Topics, topic: str, folder: Path, cores: int) -> Iterator[subprocess.Popen[bytes]]:
    """The program on some cores, which is killed with all that it has started."""
    command = [sys.executable, "-m", "tests.kafka.on_cores", topics.servers, topic, str(folder), str(cores)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with (folder / f"log-{cores}").open("wb") as log:
        program = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield program
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


@pytest.mark.thorough(reason="tests/spark/test_topic_sinks.py has other cores, tests/kafka/test_kills.py the kill")
@pytest.mark.program
@pytest.mark.timeout(300)
def test_a_batch_is_finished_on_other_cores_as_it_was_begun(client: None, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make("out")
    files = tmp_path / "files"
    files.mkdir()
    for number in range(4):
        lines = [json.dumps({"n": n}) for n in range(number, LAST + 1, 4)]
        # Three and four cores share them otherwise.
        lines += [" " * (2 << 20)] * 4 * (number == 0)
        (files / f"{number}.json").write_text("\n".join(lines))
    (tmp_path / "wait").touch()
    written = 0
    with started(topics, topic, tmp_path, 3) as program:
        end = time.monotonic() + 120
        while not ((tmp_path / "waits").exists() and (written := len(topics.committed(topic)))):
            assert program.poll() is None, (tmp_path / "log-3").read_text()
            assert time.monotonic() < end
            time.sleep(0.1)
    assert 0 < written < LAST + 1
    (tmp_path / "wait").unlink()
    (files / "4.json").write_text(json.dumps({"n": LAST + 1}))
    with started(topics, topic, tmp_path, 4) as program:
        assert program.wait(120) == 0, (tmp_path / "log-4").read_text()
    found = sorted(json.loads(record.value or b"")["n"] for record in topics.committed(topic))
    assert found == list(range(LAST + 2))
    noted = json.loads((tmp_path / "checkpoint" / "division").read_text().partition("\n")[2])
    assert noted["cores"] == 4
