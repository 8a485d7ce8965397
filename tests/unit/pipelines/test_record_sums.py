"""Objects in place without sums: workers read them, the owner records sums; jobs before that."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.cli.main import run
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import StoreError
from siltstone.pipelines.copy_plan import UNREADABLE
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.record_sums import plan_sums, record_sums
from siltstone.pipelines.scrub import DAMAGED, MISSING, SHORT, UNVERIFIED, scrub
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
from siltstone.pipelines.work import OK, Executor, Item, ItemOutcome, Work
from tests.support.stores import flip, make_store
from tests.unit.pipelines.conftest import text

FILES = {"a": text("a", 3 * BLOCK_BYTES + 77), "b": text("b", 100), "c": text("c", 9_000)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store that took three files in place without reading them, and also has its own bytes."""
    made = make_store(tmp_path / "store")
    old = made / "chunks" / "old"
    old.mkdir(parents=True)
    for name, data in FILES.items():
        (old / name).write_bytes(data)
        taken = ["import", name, str(old / name), "--in-place", "--no-verify"]
        assert run(["--store", str(made), "--quiet", *taken]) == 0
    with siltstone.open(made) as store:
        store.segment("a").append(b"and more")
        store.create("own").append(b"own")
        store.flush()
    return made


def recorded(folder: Path, executor: Executor, names: Sequence[str] = ()) -> dict[str, str]:
    with owned_store(folder) as owned, store_view(folder) as view:
        items = plan_sums(view, view.segments(names))
        found = list(record_sums(view, owned, executor, items))
    assert all(not outcome.detail for outcome in found)
    return {outcome.subject: outcome.status for outcome in found}


def scrubbed(folder: Path) -> dict[str, str]:
    with store_view(folder) as view:
        found = {outcome.subject: outcome.status for outcome in scrub(view, LocalExecutor(2))}
    return {name: status for name, status in found.items() if name.startswith("old/")}


@pytest.mark.slow
def test_what_workers_read_is_recorded_once(folder: Path) -> None:
    assert scrubbed(folder) == {f"old/{name}": UNVERIFIED for name in FILES}
    assert recorded(folder, LocalExecutor(2), ["a"]) == {"old/a": OK}
    assert recorded(folder, LocalExecutor(2)) == {"old/b": OK, "old/c": OK}
    assert recorded(folder, LocalExecutor(2)) == {}
    assert scrubbed(folder) == {f"old/{name}": OK for name in FILES}
    with siltstone.open(folder, read_only=True) as store:
        assert store.segment("a").read(0, 1 << 20) == FILES["a"] + b"and more"
        assert [found for found in store.check(deep=True) if found.severity == "damage"] == []
    for name in FILES:
        flip(folder / "chunks" / "old" / name, len(FILES[name]) - 1)
    assert scrubbed(folder) == {f"old/{name}": DAMAGED for name in FILES}


@pytest.mark.slow
def test_an_object_that_is_not_what_was_adopted_gets_no_sums(folder: Path) -> None:
    old = folder / "chunks" / "old"
    (old / "a").unlink()
    (old / "b").write_bytes(b"short")
    (old / "c").write_bytes(FILES["c"] + b"longer")
    wrong = {"old/a": MISSING, "old/b": SHORT, "old/c": DAMAGED}
    assert recorded(folder, LocalExecutor(2)) == wrong
    for name, data in FILES.items():
        (old / name).write_bytes(data)
    assert scrubbed(folder) == {f"old/{name}": UNVERIFIED for name in FILES}
    assert set(recorded(folder, LocalExecutor(2)).values()) == {OK}


class Elsewhere:
    """Workers with the settings file of another store."""

    workers = 2

    def __init__(self, store: Path) -> None:
        self.store = str(store / "siltstone.yaml")

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        changed: Any = work
        yield from LocalExecutor(2).run(replace(changed, store=self.store), packs)

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_a_worker_with_the_settings_of_another_store_reads_nothing(
    folder: Path, tmp_path: Path
) -> None:
    other = make_store(tmp_path / "other")
    with pytest.raises(StoreError, match="another store"):
        recorded(folder, Elsewhere(other))
    assert scrubbed(folder) == {f"old/{name}": UNVERIFIED for name in FILES}


@pytest.mark.slow
def test_a_copy_and_its_check_cover_what_has_no_sums(folder: Path, tmp_path: Path) -> None:
    def copied(target: Path) -> dict[str, str]:
        with store_view(folder) as view, owned_store(target) as owned:
            found = list(copy(view, owned, LocalExecutor(2), view.segments()))
        return {outcome.subject: outcome.status for outcome in found}

    def compared(target: Path) -> dict[str, str]:
        with store_view(folder) as view, store_view(target) as other:
            items, known = plan_verify_copy(view, other, view.segments())
            found = [*known, *verify_copy(view, other, LocalExecutor(2), items)]
        return {outcome.subject.partition("[")[0]: outcome.status for outcome in found}

    target = make_store(tmp_path / "target")
    assert copied(target) == dict.fromkeys([*FILES, "own"], OK)
    with siltstone.open(target, read_only=True) as store:
        assert store.segment("a").read(0, 1 << 20) == FILES["a"] + b"and more"
        assert store.segment("c").read(0, 1 << 20) == FILES["c"]
    assert compared(target) == dict.fromkeys([*FILES, "own"], OK)
    # Without sums, only the comparison with the copy finds a changed byte; a lost one shows by
    # the length.
    old = folder / "chunks" / "old"
    flip(old / "c", 8_000)
    (old / "b").write_bytes(b"short")
    found = compared(target)
    assert (found["a"], found["b"], found["c"]) == (OK, UNREADABLE, "differs")
    again = copied(make_store(tmp_path / "again"))
    assert again == {"a": OK, "b": UNREADABLE, "c": OK, "own": OK}
