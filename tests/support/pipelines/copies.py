"""Copies of a store, and whether they hold the same."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import siltstone
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
from siltstone.pipelines.work import (
    Executor,
)


def copied(
    folder: Path, target: Path, executor: Executor | None = None, names: Sequence[str] = ()
) -> dict[str, str]:
    with store_view(folder) as view, owned_store(target) as owned:
        found = list(copy(view, owned, executor or LocalExecutor(2), view.segments(names)))
    assert len({outcome.subject for outcome in found}) == len(found)
    return {outcome.subject: outcome.status for outcome in found}


def verified(folder: Path, target: Path) -> dict[str, str]:
    with store_view(folder) as view, store_view(target) as other:
        items, known = plan_verify_copy(view, other, view.segments())
        assert pickle.loads(pickle.dumps(items)) == items
        found = [*known, *verify_copy(view, other, LocalExecutor(2), items)]
    return {outcome.subject: outcome.status for outcome in found}


def content(folder: Path) -> dict[str, tuple[bytes, bool]]:
    with siltstone.open(folder, read_only=True) as store:
        return {
            info.name: (
                store.segment(info.name).read(info.start_offset, info.length),
                info.sealed,
            )
            for info in store.list()
        }


def write(folder: Path, **data: bytes) -> None:
    with siltstone.open(folder) as store:
        for name, more in data.items():
            store.create(name, exist_ok=True).append(more)
