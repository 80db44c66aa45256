"""A pipeline over Spark Connect, against a server of its own: `pytest --connect` runs all the others so."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.connect_client import expected
from tests.spark_home import options_with_classes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a program whose session is that of a server."""
    import pyspark

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    command = [str(Path(pyspark.__path__[0]) / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))},
        "SPARK_HOME": os.environ["SPARK_HOME"],
        "SPARK_SUBMIT_OPTS": options_with_classes(),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=output, stderr=output)
        try:
            # A program would try again, and sleep for up to a minute before it does.
            while not answers(port) and process.poll() is None:
                time.sleep(0.05)
            yield {**environment, "SPARK_REMOTE": f"sc://127.0.0.1:{port}"}
        finally:
            process.terminate()
            process.wait(30)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.program
@pytest.mark.classic(reason="starts a server of its own")
def test_a_program_gets_what_its_pipeline_collected_counted_and_raised(server: dict[str, str], tmp_path: Path) -> None:
    for name in ("local", "remote"):
        (tmp_path / name).mkdir()
    program = [sys.executable, "-m", "tests.spark.connect_client", str(tmp_path / "remote")]
    run = subprocess.run(program, cwd=ROOT, env=server, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:] + (tmp_path / "server.log").read_text()[-3000:]
    told = json.loads(run.stdout.splitlines()[-1])
    assert told["session"] == "pyspark.sql.connect.session"
    # Both as JSON, which makes lists of tuples.
    wanted = json.loads(json.dumps(expected(tmp_path / "local")))
    assert wanted["counters"] == {"connect.4.window": {"late_records_dropped": 1}}
    assert told["found"] == wanted
    reports = told["told"]
    batches = reports.pop("batches")
    # Two with records, one in which the end is read, and one that fires what is open then.
    assert len(batches) >= 4
    assert batches == list(range(len(batches)))
    assert reports == {"read": 7, "late": 1, "open": 0, "ended": True}
    assert told["failure"]["message"] == "the function of the sink raised OSError: disk full in batch 0"
    assert "connect_client.py:" in told["failure"]["where"]
    assert 'raise OSError(f"disk full in batch {batch}")' in told["failure"]["cause"]
