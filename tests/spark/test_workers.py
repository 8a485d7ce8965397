"""What workers of Spark are started by."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_workers_import_pyspark_as_it_was_compiled(spark: SparkSession) -> None:
    def told(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"place": [str(pyspark.__file__)]})

    found = spark.range(1).mapInArrow(told, "place STRING").collect()
    assert [Path(row.place).is_file() for row in found] == [True]
    assert "PYSPARK_PYTHON" not in os.environ, "a process started by this one gets a script"
