"""A program that streams the segments under a prefix into files and into a segment.

It runs until it is killed. Its arguments: the store, the prefix, the folder for rows and
checkpoints, the store that is written. A file ``running`` in that folder says that both streams
were started.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from tests.spark.killing_sink import DRIVER, KillingSource

TARGET: Final = "copy"
"""The segment that gets a line for each record: its segment, its offset, and its value."""


def main(store: str, prefix: str, place: Path, target: str) -> None:
    from siltstone.spark import session

    os.environ[DRIVER] = str(os.getpgid(0))
    settings = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}
    spark = session(master="local[2]", name="siltstone-driver", settings=settings)
    spark.dataSource.register(KillingSource)
    reader = spark.readStream.format("siltstone").option("store", store).option("prefix", prefix)
    frame = reader.option("columns", "segment,offset,value").option("maxRowsPerTrigger", 30).load()
    files = frame.writeStream.format("parquet").option("path", str(place / "rows"))
    files.option("checkpointLocation", str(place / "files")).start()
    lines = frame.selectExpr("concat(segment, ' ', offset, ' ', value) AS value")
    segment = lines.writeStream.format("killing").option("store", target).option("segment", TARGET)
    segment.option("checkpointLocation", str(place / "segment")).start()
    (place / "running").touch()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
