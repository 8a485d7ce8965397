"""A program that streams the segments under a prefix into files, until it is killed.

Its arguments: the store, the prefix, the folder for rows and checkpoint.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(store: str, prefix: str, place: Path) -> None:
    from siltstone.spark import session

    settings = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}
    spark = session(master="local[2]", name="siltstone-driver", settings=settings)
    reader = spark.readStream.format("siltstone").option("store", store).option("prefix", prefix)
    frame = reader.option("columns", "segment,offset,value").option("maxRowsPerTrigger", 20).load()
    writer = frame.writeStream.format("parquet").option("path", str(place / "rows"))
    writer.option("checkpointLocation", str(place / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
