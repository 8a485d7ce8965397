"""Keyspaces that each version left half-way are read and brought to their end here."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import objects
from siltstone.objects.record_check import headers_of
from siltstone.objects.records.keys import LARGE_VALUE, TASK, LargeStatus, decode_large_key
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.objects.records.value_record import ValueKind
from siltstone.objects.space_names import FATE_ATTRIBUTE, SegmentFate, SpaceNames
from tests.golden.keyspace_states import (
    PLACE,
    REBUILT,
    RECALC,
    SIZE_LABEL,
    UNDONE,
    UPLOADING,
    content_of,
    content_of_all,
    rows_of,
    statuses,
)
from tests.golden.keyspace_store import wait_until
from tests.golden.make import ARCHIVE, FOLDER, ROWS, STATES, WHOLE

VERSIONS = sorted(path.parent.parent.name for path in FOLDER.glob(f"*/{STATES}/{ARCHIVE}"))
KINDS = ["01", "02", "03", "04", "05", "08", "09", "10", "20"]
"""First bytes of the keys of all rows."""


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(version: str, tmp_path: Path) -> Path:
    packed = lzma.decompress((FOLDER / version / STATES / ARCHIVE).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def kept(version: str, name: str) -> Any:
    return json.loads((FOLDER / version / STATES / name).read_text(encoding="utf-8"))


def test_this_version_has_one_with_all_kinds_of_rows(version: str) -> None:
    assert siltstone.__version__ in VERSIONS
    rows = kept(siltstone.__version__, ROWS)
    assert sorted({key[:2] for each in rows.values() for key in each}) == KINDS
    assert sorted({key[2:4] for key in rows["films"] if key[:2] == "05"}) == ["01", "02", "03"]
    phases = [rows[name]["02"][:6] for name in UNDONE]
    assert phases == ["100104", "100102", "100101"]
    assert len({len(key) > 20 for key in rows["doubtful"] if key[:2] == "09"}) == 2


def test_keyspaces_show_what_they_held(version: str, folder: Path) -> None:
    with siltstone.open(folder, read_only=True) as store:
        assert rows_of(store) == kept(version, ROWS)
        assert content_of_all(store) == kept(version, WHOLE)
        for name in UNDONE:
            with pytest.raises(objects.RebuildingError):
                objects.open(store, name)
    with siltstone.open(folder) as store:
        assert content_of_all(store) == kept(version, WHOLE)


def test_value_segments_have_all_kinds_of_records_and_all_fates(folder: Path) -> None:
    with siltstone.open(folder, read_only=True) as store:
        films, kinds = objects.open(store, "films"), set()
        for each in films.stat().segments:
            if each.status == "sealed":
                data = store.segment(each.segment).read(0, 1 << 20)
                for found in headers_of(data[each.length :], each.length, where=each.segment):
                    kinds.add(found.header.kind)
        assert kinds == set(ValueKind)
        infos = store.list(SpaceNames("films").values)
        fates = {info.attributes.get(FATE_ATTRIBUTE) for info in infos}
        assert fates == {None, SegmentFate.NAMED.value, SegmentFate.REPLACED.value}


def test_what_is_half_done_is_brought_to_its_end(version: str, folder: Path) -> None:
    names = SpaceNames("films")
    with siltstone.open(folder) as store:
        objects.open(store, "films")
        wait_until(lambda: ValueStatus.ROLLING not in statuses(store, "films"))
    with siltstone.open(folder) as store:
        films = objects.open(store, "films")
        table = store.table(names.ledger)
        left = [decode_large_key(key)[0] for key, _ in table.scan(LARGE_VALUE, b"\x06")]
        assert left == [LargeStatus.LIVE]
        assert names.large_segment(UPLOADING) not in [info.name for info in store.list()]
        assert list(table.scan(TASK, b"\x05"))
        films.compact()
        assert list(table.scan(TASK, b"\x05")) == []
        assert {info.name for info in store.list(names.values)} == {
            each.segment for each in films.stat().segments
        }
        assert [each for each in films.check(deep=True) if each.severity == "damage"] == []
        assert content_of_all(store) == kept(version, WHOLE)


def test_rebuilds_go_on(folder: Path) -> None:
    expected = {f"k{number:02}": b"%d" % (number + 20 * (number < 10)) for number in range(20)}
    del expected["k04"]
    with siltstone.open(folder) as store:
        for name in REBUILT:
            report = objects.rebuild(store, name, recalc=RECALC)
            assert (report.doubtful, report.unnamed) == ((), 0)
            made = objects.open(store, name)
            found = {each.head.key: each.value for each in made.objects("2026")}
            found |= {each.head.key: each.value for each in made.objects("2026", tag="calc")}
            assert found == expected
            terms = list(made.index("2026", "n")), list(made.index("2026", SIZE_LABEL, tag="calc"))
            odd = sorted(key for key in expected if int(key[1:]) % 2)
            assert terms[0] == [("old", key) for key in sorted(expected) if key not in odd]
            assert terms[1] == sorted((f"{len(expected[key])}", key) for key in odd)
            assert list(made.check(deep=True)) == []


def test_a_restore_goes_on_and_a_backup_is_whole(version: str, folder: Path) -> None:
    verified = objects.verify_backups(folder / PLACE)
    assert (verified.generations, verified.damage) == (1, ())
    with siltstone.open(folder) as store:
        expected = kept(version, WHOLE)["restored"]
        assert expected["objects"]
        for name in ("restoring", "another"):
            objects.restore(store, name, folder / PLACE, recalc=RECALC)
            assert content_of(store, name) == expected
            assert list(objects.open(store, name).check(deep=True)) == []


def test_doubtful_objects_are_named_until_they_are_put_again(folder: Path) -> None:
    with siltstone.open(folder) as store:
        doubtful = objects.open(store, "doubtful")
        assert sorted(each.key for each in doubtful.doubtful()) == [
            f"k{number}" for number in range(4)
        ]
        doubtful.put("2026", "k2", b"again")
        report = objects.rebuild(store, "doubtful")
        assert sorted(each.key for each in report.doubtful) == ["k0", "k1", "k3"]
        assert report.unnamed == 4


def test_entries_of_heads_only_are_continued(folder: Path) -> None:
    with siltstone.open(folder) as store:
        clocks = objects.open(store, "clocks")
        head = clocks.head("2026", "b", "right")
        assert head is not None
        assert (
            clocks.mput(
                [("remove", "2026", "b", "right")], expected={("2026", "b", "right"): head.sqn}
            ).sqn
            == 4
        )
        assert [each.subkey for each in clocks.heads("2026")] == ["left"]
        assert objects.open(store, "ticks").mput([("add", "2026", "z", "", b"")]).sqn == 2
