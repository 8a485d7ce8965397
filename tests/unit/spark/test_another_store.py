"""A task of Spark whose settings lead to another store reads nothing and names both stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import siltstone
from siltstone.spark.columns import arrow_schema, default_schema
from siltstone.spark.options import ReadOptions
from siltstone.spark.resolve import resolve_tasks
from siltstone.spark.rows import RowShape, read_task


@pytest.mark.slow
def test_a_task_reads_only_the_store_that_was_planned_for(tmp_path: Path) -> None:
    uuids = {}
    for name in ("meant", "wrong"):
        siltstone.init(tmp_path / name)
        with siltstone.open(tmp_path / name) as store:
            store.create("a").append(f"of {name}\n".encode())
            store.flush()
            uuids[name] = store.uuid
    options = ReadOptions(store=str(tmp_path / "meant"), segments=("a",))
    ((part,),) = resolve_tasks(options, 1)
    shape = RowShape(options=options, schema=arrow_schema(options, default_schema(options)))
    (batch,) = read_task(shape, [part])
    assert batch.column("value").to_pylist() == ["of meant"]
    elsewhere = replace(part, store=str(tmp_path / "wrong"))
    both = f"found={uuids['wrong']} expected={uuids['meant']}"
    with pytest.raises(siltstone.StoreError, match=both):
        next(read_task(shape, [elsewhere]))
