"""A store that continues a legacy layout: what a reader of that layout sees at any moment."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.cli.main import run
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    LostDataError,
    SegmentExistsError,
    SegmentNameError,
    SiltstoneError,
)
from siltstone.migration.legacy.write_through.layout import LegacyChangedError
from siltstone.store.store import Store
from tests.support.command import Command
from tests.support.migration.code_only import (
    Killed,
    begin,
    check_original,
    collect,
    flush_quietly,
    prepared_store,
    written_over,
)
from tests.support.migration.migrated_layout import TWO, fingerprint, rolling, shown, written
from tests.support.migration.places_of_tests import golden_tree, manifest
from tests.support.migration.random_lives import random_life
from tests.support.migration.rolling_model import AbsentError, RollingModel

SEGMENTS: dict[str, dict[str, Any]] = {
    one["name"]: one for one in manifest()["segments"] if one["kind"] == "ok"
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new store."""
    return prepared_store(tmp_path / "store", 2).parent


@pytest.fixture
def small(folder: Path) -> Path:
    """A small layout of two segments, below the store's long-term storage."""
    return written(
        folder / "chunks" / "small",
        {**TWO, "b$header": "maxsize=9&0=b$offset.0&", "b$offset.0": "xyz"},
    )


def neighbour_names(store: Store, name: str, number: int) -> list[str]:
    """Names of segments in the container of another one."""
    index = store.container_index(name)
    return [one for one in map("s{}".format, range(30)) if store.container_index(one) == index][
        :number
    ]


@pytest.mark.slow
def test_old_bytes_stay_and_new_ones_are_written_the_old_way(
    command: Command, folder: Path, small: Path
) -> None:
    before = fingerprint(small)
    ran = begin(command, small)
    assert (ran.code, ran.out) == (0, "")
    assert fingerprint(small) == before
    with siltstone.open(folder) as store:
        store.segment("a").append(b"fghijklm")
        store.segment("b").append(b"0123456789")
        store.create("c").append(b"new!")
        store.flush()
        assert store.segment("a").read(0, 100) == b"abcdefghijklm"
    after = fingerprint(small)
    kept = [key for key in before if not key.endswith("$header")]
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    header = (small / "a$header").read_text()
    assert header == TWO["a$header"] + "5=a$offset.5&8=a$offset.8&11=a$offset.11&"
    assert (small / "a$offset.8").read_text() == "ijk"
    assert (small / "b$offset.3").read_text() == "012345678"
    assert (small / "c$header").read_text() == "maxsize=3&0=c$offset.0&3=c$offset.3&"
    assert rolling(small).read("a") == shown(folder)["a"]
    check_original(small, shown(folder))
    assert not (folder / "chunks" / "data").exists()
    assert command("check", "--deep").code == 0
    assert command("migrate", "verify", str(small)).code == 0
    assert "3 same" in begin(command, small).err


@pytest.mark.slow
def test_a_file_is_filled_by_several_flushes_and_several_owners(
    command: Command, folder: Path, small: Path
) -> None:
    begin(command, small)
    for number in range(5):
        with siltstone.open(folder) as store:
            store.segment("b").append(b"%d" % number)
            store.flush()
    assert (small / "b$header").read_text() == "maxsize=9&0=b$offset.0&3=b$offset.3&"
    assert (small / "b$offset.3").read_text() == "01234"
    assert rolling(small).read("b") == (0, 8, False, b"xyz01234")


@pytest.mark.slow
def test_what_is_sealed_truncated_or_deleted_is_so_in_the_layout(
    command: Command, folder: Path, small: Path
) -> None:
    begin(command, small)
    with siltstone.open(folder) as store:
        store.segment("a").append(b"fghijklm")
        store.segment("a").seal()
        store.create("new/empty").seal()
        store.create("gone").append(b"some")
        store.segment("b").append(b"0123456789abcdef")
        store.segment("b").truncate(13)
        collect(store)
        assert (small / "gone$header").exists()
        store.segment("gone").delete()
        store.segment("a").truncate(9)
        collect(store)
    model = rolling(small)
    assert model.read("a") == (8, 13, True, b"ijklm")
    assert model.read("b") == (12, 19, False, b"9abcdef")
    assert model.read("new/empty") == (0, 0, True, b"")
    with pytest.raises(AbsentError):
        model.read("gone")
    assert not list(small.glob("gone*"))
    with siltstone.open(folder) as store:
        store.segment("b").truncate(19)
        collect(store)
        store.segment("b").append(b"more")
        store.create("gone").append(b"again")
        store.flush()
    check_original(small, shown(folder))
    assert rolling(small).read("gone") == (0, 5, False, b"again")
    assert command("check", "--deep").code == 0
    assert command("migrate", "verify", str(small)).code == 0


@pytest.mark.slow
def test_bytes_that_are_dead_before_they_are_flushed_leave_no_gap(
    command: Command, folder: Path, small: Path
) -> None:
    begin(command, small)
    with siltstone.open(folder) as store:
        store.segment("a").append(b"fghijklm")
        store.segment("a").truncate(12)
        collect(store)
        assert store.segment("a").read(12, 5) == b"m"
    assert rolling(small).read("a") == (11, 13, False, b"lm")


@pytest.mark.slow
def test_a_concat_of_few_bytes_is_copied_and_a_larger_one_is_refused(
    command: Command, folder: Path
) -> None:
    header = "maxsize=1000000&0=a$offset.0&"
    place = written(folder / "chunks" / "old", {"a$header": header, "a$offset.0": "abcde"})
    begin(command, place)
    with siltstone.open(folder) as store:
        few, many = neighbour_names(store, "a", 2)
        for name, data in ((few, [b"joined"]), (many, 3 * [bytes(MIB // 2)])):
            store.create(name)
            for part in data:
                store.segment(name).append(part)
            store.segment(name).seal()
        with pytest.raises(CapabilityError, match="more than 1 MiB"):
            store.segment("a").concat(many)
        store.segment("a").concat(few)
        collect(store)
    assert not list(place.glob(f"{few}$*"))
    assert rolling(place).read("a") == (0, 11, False, b"abcdejoined")


@pytest.mark.slow
def test_what_would_pass_the_layout_by_is_refused(
    command: Command, folder: Path, small: Path
) -> None:
    begin(command, small)
    with siltstone.open(folder) as store:
        for name, kind in {
            "with&": SegmentNameError,
            "a//b": SegmentNameError,
            "n" * 250: SegmentNameError,
        }.items():
            with pytest.raises(kind):
                store.create(name)
        (small / "foreign$header").write_text("maxsize=3&")
        with pytest.raises(SegmentExistsError, match=r"foreign\$header"):
            store.create("foreign")
        with pytest.raises(CapabilityError, match="finalise its migration"):
            store.segment("a").rename(neighbour_names(store, "a", 1)[0])
        with pytest.raises(CapabilityError, match="takes no imports"):
            store.open_import("job", "a")
        assert {one.name for one in store.list()} == {"a", "b"}


# --- real data, and random lives ------------------------------------------------------------------


@pytest.mark.slow
def test_real_layouts_continue(command: Command, folder: Path) -> None:
    place = golden_tree(folder / "chunks" / "old")
    before = fingerprint(place)
    ran = begin(command, place, "--dry-run", "--json")
    assert ran.code == 6
    refused = {v["segment"] for v in ran.values if v["action"] == "refused"}
    taken = {v["segment"] for v in ran.values if v["action"] == "import"}
    assert refused == {"sc/st/nest-a", "sc/st/fsrc5"}
    assert taken == set(SEGMENTS)
    assert fingerprint(place) == before
    assert not (folder / "chunks" / "data").exists()
    assert begin(command, place).code == 6
    assert fingerprint(place) == before
    expected = shown(folder)
    check_original(place, expected)
    with siltstone.open(folder) as store:
        for name, (_, _, sealed, _) in expected.items():
            if not sealed:
                store.segment(name).append(b"since " * 30)
        store.flush()
        store.segment("sc/st/many").truncate(100)
        for name in ("bare", "bare-empty", "empty", "cat-fail-tail", "rollover-died"):
            store.segment(f"sc/st/{name}").seal()
        store.flush()
    after = shown(folder)
    assert all(after[n][3].endswith(b"since " * 30) for n in expected if not expected[n][2])
    check_original(place, after)
    assert command("migrate", "verify", str(place)).code == 0
    assert command("check", "--deep").code == 0
    assert begin(command, place).code == 6


def do_something(store: Store, chance: random.Random, names: list[str], number: int) -> None:
    """One step of a random life; an operation that a segment refuses is skipped."""
    name = chance.choice(names)
    verb = chance.choice(("append", "append", "append", "create", "seal", "truncate", "delete"))
    with suppress(SiltstoneError):
        segment = store.segment(name)
        if verb == "append":
            segment.append(bytes([number % 251]) * chance.randint(1, 30))
        elif verb == "create":
            names.append(f"new{number}")
            store.create(names[-1])
        elif verb == "seal":
            segment.seal()
        elif verb == "truncate":
            info = segment.info()
            segment.truncate(chance.randint(info.start_offset, info.length))
        elif chance.random() < 0.3:
            segment.delete()


MORE_SEEDS = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *MORE_SEEDS])
def test_random_lives_continue_as_the_original_reads_them(
    command: Command, folder: Path, seed: int
) -> None:
    """Six random layouts, with deaths, and then a random life in the store, with several owners.

    ``seed`` repeats it.
    """
    place = folder / "chunks" / "lives"
    model = RollingModel()
    for life in range(6):
        model.files |= random_life(100 * seed + life, f"s{life}").files
    for name, file in model.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(0o444 if file.sealed else 0o644)
    begin(command, place)
    chance = random.Random(seed)
    names = list(shown(folder))
    old = set(names)
    assert len(names) > 5
    check_original(place, shown(folder))
    for owner in range(2):
        with siltstone.open(folder) as store:
            for number in range(60):
                do_something(store, chance, names, 60 * owner + number)
                if chance.random() < 0.05:
                    store.flush()
            collect(store)
        expected = shown(folder)
        # A new, empty segment is not there before its first byte or its seal.
        there = {n: one for n, one in expected.items() if one[1] or one[2] or n in old}
        check_original(place, there)
        original = rolling(place)
        for name in set(names) - set(expected):
            with pytest.raises(AbsentError):
                original.read(name)
    assert command("check", "--deep").code == 0
    assert command("migrate", "verify", str(place)).code in (0, 6)


# --- killed ---------------------------------------------------------------------------------------


def live(store: Store) -> None:
    """The life that is interrupted: two new files, one filled, two headers, a seal, a deletion."""
    store.segment("a").append(b"fghijk")
    store.create("c").append(b"cc")
    store.segment("b").append(b"01234")
    store.flush()
    store.segment("a").seal()
    store.segment("b").truncate(4)
    store.segment("c").append(b"ccc")
    collect(store)
    store.segment("c").delete()
    collect(store)


def carry_on(store: Store) -> None:
    """Do all of ``live`` that did not take place."""
    names = {one.name for one in store.list()}
    a = store.segment("a").info()
    if a.length == 5:
        store.segment("a").append(b"fghijk")
    if store.segment("b").info().length == 3:
        store.segment("b").append(b"01234")
    store.segment("a").seal()
    store.segment("b").truncate(4)
    if "c" in names:
        store.segment("c").delete()
    collect(store)


A_BYTES, B_BYTES = b"abcdefghijk", b"xyz01234"


def check_dead(flushed: dict[str, int], place: Path) -> None:
    """When the process dies, the original reads at least what the store reported as flushed."""
    model = rolling(place)
    for name, whole in (("a", A_BYTES), ("b", B_BYTES)):
        start, length, _, data = model.read(name)
        assert length >= flushed[name], name
        assert data == whole[start:length], name


def killed_at_every_call(folder: Path, how: str) -> int:
    """Play ``live`` once for each of its calls, each time on a copy; return how many there are."""
    for number in count(1):
        copy = Path(shutil.copytree(folder, folder.with_name(f"{how}{number}")))
        place = copy / "chunks" / "small"
        with pytest.MonkeyPatch.context() as patch:
            killed = Killed(patch, place, number, how)
            store = siltstone.open(copy)
            with suppress(SiltstoneError):
                live(store)
            flushed = {"a": 0, "b": 0}
            for name in flushed:
                with suppress(SiltstoneError):  # a failed journal has closed it
                    flushed[name] = store.segment(name).info().flushed_length
            with suppress(SiltstoneError):
                store.close()
        check_dead(flushed, place)
        with siltstone.open(copy) as store:
            carry_on(store)
        model = rolling(place)
        assert model.read("a") == (0, 11, True, A_BYTES), (number, how)
        # A failed deletion is repeated later.
        start, *rest = model.read("b")
        assert start in (0, 3), (number, how)
        assert rest == [8, False, B_BYTES[start:]], (number, how)
        with pytest.raises(AbsentError):
            model.read("c")
        shutil.rmtree(copy)
        if killed.calls < number:
            return killed.calls
    raise AssertionError("it ends")


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A store of one container that continues a small layout."""
    settings = prepared_store(tmp_path / "one", 1)
    files = {**TWO, "b$header": "maxsize=9&0=b$offset.0&", "b$offset.0": "xyz"}
    place = written(settings.parent / "chunks" / "small", files)
    where = ["--store", str(settings.parent), "migrate", "legacy", str(place)]
    assert run([*where, "--mode", "code_only"]) == 0
    return settings.parent


@pytest.mark.slow
def test_killed_at_any_call_it_continues(prepared: Path) -> None:
    """After the n-th call that changes a file, no call reaches long-term storage any more."""
    assert killed_at_every_call(prepared, "torn") > 10


@pytest.mark.soak
@pytest.mark.parametrize("how", ["before", "after"])
def test_killed_at_any_call_in_any_way_it_continues(prepared: Path, how: str) -> None:
    assert killed_at_every_call(prepared, how) > 10


# --- others who write -----------------------------------------------------------------------------


def append_to(key: str, text: str) -> Callable[[Path], None]:
    def act(place: Path) -> None:
        with (place / key).open("a") as file:
            file.write(text)

    return act


def replaced(key: str, text: str) -> Callable[[Path], None]:
    return lambda place: written_over(place / key, text)


FOREIGN: dict[str, tuple[Callable[[Path], None], type[Exception]]] = {
    "header says more": (append_to("a$header", "9=a$offset.9&"), LegacyChangedError),
    "header says less": (replaced("a$header", "maxsize=3&"), LegacyChangedError),
    "header is another one": (
        replaced("a$header", "maxsize=3&0=a$offset.X&3=a$offset.3&"),
        LegacyChangedError,
    ),
    "header is gone": (lambda place: (place / "a$header").unlink(), LegacyChangedError),
    "last file grew": (append_to("a$offset.3", "?"), LegacyChangedError),
    "last file is shorter": (replaced("a$offset.3", "d"), LegacyChangedError),
    "last file is gone": (lambda place: (place / "a$offset.3").unlink(), LegacyChangedError),
    "next file is there": (replaced("a$offset.5", "whose?"), LegacyChangedError),
    "next file holds other bytes": (replaced("a$offset.5", "?"), LegacyChangedError),
    "header is sealed": (lambda place: (place / "a$header").chmod(0o444), ChunkAccessDeniedError),
}


@pytest.mark.slow
@pytest.mark.parametrize("harm", FOREIGN)
def test_another_writer_is_noticed_and_nothing_is_overwritten(prepared: Path, harm: str) -> None:
    act, kind = FOREIGN[harm]
    place = prepared / "chunks" / "small"
    act(place)
    before = fingerprint(place)
    with siltstone.open(prepared) as store:
        store.segment("a").append(b"fgh")
        store.segment("b").append(b"0")
        for _ in range(2):
            with pytest.raises(kind):
                store.segment("a").flush()
        store.segment("b").flush()
        assert store.segment("a").read(5, 3) == b"fgh"
    after = fingerprint(place)
    assert {key: after.get(key) for key in before if key[0] == "a"} == {
        key: one for key, one in before.items() if key[0] == "a"
    }
    assert rolling(place).read("b") == (0, 4, False, b"xyz0")


@pytest.mark.slow
def test_our_own_files_are_watched_as_well(prepared: Path) -> None:
    place = prepared / "chunks" / "small"
    with siltstone.open(prepared) as store:
        store.segment("b").append(b"0")
        store.flush()
        append_to("b$offset.3", "?")(place)
        store.segment("b").append(b"1")
        with pytest.raises(LegacyChangedError):
            store.flush()
        (place / "b$offset.3").write_text("")
        with pytest.raises(LostDataError):
            store.flush()
        (place / "b$offset.3").write_text("0")
        store.flush()
    assert rolling(place).read("b") == (0, 5, False, b"xyz01")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["create", "overwrite"])
def test_an_owner_who_was_overtaken_at_a_call_does_no_harm(
    prepared: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The owner is paused at a call that changes a file while a newer one writes and rolls over."""
    reached, go = threading.Event(), threading.Event()
    real = getattr(NfsChunkStorage, verb)

    def held(storage: NfsChunkStorage, name: str, *more: Any) -> Any:
        if name.startswith("small/b") and not reached.is_set():
            reached.set()
            go.wait(60)
        return real(storage, name, *more)

    older = siltstone.open(prepared)
    older.segment("b").append(b"0123456789")
    monkeypatch.setattr(NfsChunkStorage, verb, held)
    flushing = threading.Thread(target=flush_quietly, args=(older,))
    flushing.start()
    assert reached.wait(60)
    with siltstone.open(prepared, takeover=True) as newer:
        newer.segment("b").append(b"abcdefghij")
        newer.flush()
        go.set()
        flushing.join()
        newer.segment("b").append(b"!")
        newer.flush()
        expected = newer.segment("b").read(0, 1000)
    with suppress(SiltstoneError):
        older.close()
    assert expected == b"xyz0123456789abcdefghij!"
    assert rolling(prepared / "chunks" / "small").read("b") == (0, 24, False, expected)


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rollback_leaves_the_layout_as_it_is(command: Command, folder: Path, small: Path) -> None:
    begin(command, small)
    with siltstone.open(folder) as store:
        store.segment("a").append(b"fghijklm")
        store.create("c").append(b"new!")
        store.segment("c").seal()
    expected = shown(folder)
    ran = command("migrate", "rollback", str(small))
    assert (ran.code, ran.out) == (0, "")
    assert shown(folder) == {}
    after = fingerprint(small)
    check_original(small, expected)
    with siltstone.open(folder) as store:
        collect(store)
        assert store.adoptions() == []
        store.create("a").append(b"ordinary")
        store.flush()
        store.segment("a").delete()
    assert fingerprint(small) == after
    assert command("migrate", "rollback", str(small)).code == 4
    assert begin(command, small).code == 0
    assert shown(folder) == expected


@pytest.mark.slow
def test_a_rollback_with_a_stranger_in_the_layout_removes_nothing(
    command: Command, folder: Path, small: Path
) -> None:
    begin(command, small)
    with siltstone.open(folder) as store:
        store.segment("a").append(b"fgh")
    append_to("a$header", "9=a$offset.9&")(small)
    assert command("migrate", "rollback", str(small)).code == 1
    assert shown(folder)["a"] == (0, 8, False, b"abcdefgh")


@pytest.mark.slow
def test_finalised_the_store_is_like_any_other(command: Command, folder: Path, small: Path) -> None:
    begin(command, small)
    with siltstone.open(folder) as store:
        store.segment("a").append(b"fghijklm")
        store.flush()
        store.segment("b").append(b"012")
    assert command("migrate", "finalise", str(small)).code == 0
    assert not list(small.glob("*$header"))
    with siltstone.open(folder) as store:
        store.segment("a").append(b"nopq")
        store.create("with&").append(b"anything")
        store.segment("b").rename(neighbour_names(store, "b", 1)[0])
        store.flush()
        assert store.segment("a").read(0, 99) == b"abcdefghijklmnopq"
        assert store.segment("a").info().attributes == {}
        store.segment("a").truncate(17)
        collect(store)
    assert list((folder / "chunks" / "data").rglob("*"))
    assert not list(small.glob("a$*"))
    assert command("check", "--deep").code == 0
    assert command("migrate", "rollback", str(small)).code == 4


# --- other layouts and services -------------------------------------------------------------------


@pytest.mark.slow
def test_a_layout_of_hdfs_continues(command: Command, folder: Path) -> None:
    files = {f"{key}_{'7' if key == 'a$header' else 'sealed'}": text for key, text in TWO.items()}
    files |= {"b$header_sealed": "maxsize=9&0=b$offset.0&", "b$offset.0_sealed": "xyz"}
    files |= {"c_3": "bare", "d$header_9": "maxsize=9&"}
    place = written(folder / "chunks" / "old", files)
    assert begin(command, place).code == 0
    with siltstone.open(folder) as store:
        for name in ("a", "c", "d"):
            store.segment(name).append(b"since")
        store.create("new").append(b"!")
        store.flush()
        for name in ("a", "c"):
            store.segment(name).seal()
        store.flush()
    names = {path.name for path in place.iterdir()}
    assert names - set(files) == {
        "a$header_sealed",
        "a$offset.5_7",
        "a$offset.8_7",
        "c$header_sealed",
        "c$offset.4_3",
        "d$offset.0_9",
        "new$header_9",
        "new$offset.0_9",
    }
    expected = shown(folder)
    assert expected["a"] == (0, 10, True, b"abcdesince")
    assert command("migrate", "verify", str(place)).code == 0
    (place / "d$header_10").write_text("")
    with siltstone.open(folder) as store:
        store.segment("d").append(b"more")
        with pytest.raises(LegacyChangedError, match="another epoch"):
            store.flush()
        (place / "d$header_10").unlink()
        store.flush()
    assert command("migrate", "rollback", str(place)).code == 0
    assert command("migrate", "legacy", str(place)).code == 0
    expected["d"] = (0, 9, False, b"sincemore")
    assert shown(folder) == expected


def test_a_service_whose_files_cannot_grow(command: Command, tmp_path: Path) -> None:
    store = siltstone.init(tmp_path / "far", binding="memory", options={"name": "code only"}).parent
    ran = command("migrate", "legacy", "storage:old", "--mode", "code_only", store=str(store))
    assert ran.code == 1
    assert "code_only needs a file system" in ran.err


@pytest.mark.slow
def test_what_cannot_continue_is_told_in_advance(command: Command, folder: Path) -> None:
    place = written(
        folder / "chunks" / "old",
        {
            **TWO,
            "torn$header": "maxsize=9&0=torn$offset.0&5=to",
            "torn$offset.0": "01234",
            "tail$header": "maxsize=3&0=tail$offset.0&3=tail$offset.3&",
            "tail$offset.0": "abcGARBAGE",
            "tail$offset.3": "d",
            "next$header": "maxsize=9&0=next$offset.0&",
            "next$offset.0": "01234",
            "next$offset.5": "left",
        },
    )
    before = fingerprint(place)
    ran = begin(command, place)
    assert ran.code == 6
    for name in ("torn", "tail", "next"):
        assert f"refused: {name}: not-writable" in ran.out
    assert fingerprint(place) == before
    assert set(shown(folder)) == {"a"}
    with siltstone.open(folder) as store, pytest.raises(SegmentExistsError):
        store.create("torn")


@pytest.mark.slow
def test_headers_of_what_is_refused_are_not_read(command: Command, folder: Path) -> None:
    place = written(folder / "chunks" / "old", {**TWO})
    (place / "gone$header").symlink_to("nowhere")
    (place / "link$header").symlink_to("a$header")
    ran = begin(command, place)
    assert ran.code == 6
    assert {line.split(":")[1].strip() for line in ran.out.splitlines()} == {"gone", "link"}
    assert set(shown(folder)) == {"a"}


@pytest.mark.slow
def test_a_restored_store_does_not_continue_in_what_is_no_layout_there(
    command: Command, folder: Path, small: Path, tmp_path: Path
) -> None:
    begin(command, small)
    place, new = str(tmp_path / "backups"), tmp_path / "new"
    assert command("backup", "create", place).code == 0
    assert command("backup", "restore", place, str(new)).code == 0
    for more in ([], ["--dry-run"]):
        line = ["migrate", "legacy", str(new / "chunks" / "small"), "--mode", "code_only", *more]
        ran = command(*line, store=str(new))
        assert (ran.code, "does not hold a any more" in ran.err) == (4, True), ran
    with siltstone.open(new) as store:
        assert store.written_adoption() is None


@pytest.mark.slow
def test_a_store_with_other_segments_is_refused(
    command: Command, folder: Path, small: Path, tmp_path: Path
) -> None:
    with siltstone.open(folder) as store:
        store.create("mine")
    assert begin(command, small).code == 4
    assert begin(command, small, "--under", "old/").code == 0
    with siltstone.open(folder) as store:
        store.segment("mine").append(b"here")
        store.segment("old/a").append(b"fg")
        store.flush()
    assert list((folder / "chunks" / "data").rglob("*"))
    assert rolling(small).read("a") == (0, 7, False, b"abcdefg")
    other = written(folder / "chunks" / "other", TWO)
    assert begin(command, other, "--under", "other/").code == 4
    assert begin(command, written(tmp_path / "elsewhere", TWO)).code == 2
