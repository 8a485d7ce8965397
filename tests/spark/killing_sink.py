"""The sink of segments, in a driver that kills itself just ahead of the end of a batch or behind.

Spark ends a batch in a worker of its own, which lives on when the driver is killed.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final, cast

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from siltstone.spark.data_source import SegmentSource
from siltstone.spark.sink import SegmentStreamWriter
from siltstone.spark.write_options import parse_write_options

DRIVER: Final = "SILTSTONE_TEST_DRIVER"
"""The variable that has the process group of the driver."""

ORDER: Final = "kill"
"""A file in the store that is written: ``ahead`` or ``behind``, and how many batches are spared."""


class KillingStreamWriter(SegmentStreamWriter):
    """Ends batches, or the driver."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._obey("ahead")
        super().commit(messages, batchId)
        self._obey("behind")

    def _obey(self, here: str) -> None:
        file = Path(self._options.store) / ORDER
        where, _, spared = file.read_text().partition(" ") if file.exists() else ("", "", "")
        if where != here:
            return
        if int(spared) > 0:
            file.write_text(f"{where} {int(spared) - 1}")
            return
        file.unlink()
        os.killpg(int(os.environ[DRIVER]), signal.SIGKILL)


class KillingSource(SegmentSource):
    """The format ``killing``."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        options = parse_write_options(self.options, overwrite=overwrite)
        return cast("DataSourceStreamWriter", KillingStreamWriter(options, schema))
