"""A program that streams a collection into files and, what comes, into another collection.

It runs until it is killed. Its arguments: the store, the folder for rows and checkpoints. A file
``running`` in that folder says that both streams were started.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

SOURCE: Final = "source"
TARGET: Final = "copy"


def main(store: str, place: Path) -> None:
    from siltstone.spark import session

    settings = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}
    spark = session(master="local[2]", name="siltstone-driver", settings=settings)
    for sink in ("files", "copy"):
        reader = spark.readStream.format("siltstone").option("store", store)
        reader = reader.option("collection", SOURCE).option("bookmark", sink)
        frame = reader.option("startingTime", 0).option("maxRowsPerTrigger", 60).load()
        if sink == "files":
            writer = frame.writeStream.format("parquet").option("path", str(place / "rows"))
        else:
            frame = frame.where("_diff > 0").select("station", "gust")
            writer = frame.writeStream.format("siltstone").option("store", store)
            writer = writer.option("collection", TARGET)
        writer.option("checkpointLocation", str(place / sink)).start()
    (place / "running").touch()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
