"""Formats whose ends of batches a test writes itself."""

from __future__ import annotations

from typing import ClassVar, cast

from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from siltstone.spark.data_source import SegmentSource
from siltstone.spark.sink import SegmentStreamWriter
from siltstone.spark.write_options import parse_write_options


class OwnStreamSource(SegmentSource):
    """The sink of segments, but for the class ``ends``, which ends its batches."""

    ends: ClassVar[type[SegmentStreamWriter]]

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        options = parse_write_options(self.options, overwrite=overwrite)
        return cast("DataSourceStreamWriter", self.ends(options, schema))
