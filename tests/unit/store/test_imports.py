"""Imports as an application uses them: tickets that travel, writers on other hosts, one commit."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import siltstone
from siltstone import ImportMode, ImportOutput, ImportTicket, ImportWriter
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome

DATA = bytes(range(256)) * 5


def bring(
    folder: Path, ticket: ImportTicket, data: bytes, **options: int
) -> tuple[siltstone.ImportedChunk, ...]:
    """What a worker does with a ticket that it received."""
    sent: ImportTicket = pickle.loads(pickle.dumps(ticket))
    with ImportWriter(folder, sent, **{"partition": 0, "attempt": 0, **options}) as writer:
        half = len(data) // 2
        writer.write(data[:half])
        writer.write(memoryview(data)[half:])
        assert writer.length == len(data)
        return writer.finish()


def test_a_writer_needs_no_claim_and_a_commit_gives_its_chunks_to_a_segment(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        ticket = store.open_import("job", "s")
    chunks = bring(tmp_path, ticket, DATA, chunk_bytes=500)
    assert [chunk.length for chunk in chunks] == [500, 500, 280]
    bring(tmp_path, ticket, b"of a lost attempt", attempt=1)
    with siltstone.open(tmp_path) as store:
        output = ImportOutput(segment="s", chunks=chunks)
        (found,) = store.commit_import(ticket, [output]).segments
        assert (found.segment, found.offset, found.length) == ("s", 0, len(DATA))
        assert store.segment("s").read(0, len(DATA)) == DATA
        assert store.segment("s").info().sealed
        assert [chunk.chunk for chunk in store.segment("s").chunks()] == [c.name for c in chunks]
        assert store.commit_import(ticket, [output]).repeated
        assert not store.abort_import(ticket)
        assert [f for f in store.check() if f.severity != "info"] == []
    files = [path for path in (tmp_path / "chunks" / "import").rglob("*") if path.is_file()]
    assert len(files) == len(chunks)


def test_an_aborted_import_leaves_nothing(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        ticket = store.open_import("job", "s")
        chunks = bring(tmp_path, ticket, DATA)
        assert store.abort_import(ticket)
        with pytest.raises(siltstone.ImportSessionError, match="aborted"):
            store.commit_import(ticket, [ImportOutput(segment="s", chunks=chunks)])
        assert [*store.list()] == []
    assert not [path for path in (tmp_path / "chunks" / "import").rglob("*") if path.is_file()]


def test_bytes_that_are_taken_are_those_at_the_time_of_the_write(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        store.create("s").append(b"a")
        ticket = store.open_import("job", "s")
        with ImportWriter(tmp_path, ticket, partition=3, attempt=9) as writer:
            assert writer.finish() == ()
            writer.write(b"")
            writer.write(b"bc")
            chunks = writer.finish()
        output = ImportOutput(segment="s", chunks=chunks, mode=ImportMode.APPEND)
        store.commit_import(ticket, [output])
        assert store.segment("s").read(0, 9) == b"abc"
        assert store.open_import("job", "s").state is siltstone.ImportState.COMMITTED


def test_an_unknown_create_burns_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    siltstone.init(tmp_path)
    names: list[str] = []
    real = NfsChunkStorage.create

    def create(self: NfsChunkStorage, name: str, buffers: list[bytes]) -> None:
        names.append(name)
        real(self, name, buffers)
        if len(names) == 1:
            raise ChunkUnavailableError(
                "no answer", chunk=name, operation="create", outcome=Outcome.UNKNOWN
            )

    with siltstone.open(tmp_path) as store:
        ticket = store.open_import("job", "s")
        monkeypatch.setattr(NfsChunkStorage, "create", create)
        (chunk,) = bring(tmp_path, ticket, DATA)
        monkeypatch.undo()
        assert names[0] != names[1] == chunk.name
        store.commit_import(ticket, [ImportOutput(segment="s", chunks=(chunk,))])
        assert store.segment("s").read(0, len(DATA)) == DATA
        path = tmp_path / "chunks" / names[0]
        assert not path.exists(), "the burnt one is swept"


@pytest.mark.slow
def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    siltstone.init(tmp_path / "a", containers=4)
    siltstone.init(tmp_path / "b")
    with siltstone.open(tmp_path / "a") as store:
        ticket = store.open_import("job", "s")
        others = [f"t{number}" for number in range(20)]
        with pytest.raises(siltstone.SeveralContainersError, match="session job"):
            store.commit_import(ticket, [ImportOutput(segment=n, chunks=()) for n in others])
        with pytest.raises(ValueError, match="256 bytes"):
            store.open_import("x" * 257, "s")
        with pytest.raises(siltstone.SegmentNameError):
            store.open_import("job", "")
    with (
        siltstone.open(tmp_path / "a", read_only=True) as store,
        pytest.raises(siltstone.ReadOnlyError),
    ):
        store.open_import("job", "s")
    settings = tmp_path / "a" / "siltstone.yaml"
    settings.write_text(settings.read_text().replace("./chunks", "../b/chunks"))
    with pytest.raises(siltstone.StoreError, match="another store"):
        ImportWriter(tmp_path / "a", ticket, partition=0, attempt=0)
    with pytest.raises(siltstone.StoreNotFoundError):
        ImportWriter(tmp_path / "nowhere", ticket, partition=0, attempt=0)
