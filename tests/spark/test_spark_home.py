"""The home that tests give to Spark has no zip file of pyspark, so each Python process takes the installed package."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.spark_home import home_without_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_links_to_what_starts_spark() -> None:
    home = home_without_zip()
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


@pytest.mark.classic(reason="asks the session's Java")
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what a process maps")
def test_java_maps_the_archive_of_classes(spark: SparkSession) -> None:
    options = os.environ["SPARK_SUBMIT_OPTS"]
    if "SharedArchiveFile" not in options:
        pytest.skip("no archive was made: `make classes` does")
    (archive,) = re.findall(r"SharedArchiveFile=(\S+)", options)
    assert spark._jvm is not None
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    assert archive in Path(f"/proc/{java}/maps").read_text()
