"""A pipeline on a real cluster: packaged, submitted, and robbed of a process and of a machine on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import typing_extensions

from tests.cluster.cluster import JAVA_OPTIONS, ROOT, Cluster, eventually, running_cluster, start

APP = Path(__file__).parent / "app"
SETTINGS = {
    "spark.cores.max": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "768m",
    # Paths without a scheme are those of the machines, whatever the cluster takes them for.
    "spark.hadoop.fs.defaultFS": "hdfs://127.0.0.1:9",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "64",
    "spark.ui.enabled": "false",
}


def write_input(folder: Path) -> None:
    """A file a second of event time, with disorder."""
    chance = random.Random(5)
    folder.mkdir()
    for number in range(4):
        readings = [
            {
                "sensor": f"s{chance.randrange(7)}",
                "at": 2000 + number * 1000 + chance.randrange(-900, 1000),
                "value": chance.randrange(100),
            }
            for _ in range(60)
        ]
        file = folder / f"{number}.json"
        file.write_text("".join(json.dumps(reading) + "\n" for reading in readings), encoding="utf-8")
        os.utime(file, (1_700_000_000 + number,) * 2)


def package(folder: Path) -> Path:
    """windrow and what it needs, as a zip that Spark sends to every machine."""
    bundle = folder / "bundle"
    for name in ("dsl/windrow", "runtime/windrow_runtime"):
        shutil.copytree(ROOT / name, bundle / Path(name).name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(typing_extensions.__file__, bundle)
    return Path(shutil.make_archive(str(folder / "windrow"), "zip", bundle))


def submit(cluster: Cluster, files: list[Path], settings: dict[str, str], *arguments: Path) -> list[str]:
    options = [f"--conf={name}={value}" for name, value in settings.items()]
    shipped = ",".join(map(str, files))
    command = [cluster.machine.command("spark-submit"), "--master", cluster.url, "--py-files", shipped]
    return [*command, *options, str(APP / "main.py"), *map(str, arguments)]


def rows(folder: Path) -> list[str]:
    """All lines of a sink of files, in an order that does not depend on the engine."""
    return sorted(line for file in folder.glob("batch=*/part-*") for line in file.read_text().splitlines())


@pytest.mark.spark
def test_a_submitted_pipeline_survives_the_loss_of_a_worker(tmp_path: Path) -> None:
    source, expected, output = tmp_path / "in", tmp_path / "expected", tmp_path / "out"
    write_input(source)
    output.mkdir()
    subprocess.run([sys.executable, APP / "main.py", source, expected], check=True)
    with running_cluster(tmp_path, workers=2) as cluster, ExitStack() as stack:
        files = [package(tmp_path), APP / "readings.py"]
        command = submit(cluster, files, SETTINGS, source, output, tmp_path / "checkpoint")
        driver = start(stack, "driver", command, cluster.machine)
        # Batch 1 has run its stateful steps, holds their rows in the memory of both executors, and writes no file yet.
        eventually(lambda: driver.told(lambda _: (output / "waiting").exists()))
        assert len(list(tmp_path.glob("work-*/app-*/*/stderr"))) == 2
        cluster.workers[0].kill()
        (output / "go").touch()
        assert driver.wait(120) == 0, driver.text[-3000:]
    assert (output / "died").exists()
    assert rows(output / "spans") == rows(expected / "spans")
    assert rows(output / "seconds") == rows(expected / "seconds")
    assert len(rows(output / "spans")) > 40
