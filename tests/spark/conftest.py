from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def view(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The address of Hadoop's view of the folder ``here`` of the test, which is not mounted for windrow."""
    (tmp_path / "here").mkdir()
    name = re.sub(r"\W|_", "", tmp_path.name)  # Hadoop keeps a view open under its name
    setting = f"fs.viewfs.mounttable.{name}.link./all"
    spark.conf.set(setting, f"file://{tmp_path}/here")
    yield f"viewfs://{name}/all"
    spark.conf.unset(setting)
