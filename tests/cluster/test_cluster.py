"""A pipeline on a real cluster: packaged, submitted, and robbed of a process and of a machine on the way."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
import typing_extensions

from tests.cluster.cluster import ROOT, Cluster, eventually, running_cluster, start
from tests.spark_home import options_with_classes

APP = Path(__file__).parent / "app"
NEEDED = ("cloudpickle", "packaging", "typing_extensions")
SETTINGS = {
    "spark.cores.max": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": options_with_classes(),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": options_with_classes(),
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


def page_commands(about: str) -> list[list[str]]:
    """The words of each command of the first block of docs/deployment.md that shows this."""
    blocks = re.findall(
        r"```console\n(.*?)```", (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8"), re.DOTALL
    )
    block = next(block for block in blocks if about in block)
    lines = block.replace("\\\n", "").splitlines()
    return [shlex.split(line.removeprefix("$ ")) for line in lines]


def package(folder: Path) -> Path:
    """windrow and what it needs, as a zip that Spark sends to every machine: by the commands of docs/deployment.md.

    They get what they need from this environment instead of a network.
    """
    checkout, wheels = folder / "checkout", folder / "wheels"
    for name in ("dsl", "runtime"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    wheels.mkdir()
    for name in NEEDED:
        pack_wheel(name, wheels)
    install, pack, _ = page_commands("--target bundle")
    offline = ["--no-build-isolation", "--no-index", "--find-links", str(wheels)]
    for command in ([sys.executable, "-m", *install, *offline], [sys.executable, *pack[1:]]):
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return checkout / "windrow.zip"


def pack_wheel(name: str, folder: Path) -> None:
    """Make a wheel of an installed distribution that is pure Python."""
    found = distribution(name)
    with ZipFile(folder / f"{name}-{found.version}-py3-none-any.whl", "w") as wheel:
        for file in found.files or ():
            if file.suffix != ".pyc":
                wheel.write(file.locate(), str(file))


def pack_environment(folder: Path) -> Path:
    """A virtual environment with the installed packages, but for windrow and what only windrow needs, as an archive.

    The packages are links, so that it is small.
    """
    home, archive = folder / "environment", folder / "environment.tar.gz"
    venv.create(home, symlinks=True, with_pip=False)
    (target,) = home.glob("lib/python*/site-packages")
    for package in Path(typing_extensions.__file__).parent.iterdir():
        # A .pth file may lead to this repository.
        if package.suffix != ".pth" and not package.name.startswith((*NEEDED, "windrow")):
            (target / package.name).symlink_to(package)
    with tarfile.open(archive, "w:gz") as file:
        file.add(home, ".")
    return archive


def submit(cluster: Cluster, files: list[Path], archive: Path, *arguments: Path) -> list[str]:
    options = [f"--conf={name}={value}" for name, value in SETTINGS.items()]
    shipped = ["--py-files", ",".join(map(str, files)), "--archives", f"{archive}#environment"]
    command = [cluster.machine.command("spark-submit"), "--master", cluster.url, *shipped]
    return [*command, *options, str(APP / "main.py"), *map(str, arguments)]


def rows(folder: Path) -> list[str]:
    """All lines of a sink of files, in an order that does not depend on the engine."""
    return sorted(line for file in folder.glob("batch-*") for line in file.read_text().splitlines())


@pytest.mark.program
def test_a_submitted_pipeline_survives_the_loss_of_a_worker(tmp_path: Path) -> None:
    source, expected, output = tmp_path / "in", tmp_path / "expected", tmp_path / "out"
    write_input(source)
    output.mkdir()
    subprocess.run([sys.executable, APP / "main.py", source, expected], check=True)
    with running_cluster(tmp_path, workers=2) as cluster, ExitStack() as stack:
        files, archive = [package(tmp_path), APP / "readings.py"], pack_environment(tmp_path)
        command = submit(cluster, files, archive, source, output, tmp_path / "checkpoint")
        driver = start(
            stack,
            "driver",
            command,
            cluster.machine,
            PYSPARK_DRIVER_PYTHON="environment/bin/python",
            PYSPARK_PYTHON="./environment/bin/python",
        )
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
