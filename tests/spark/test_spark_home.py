"""The home that tests give to Spark has no archive of pyspark, so each Python process takes the installed package."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.spark_home import home_without_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_links_to_what_starts_spark() -> None:
    home = home_without_archive()
    assert home is not None
    assert sorted(entry.name for entry in Path(home).iterdir()) == ["bin", "jars", "sbin"]
    assert Path(home, "bin", "spark-submit").samefile(Path(pyspark.__path__[0], "bin", "spark-submit"))


@pytest.mark.classic(reason="asks Spark's workers, and those of a server have an environment of their own")
def test_workers_take_the_installed_package(spark: SparkSession) -> None:
    from pyspark.sql import functions

    # A lambda, since Spark takes a function with annotations for one of pandas, and warns.
    origin = functions.udf(lambda _: import_module("pyspark").__path__[0], "string")
    (row,) = spark.range(1).select(origin("id")).collect()
    assert os.path.samefile(row[0], pyspark.__path__[0])
