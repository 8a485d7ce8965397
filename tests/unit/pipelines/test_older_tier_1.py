"""Jobs that continue after bytes that the source lost meanwhile: tier 1 was put back.

Nothing in the store shows it if the copy that was put back is from the same, killed epoch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path

import pytest

import siltstone
from siltstone import Store
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import StoreError
from siltstone.pipelines.copy_plan import CONFLICT
from siltstone.pipelines.export_layout import Form, Records
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import OK, SAME, Item, ItemOutcome, Work
from tests.support.pipelines import exports
from tests.support.pipelines.copies import content, copied, verified, write
from tests.support.stores import make_store
from tests.unit.pipelines.conftest import text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", chunk_bytes=10_000, containers=1)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return make_store(tmp_path / "target", chunk_bytes=10_000, containers=2)


def put_back(
    folder: Path, kept: Callable[[Store], object], lost: Callable[[Store], object]
) -> None:
    """Let a store keep the effects of the first call, and none of the second one.

    It is killed and then gets back its tier 1 from between the two, within one epoch.
    """
    parts = ("tier1", "chunks", "index")
    with siltstone.open(folder) as store:
        kept(store)
        shutil.copytree(folder / "tier1", folder / "tier1-older")
        lost(store)
        for name in parts[1:]:
            shutil.copytree(folder / name, folder / f"{name}-older")
    for name in parts:
        shutil.rmtree(folder / name)
        (folder / f"{name}-older").rename(folder / name)
    shutil.rmtree(folder / "index")


def append(**data: bytes) -> Callable[[Store], None]:
    def call(store: Store) -> None:
        for name, more in data.items():
            store.create(name, exist_ok=True).append(more)

    return call


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, 1])
def test_a_copy_with_bytes_that_tier_1_forgot_does_not_continue(
    folder: Path, target: Path, more: int
) -> None:
    long = text("long", BLOCK_BYTES + 5_000)

    def lose(store: Store) -> None:
        append(a=b"lost", b=b"")(store)
        assert copied(folder, target) == {"a": OK, "b": OK}

    put_back(folder, append(a=long, b=b"whole"), lose)
    write(folder, a=b"else" + bytes(more), b=b", and more")
    before = content(target)["a"]
    assert copied(folder, target) == {"a": CONFLICT, "b": OK}
    assert content(target)["a"] == before == (long + b"lost", False)
    with siltstone.open(target) as store:
        store.segment("a").delete()
    assert copied(folder, target) == {"a": OK, "b": SAME}
    assert content(target) == content(folder)
    assert set(verified(folder, target).values()) == {OK}


class Dying(LocalExecutor):
    """Ends after one pack, as if killed."""

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        for outcome in super().run(work, packs):
            yield outcome
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_killed_copy_forgets_what_it_brought_of_other_bytes(
    folder: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.pipelines.copy_plan.PART_BYTES", 20_000)
    monkeypatch.setattr("siltstone.pipelines.copy_plan.GROUP_BYTES", 20_000)
    monkeypatch.setattr("siltstone.pipelines.import_notes.NOTE_BYTES", 1)
    first, second = text("first", 60_000), text("second", 60_000)

    def lose(store: Store) -> None:
        append(a=first)(store)
        with pytest.raises(KeyboardInterrupt):
            copied(folder, target, Dying(1))

    put_back(folder, append(a=b"kept"), lose)
    write(folder, a=second)
    assert copied(folder, target) == {"a": OK}
    assert content(target) == content(folder) == {"a": (b"kept" + second, False)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "records"),
    [
        (Form.FILES, Records.BYTES),
        (Form.PARQUET, Records.BYTES),
        (Form.PARQUET, Records.LINES),
        (Form.PARQUET, Records.EVENTS),
    ],
)
@pytest.mark.parametrize("case", ["longer", "as long", "shorter"])
def test_an_export_with_bytes_that_tier_1_forgot_does_not_continue(
    folder: Path, tmp_path: Path, form: Form, records: Records, case: str
) -> None:
    def record(data: bytes) -> bytes:
        return siltstone.events.encode(data) if records is Records.EVENTS else data + b"\n"

    def exported(name: str) -> set[str]:
        found = exports.exported(folder, tmp_path / name, form, records)
        return {one.status for one in found}

    def lose(store: Store) -> None:
        append(a=record(b"lost") * 2, b=record(b"both"))(store)
        assert exported("out") == {OK}

    other = {
        "longer": record(b"else") * 3,
        "as long": record(b"else") * 2,
        "shorter": record(b"else"),
    }
    put_back(folder, append(a=record(b"kept") * 3_000), lose)
    write(folder, a=other[case], b=record(b"both"))
    before = exports.files_of(tmp_path / "out")
    with pytest.raises(StoreError, match=r"put back to an older copy.* segment=a start="):
        exported("out")
    assert exports.files_of(tmp_path / "out") == before
    assert exported("new") == {OK}
    assert exported("new") == set()
    assert set(exports.verified(folder, tmp_path / "new").values()) == {OK}


@pytest.mark.slow
def test_an_export_continues_where_the_store_has_its_last_bytes(
    folder: Path, tmp_path: Path
) -> None:
    def exported() -> set[str]:
        return {
            one.status
            for one in exports.exported(folder, tmp_path / "out", Form.PARQUET, Records.LINES)
        }

    write(folder, a=b"one\ntwo\nhal")
    assert exported() == {OK}
    write(folder, a=b"f\n")
    assert exported() == {OK}
    with siltstone.open(folder) as store:
        store.flush()
        store.segment("a").truncate(5)
        store.segment("a").append(b"four\n")
        store.flush()
    assert exported() == {OK}
    assert exported() == set()
    with siltstone.open(folder) as store:
        store.segment("a").truncate(store.segment("a").info().length)
    assert exported() == set()
