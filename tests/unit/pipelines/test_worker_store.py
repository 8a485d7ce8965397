"""A worker whose settings lead to another store than the job's does nothing and names both."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import LogLostError
from siltstone.migration.relocate.objects import MoveWork
from siltstone.pipelines.compact import MergeWork
from siltstone.pipelines.copy_work import CopyWork
from siltstone.pipelines.export import ExportWork
from siltstone.pipelines.look_up import find_window
from siltstone.pipelines.open_store import OpenStore
from siltstone.pipelines.record_sums import SumsWork
from siltstone.pipelines.scrub import ScrubWork
from siltstone.pipelines.verify_copy import VerifyCopyWork
from siltstone.pipelines.verify_export import VerifyExportWork
from siltstone.pipelines.work import Work
from tests.support.stores import make_store

Make = Callable[[str, str, str, str], Work]
"""Makes work from path and uuid of the intended store, and of a second one."""

WORKS: dict[str, Make] = {
    "scrub": lambda path, uuid, *_: ScrubWork(store=path, uuid=uuid, rate=None),
    "export": lambda path, uuid, *_: ExportWork(store=path, uuid=uuid, rate=None),
    "verify export": lambda path, uuid, *_: VerifyExportWork(store=path, uuid=uuid, rate=None),
    "sums": lambda path, uuid, *_: SumsWork(store=path, uuid=uuid, rate=None),
    "merge": lambda path, uuid, *_: MergeWork(store=path, uuid=uuid, rate=None),
    "copy from": lambda path, uuid, other, second: CopyWork(
        source=path, uuid=uuid, target=other, target_uuid=second, rate=None
    ),
    "copy to": lambda path, uuid, other, second: CopyWork(
        source=other, uuid=second, target=path, target_uuid=uuid, rate=None
    ),
    "verify copy of": lambda path, uuid, other, second: VerifyCopyWork(
        source=path, source_uuid=uuid, target=other, target_uuid=second, rate=None
    ),
    "verify copy in": lambda path, uuid, other, second: VerifyCopyWork(
        source=other, source_uuid=second, target=path, target_uuid=uuid, rate=None
    ),
    "move": lambda path, uuid, other, _: MoveWork(source=path, target=other, uuid=uuid, rate=None),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Path of the settings file and uuid of three stores."""
    found = []
    for name in ("meant", "second", "wrong"):
        folder = make_store(tmp_path_factory.mktemp("stores") / name, containers=1)
        with siltstone.open(folder) as store:
            store.create("a").append(b"line\n" * 1_000)
            store.flush()
            found.append((str(folder / "siltstone.yaml"), store.uuid))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORKS)
def test_work_begins_only_in_the_store_that_was_planned_for(
    stores: list[tuple[str, str]], kind: str
) -> None:
    (path, uuid), (other, second), (wrong, found) = stores
    refused = pytest.raises(siltstone.StoreError, match=f"found={found} expected={uuid}")
    with refused, WORKS[kind](wrong, uuid, other, second).open():
        pass
    if kind != "move":  # the job begins the place that it moves to
        with WORKS[kind](path, uuid, other, second).open():
            pass


def test_a_look_up_in_another_store_is_refused(stores: list[tuple[str, str]]) -> None:
    (path, uuid), _, (wrong, found) = stores
    with OpenStore(path) as store:
        planned = store.ask("a", lambda container: container.map("a"))
    meant = ("a", planned.info.segment_id, planned.lineage, 0, 5_000)
    assert find_window(path, uuid, *meant).start == 0
    with pytest.raises(siltstone.StoreError, match=f"found={found} expected={uuid}"):
        find_window(wrong, uuid, *meant)


@pytest.mark.slow
def test_a_look_up_after_a_recovery_with_loss_is_refused(
    stores: list[tuple[str, str]],
) -> None:
    (path, uuid), *_ = stores
    with OpenStore(path) as store:
        planned = store.ask("a", lambda container: container.map("a"))
    shutil.rmtree(Path(path).parent / "tier1")
    siltstone.recover(path, accept_loss=True)
    with pytest.raises(LogLostError, match="was recovered since"):
        find_window(path, uuid, "a", planned.info.segment_id, planned.lineage, 0, 5_000)


def test_a_share_of_an_import_goes_to_the_store_of_its_ticket(
    stores: list[tuple[str, str]],
) -> None:
    (path, uuid), _, (wrong, found) = stores
    with siltstone.open(path) as store:
        ticket = store.open_import("job", "brought")
        siltstone.ImportWriter(path, ticket, partition=0, attempt=0).close()
        with pytest.raises(siltstone.StoreError, match=f"found={found} expected={uuid}"):
            siltstone.ImportWriter(Path(wrong), ticket, partition=0, attempt=0)
        store.abort_import(ticket)
