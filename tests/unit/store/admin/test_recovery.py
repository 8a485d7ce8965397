"""Recovery of a store in files, by the function and by the command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import FencedError, LogLostError
from siltstone.core.records.table_record import encoded_length
from siltstone.tier1.file.fenced_log import FileFencedLog

LINEAGE = bytes(range(16))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A closed store with flushed and unflushed bytes in each of two containers."""
    folder = tmp_path / "store"
    siltstone.init(folder, containers=2)
    settings = folder / "siltstone.yaml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB"))
    with siltstone.open(folder) as store:
        for name in ("{0}", "{2}"):
            store.create(name).append(b"flushed")
        assert store.container_count == 2
        store.flush()
        for name in ("{0}", "{2}"):
            store.segment(name).append(b", and not")
    return folder


@pytest.mark.slow
def test_one_container_after_the_other(place: Path) -> None:
    shutil.rmtree(place / "tier1")
    dry = siltstone.recover(place)
    assert [report.state for report in dry] == ["lost", "lost"]
    assert not (place / "tier1").exists()
    (first,) = siltstone.recover(place, [1], accept_loss=True)
    assert first.done
    assert [report.state for report in siltstone.recover(place)] == ["lost", "healthy"]
    siltstone.recover(place, accept_loss=True)
    with siltstone.open(place) as store:
        for name in ("{0}", "{2}"):
            assert store.segment(name).read(0, 100) == b"flushed"
            store.segment(name).append(b" again")
        assert not [finding for finding in store.check() if finding.severity == "damage"]
    with siltstone.open(place, read_only=True) as store:
        assert store.segment("{0}").read(0, 100) == b"flushed again"


@pytest.mark.slow
def test_no_such_container(place: Path) -> None:
    with pytest.raises(ValueError, match="no container 2: the store has 2 containers"):
        siltstone.recover(place, [2])


@pytest.mark.slow
def test_a_damaged_log_is_set_aside_with_all_that_it_holds(place: Path) -> None:
    files = sorted((place / "tier1" / "c0").glob("*.log"))
    for file in files:
        data = bytearray(file.read_bytes())
        at = data.find(b", and not")
        if at >= 0:
            data[at] ^= 1
            file.write_bytes(data)
    kept = {file.name: file.read_bytes() for file in files}
    with pytest.raises(siltstone.CorruptDataError):
        siltstone.open(place)
    (report,) = siltstone.recover(place, [0], accept_loss=True)
    assert "bad frame" in report.reason or "damaged" in report.reason
    assert report.set_aside is not None
    aside = Path(report.set_aside)
    assert aside == place / "tier1" / "c0-aside-1"
    assert kept.items() <= {file.name: file.read_bytes() for file in aside.glob("*.log")}.items()
    with siltstone.open(place) as store:
        contents = {store.segment(name).read(0, 100) for name in ("{0}", "{2}")}
        assert contents == {b"flushed", b"flushed, and not"}


def test_a_handle_on_a_log_that_was_set_aside_does_nothing_more(tmp_path: Path) -> None:
    old = FileFencedLog(str(tmp_path), 0, file_bytes=64 * 1024)
    old.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="old")
    old.append([b"one"], count=1)
    recovery = FileFencedLog(str(tmp_path), 0, file_bytes=64 * 1024)
    recovery.fence_all()
    with pytest.raises(FencedError):
        old.append([b"two"], count=1)
    place = recovery.set_aside()
    assert place is not None
    assert recovery.set_aside() is None
    recovery.claim(lineage=LINEAGE[::-1], new=True, above=9, takeover=False, owner="new")
    recovery.append([b"new"], count=1)
    old.close()
    recovery.close()
    last = FileFencedLog(str(tmp_path), 0, file_bytes=64 * 1024)
    last.claim(lineage=LINEAGE[::-1], new=False, above=0, takeover=False, owner="last")
    assert next(bytes(frame.body) for frame in last.read(0)) == b"new"
    last.close()


def test_a_marker_that_is_damaged_can_be_fenced(tmp_path: Path) -> None:
    old = FileFencedLog(str(tmp_path), 0, file_bytes=64 * 1024)
    old.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="old")
    marker = tmp_path / "c0" / "marker"
    content = bytearray(marker.read_bytes())
    content[4] ^= 1
    content[516] ^= 1
    with marker.open("r+b") as file:
        file.write(content)
    recovery = FileFencedLog(str(tmp_path), 0, file_bytes=64 * 1024)
    recovery.fence_all()
    with pytest.raises(siltstone.LogError):
        old.append([b"two"], count=1)
    old.close()
    recovery.close()


@pytest.mark.slow
@pytest.mark.parametrize("appends", [0, 1, 60], ids=["shorter", "a little", "longer"])
def test_an_open_reader_continues_with_no_bytes_of_another_history(
    place: Path, appends: int
) -> None:
    """It would show lost bytes before newer ones."""
    with siltstone.open(place, read_only=True) as reader:
        shown = reader.segment("{0}")
        assert shown.read(0, 100) == b"flushed, and not"
        shutil.rmtree(place / "tier1")
        siltstone.recover(place, accept_loss=True)
        with siltstone.open(place) as owner:
            for _ in range(appends):
                owner.segment("{0}").append(b" again")

            def look() -> None:
                while True:  # some time after its last look, it looks at the log again
                    shown.info()

            for _ in range(2):
                with pytest.raises(LogLostError, match="open it again"):
                    look()
    with siltstone.open(place, read_only=True) as reader:
        assert reader.segment("{0}").read(0, 1_000) == b"flushed" + appends * b" again"


@pytest.mark.slow
def test_a_table_record_that_lies_in_the_place_of_another_is_damage(tmp_path: Path) -> None:
    """Both are whole and of equal length; the index of the checkpoint ends between them."""
    place = tmp_path / "store"
    siltstone.init(place)
    with siltstone.open(place) as store:
        table = store.create_table("t")
        for value in (b"1", b"2", b"3"):
            if value == b"3":
                store.checkpoint()
            table.put(b"key", value)
            store.flush()
    (file,) = (place / "chunks" / "system" / "c0").glob("e*/tables-*")
    log, records, position = file.read_bytes(), [], 0
    while position < len(log):
        length = encoded_length(log, position)
        assert length is not None
        records.append(log[position : position + length])
        position += length
    earlier, last = (n for n, record in enumerate(records) if record[-5:-4] in (b"2", b"3"))
    assert last == len(records) - 1
    records[earlier], records[last] = records[last], records[earlier]
    file.write_bytes(b"".join(records))
    assert len(file.read_bytes()) == len(log)
    (owned,) = siltstone.recover(place)
    assert owned.state == "damaged"
    assert any("table record of another place" in text for text in owned.harm)
    for name in ("tier1", "index"):
        shutil.rmtree(place / name)
    (dry,) = siltstone.recover(place)
    assert dry.state == "lost"
    assert "table record of another place" in str(dry)
    with siltstone.open(place, recover="read-only") as store:
        found = store.table("t").get(b"key")
        assert found is not None
        assert found.value == b"2"
    siltstone.recover(place, accept_loss=True)
    with siltstone.open(place) as store:
        found = store.table("t").get(b"key")
        assert found is not None
        assert found.value == b"2"
