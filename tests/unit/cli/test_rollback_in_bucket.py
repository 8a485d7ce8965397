"""Rolling back a legacy layout on storage that is no folder: what was appended since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.core.hooks import load_chunk_storage
from tests.support.command import Command, Ran
from tests.support.migration.migrated_layout import TWO, shown

BUCKET = {
    **TWO,
    "b$header": "maxsize=9&0=b$offset.0&",
    "b$offset.0": "xyz",
    "bare": "bytes",
    "same$header": "maxsize=9&0=same$offset.0&",
    "same$offset.0": "unchanged",
}


@dataclass(frozen=True)
class Bucket:
    """A store that took a layout in its long-term storage in place."""

    store: Path
    storage: ChunkStorage
    call: Callable[..., Ran]
    told: tuple[str, ...]

    def objects(self) -> dict[str, str]:
        """Every object of the layout."""
        found = {}
        for stat in self.storage.list("old/"):
            buffer = bytearray(stat.length)
            self.storage.read_into(stat.name, 0, buffer)
            found[stat.name.removeprefix("old/")] = buffer.decode()
        return found

    def append(self, **parts: bytes) -> None:
        with siltstone.open(self.store) as store:
            for name, data in parts.items():
                store.segment(name).append(data)


@pytest.fixture(params=[True, False], ids=["appends", "writes once"])
def bucket(request: pytest.FixtureRequest, command: Command, tmp_path: Path) -> Bucket:
    options = {"name": f"bucket-{tmp_path}", "append": request.param}
    storage = load_chunk_storage("memory", options)
    store = siltstone.init(tmp_path / "far", binding="memory", options=options).parent
    for key, text in BUCKET.items():
        storage.create(f"old/{key}", [text.encode()])
    sealed = tmp_path / "sealed"
    sealed.write_text("b$header\nb$offset.0\n")
    told = ("storage:old/", "--sealed", str(sealed))

    def call(*arguments: str) -> Ran:
        return command(*arguments, store=str(store))

    assert call("migrate", "legacy", *told, "--in-place").code == 0
    return Bucket(store, storage, call, told)


@pytest.mark.slow
def test_a_bucket_gets_what_was_appended_since(bucket: Bucket) -> None:
    """A missing header is made; an existing one is appended to, or everything is refused."""
    appends = bucket.storage.capabilities.append
    bucket.append(bare=b" and more", **({"a": b"fghij"} if appends else {}))
    expected = shown(bucket.store)
    ran = bucket.call("migrate", "rollback", *bucket.told)
    assert (ran.code, ran.out) == (0, "")
    found = bucket.objects()
    assert {key: found[key] for key in BUCKET if key != "a$header"} == {
        key: text for key, text in BUCKET.items() if key != "a$header"
    }
    assert found["bare$offset.5"] == " and more"
    assert found["bare$header"].endswith("&0=bare&5=bare$offset.5&")
    if appends:
        assert found["a$header"] == BUCKET["a$header"] + "5=a$offset.5&8=a$offset.8&"
        assert (found["a$offset.5"], found["a$offset.8"]) == ("fgh", "ij")
    assert shown(bucket.store) == {}
    assert bucket.call("migrate", "legacy", *bucket.told).code == 0
    assert shown(bucket.store) == expected


@pytest.mark.slow
def test_what_a_bucket_cannot_take_is_named_before_anything_changes(bucket: Bucket) -> None:
    appends = bucket.storage.capabilities.append
    bucket.append(a=b"fg", bare=b"more")
    if appends:
        with siltstone.open(bucket.store) as store:
            store.segment("same").seal()
    before, expected = bucket.objects(), shown(bucket.store)
    ran = bucket.call("migrate", "rollback", *bucket.told)
    assert ran.code == 4
    named = "same: it was sealed since" if appends else "a: its header is an object"
    assert f"1 segment changed and cannot be written back, such as {named}" in ran.err
    assert (bucket.objects(), shown(bucket.store)) == (before, expected)
    assert bucket.call("rm", "same" if appends else "a").code == 0
    ran = bucket.call("migrate", "rollback", *bucket.told)
    assert ran.code == 0
    assert bucket.objects()["bare$offset.5"] == "more"


@pytest.mark.slow
def test_a_rollback_of_a_bucket_that_died_continues(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.append(bare=b"more")
    real = type(bucket.storage).create

    def dies(self: ChunkStorage, name: str, buffers: Any) -> None:
        if name.endswith("bare$header"):
            raise ChunkUnavailableError(
                "it died", chunk=name, operation="create", outcome=Outcome.NOT_APPLIED
            )
        real(self, name, buffers)

    with monkeypatch.context() as patch:
        patch.setattr(type(bucket.storage), "create", dies)
        assert bucket.call("migrate", "rollback", *bucket.told).code == 1
    assert bucket.objects()["bare$offset.5"] == "more"
    assert set(shown(bucket.store)) == {"bare"}
    assert bucket.call("migrate", "rollback", *bucket.told).code == 0
    assert bucket.objects()["bare$header"].endswith("&0=bare&5=bare$offset.5&")
    assert shown(bucket.store) == {}


@pytest.mark.slow
def test_an_object_in_the_way_is_not_touched(bucket: Bucket) -> None:
    bucket.append(bare=b"more")
    bucket.storage.create("old/bare$offset.5", [b"else"])
    before = bucket.objects()
    ran = bucket.call("migrate", "rollback", *bucket.told)
    assert (ran.code, "bare$offset.5 is in the way" in ran.err) == (4, True)
    assert bucket.objects() == before


@pytest.mark.slow
def test_a_header_in_a_bucket_cannot_leave_out_what_was_truncated_since(bucket: Bucket) -> None:
    bucket.append(bare=b" and more")
    with siltstone.open(bucket.store) as store:
        store.segment("bare").truncate(9)
    before = bucket.objects()
    ran = bucket.call("migrate", "rollback", *bucket.told)
    assert ran.code == 4
    assert "such as bare: bytes 5 to 9 were truncated since" in ran.err
    assert bucket.objects() == before
    assert shown(bucket.store)["bare"] == (9, 14, False, b" more")
