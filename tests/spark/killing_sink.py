"""The sink of segments, in a driver that kills itself just before the end of a batch or after it.

Spark ends a batch in a worker of its own, which lives on when the driver is killed.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from siltstone.spark.sink import SegmentStreamWriter
from tests.spark.own_streams import OwnStreamSource

DRIVER: Final = "SILTSTONE_TEST_DRIVER"
"""The variable that has the process group of the driver."""

ORDER: Final = "kill"
"""A file in the store that is written: ``before`` or ``after``, and how many batches are spared."""


class KillingStreamWriter(SegmentStreamWriter):
    """Ends batches, or the driver."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._obey("before")
        super().commit(messages, batchId)
        self._obey("after")

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


class KillingSource(OwnStreamSource):
    """The format ``killing``."""

    ends = KillingStreamWriter

    @classmethod
    def name(cls) -> str:
        return "killing"
