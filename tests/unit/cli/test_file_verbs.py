"""``import``, ``export`` and ``adoption``: plain files and objects, in and out, on disk."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.container.models.imports import ImportedChunk
from siltstone.core.constants import KIB, MIB, Buffer
from siltstone.core.errors import ChunkStorageFullError
from siltstone.migration.files import export_files, import_files
from siltstone.migration.files.copy_files import copy_group
from siltstone.migration.files.import_plan import plan_files
from siltstone.store.handles.import_writer import ImportWriter
from tests.support.command import Command, Ran
from tests.support.migration.backups import Died

DONE, FAILED, USAGE, NOT_FOUND, CONFLICT, DAMAGE = 0, 1, 2, 3, 4, 6

Tree = dict[str, bytes]


def tree(folder: Path, seed: int = 0) -> Tree:
    """Files in a folder whose order by path is not the order of their folders."""
    random = Random(seed)
    lengths = {"b/2": 300_000, "b/10": 7, "b.txt": 1, "a b/ü#1": 70_000, "empty": 0, "c": MIB + 1}
    files = {name: random.randbytes(length) for name, length in lengths.items()}
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return files


def content(folder: Path) -> Tree:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def stats(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for path in folder.rglob("*"):
        status = path.stat()
        found[str(path)] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def segments(folder: Path) -> Tree:
    with siltstone.open(folder, read_only=True) as store:
        return {i.name: store.segment(i.name).read(0, max(1, i.length)) for i in store.list()}


@pytest.fixture
def old(folder: Path) -> Path:
    """A folder in long-term storage."""
    return folder / "chunks" / "old"


# --- in -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_become_one_segment_in_the_given_order(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    files = tree(tmp_path / "in")
    given = ["c", "b/2", "empty", "b.txt"]
    ran = command("import", "one", *(str(tmp_path / "in" / name) for name in given))
    assert ran.code == DONE
    assert ran.out == f"one: {MIB + 300_002:,} bytes of 4 files\n"
    alone = command("import", "alone", str(tmp_path / "in" / "c"))
    assert alone.out == f"alone: {len(files['c']):,} bytes of 1 file\n"
    assert segments(folder) == {
        "one": b"".join(files[name] for name in given),
        "alone": files["c"],
    }
    assert not command("stat", "one", "--json").values[0]["sealed"]
    assert command("check", "--deep").code == DONE


@pytest.mark.slow
def test_files_of_a_folder_come_in_the_order_of_their_paths(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    files = tree(tmp_path / "in")
    shown = command("import", "all", str(tmp_path / "in"), "--dry-run", "--json").values
    order = sorted(files, key=str.encode)
    assert [Path(row["file"]).relative_to(tmp_path / "in").as_posix() for row in shown] == order
    assert [row["offset"] for row in shown] == [
        sum(len(files[name]) for name in order[:index]) for index in range(len(order))
    ]
    assert segments(folder) == {}, "a dry run writes nothing"
    assert command("import", "all", str(tmp_path / "in"), "--seal").code == DONE
    assert segments(folder) == {"all": b"".join(files[name] for name in order)}
    assert command("stat", "all", "--json").values[0]["sealed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "name_of", "in_place"),
    [
        ("x/{path}", lambda path: f"x/{path}", False),
        ("{folder}-all", lambda path: f"{path.rpartition('/')[0]}-all", True),
        ("{tag}/{name}", lambda path: f"{{tag}}/{path.rpartition('/')[2]}", True),
    ],
)
def test_a_rule_names_the_segments(
    command: Command,
    folder: Path,
    old: Path,
    rule: str,
    name_of: Callable[[str], str],
    in_place: bool,
) -> None:
    files = tree(old)
    before = stats(old)
    flags = ["--in-place"] if in_place else []
    assert command("import", rule, str(old), *flags).code == DONE
    wanted: Tree = {}
    for path in sorted(files, key=str.encode):
        wanted[name_of(path)] = wanted.get(name_of(path), b"") + files[path]
    assert segments(folder) == wanted
    assert stats(old) == before, "sources are never changed"
    assert command("check", "--deep").err == "everything is as it was written\n"


@pytest.mark.slow
def test_in_place_moves_no_byte_and_reads_none_if_asked(
    command: Command, folder: Path, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tree(old)
    read: list[str] = []
    read_into = NfsChunkStorage.read_into

    def counted(self: NfsChunkStorage, name: str, *rest: object) -> int:
        read.append(name)
        return read_into(self, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(NfsChunkStorage, "read_into", counted)
    assert command("import", "{path}", str(old), "--in-place", "--no-verify").code == DONE
    assert not [name for name in read if name.startswith("old/")]
    assert not list((folder / "chunks").glob("import/**/*"))
    assert not list((folder / "chunks").glob("data/**/*"))
    assert segments(folder) == files
    warned = command("check", "--deep")
    assert warned.code == DONE
    assert "in place without sums" in warned.out
    assert command("adoption", "sums", *files, "--json").values == [
        {"segment": name, "length": len(data)} for name, data in files.items()
    ]
    assert command("check", "--deep").out == ""


@pytest.mark.slow
def test_objects_of_a_prefix_become_segments_where_they_are(
    command: Command, folder: Path, old: Path
) -> None:
    files = tree(old)
    ran = command("import", "{path}", "old/b", "--in-place", "--objects")
    assert ran.code == DONE
    assert segments(folder) == {n: files[n] for n in files if n.startswith("b")}
    ran = command("import", "x", "none/", "--in-place", "--objects")
    assert (ran.code, "no object of this prefix" in ran.err) == (FAILED, True)


@pytest.mark.slow
def test_kept_files_outlive_their_segments_and_go_when_they_are_finalised(
    command: Command, folder: Path, old: Path
) -> None:
    text = (folder / "siltstone.yaml").read_text()
    (folder / "siltstone.yaml").write_text(f"{text}\ngarbage:\n  delay: 0s\n")
    files = tree(old)
    command("import", "{path}", str(old), "--in-place", "--adoption", "mine")
    command("rm", "c", "b/2")
    command("gc", "run")
    assert content(old) == files
    kept = command("adoption", "ls", "--json").values
    assert {one["name"] for one in kept} == {"mine"}
    assert sum(one["dropped"] for one in kept) == 3, "the two, and the empty one"
    assert command("adoption", "release", "mine", "--json").values == [{"released": 3, "in_use": 3}]
    command("rm", "b/10")
    assert command("adoption", "finalise", "mine").code == DONE
    command("gc", "run")
    left = {name: data for name, data in files.items() if name != "b/10"}
    assert content(old) == left
    assert command("adoption", "finalise", "yours").code == NOT_FOUND
    assert "mine" in command("adoption", "ls").out


# --- repeated, and interrupted --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("in_place", [False, True])
def test_the_same_command_again_changes_nothing(
    command: Command, folder: Path, old: Path, in_place: bool
) -> None:
    files = tree(old)
    flags = ["--in-place"] if in_place else []
    assert command("import", "{path}", str(old), *flags).code == DONE
    again = command("import", "{path}", str(old), *flags, "--json")
    assert again.code == DONE
    assert {value["repeated"] for value in again.values} == {True}
    assert segments(folder) == files
    (old / "more").write_bytes(b"more")
    other = command("import", "{path}", str(old), *flags)
    assert (other.code, "segment exists" in other.err) == (CONFLICT, True)
    assert segments(folder) == files
    command("rm", *files)
    command("adoption", "release", "files")
    assert command("import", "{path}", str(old), *flags).code == DONE
    assert segments(folder) == {**files, "more": b"more"}


KILLED = """
import os, signal, sys
from siltstone.cli.main import run
from siltstone.migration.files import import_files
from siltstone.store.handles.import_writer import ImportWriter
from siltstone.store.store import Store

place, count, *arguments = sys.argv[1:]
left = int(count)

def dying(call, after):
    def made(*given, **named):
        global left
        left -= 1
        found = call(*given, **named) if after else None
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return found if after else call(*given, **named)
    return made

if place == "open":
    Store.open_import = dying(Store.open_import, True)
elif place in ("commit", "committed"):
    Store.commit_import = dying(Store.commit_import, place == "committed")
elif place == "copy":
    ImportWriter.write_chunk = dying(ImportWriter.write_chunk, False)
else:
    setattr(import_files, place, dying(getattr(import_files, place), False))
sys.exit(run(arguments))
"""
"""The command in a process that kills itself at a call of one function."""

KILLS = {
    False: [("copy", 30), ("commit", 1), ("committed", 2)],
    True: [("open", 1), ("_adopted", 30), ("commit", 2), ("committed", 1)],
}
"""Where an import by copies or in place is killed; the store has two containers."""


@pytest.mark.slow
@pytest.mark.parametrize("in_place", [False, True])
def test_what_was_killed_continues(
    command: Command, folder: Path, old: Path, in_place: bool
) -> None:
    """Killed at any point; the run that then ends leaves all of it, once."""
    files = tree(old)
    random = Random(3)
    for number in range(50):
        files[f"many/{number}"] = random.randbytes(20_000)
        (old / "many").mkdir(exist_ok=True)
        (old / "many" / str(number)).write_bytes(files[f"many/{number}"])
    flags = ["--in-place"] if in_place else []
    arguments = ["--store", str(folder), "import", "{path}", str(old), *flags, "--takeover"]
    for place, count in KILLS[in_place]:
        line = [sys.executable, "-c", KILLED, place, str(count), *arguments]
        child = subprocess.run(line, capture_output=True)
        assert child.returncode == -signal.SIGKILL
        assert segments(folder).items() <= files.items()
    ran = command("import", "{path}", str(old), *flags, "--takeover", "--json")
    assert ran.code == DONE, ran.err
    assert segments(folder) == files
    assert content(old) == files
    assert command("check", "--deep").err == "everything is as it was written\n"


@pytest.mark.slow
def test_groups_that_are_done_are_not_done_again(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tree(tmp_path / "in")
    monkeypatch.setattr("siltstone.migration.files.import_plan.SEGMENTS_MAX", 1)
    groups: list[object] = []

    def ends(*arguments: object) -> object:
        groups.append(arguments[3])
        if len(groups) == 4:
            raise OSError(errno.EIO, "injected", "a file")
        return copy_group(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(import_files, "copy_group", ends)
    ran = command("import", "{path}", str(tmp_path / "in"))
    assert (ran.code, "injected" in ran.err) == (FAILED, True)
    assert len(segments(folder)) == 3
    ran = command("import", "{path}", str(tmp_path / "in"), "--json")
    assert sum(value["repeated"] for value in ran.values) == 3
    assert len(groups) == 4 + 3
    assert segments(folder) == files


@pytest.mark.slow
@pytest.mark.parametrize("error", [Died(), OSError(errno.EIO, "injected", "a file")])
def test_a_group_that_was_begun_is_continued(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """One segment of 40 pieces and one of 3; the copying ends at the 30th."""
    with (folder / "siltstone.yaml").open("a") as settings:
        settings.write("\nsegments:\n  chunk_size: 64KiB\n")
    files = {"a": Random(1).randbytes(40 * 64 * KIB - 7), "b": Random(2).randbytes(130 * KIB)}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    planned = plan_files("{t}{name}", [tmp_path / "a", tmp_path / "b"])
    monkeypatch.setattr("siltstone.pipelines.import_notes.NOTE_BYTES", 256 * KIB)
    monkeypatch.setattr("siltstone.migration.files.import_files.THREADS", 2)
    monkeypatch.setattr("siltstone.migration.files.copy_files.PACK_PIECES", 1)
    copied: list[int] = []
    real = ImportWriter.write_chunk

    def copy(
        writer: ImportWriter, length: int, pieces: Callable[[], Iterable[Buffer]]
    ) -> ImportedChunk:
        if len(copied) == 30:
            raise error
        copied.append(length)
        return real(writer, length, pieces)

    steps: list[int] = []
    with siltstone.open(folder) as store, monkeypatch.context() as patched:
        patched.setattr(ImportWriter, "write_chunk", copy)
        with pytest.raises(type(error)):
            list(import_files.import_files(store, folder, planned, import_files.ImportChoices()))
        assert list(store.list()) == []
        left = set((folder / "chunks" / "import").rglob("*-0-*"))
        assert 28 <= len(left) <= 31
        (cut,) = sorted((folder / "chunks" / "import").rglob("*-1-*"))[:1]
        damaged = cut.with_name(cut.name[:-1] + ("0" if cut.name[-1] != "0" else "1"))
        damaged.write_bytes(cut.read_bytes()[:-1])
        copied[:] = [0] * 31
        made = list(
            import_files.import_files(
                store, folder, planned, import_files.ImportChoices(), steps.append
            )
        )
        assert [(one.length, one.repeated) for one in made] == [
            (len(data), False) for data in files.values()
        ]
        # A note covers four chunks, and two were in flight.
        assert 13 <= len(copied) - 31 <= 13 + 4 + 2
        assert sum(steps) == sum(map(len, files.values()))
        named = {chunk.chunk for name in files for chunk in store.segment("{t}" + name).chunks()}
        assert len(named & {str(p.relative_to(folder / "chunks")) for p in left}) >= 24
        for name, data in files.items():
            assert store.segment("{t}" + name).read(0, len(data)) == data
        store.collect()
        assert not list((folder / "chunks" / "import").rglob("*-1-*"))
        assert list(store.check(deep=True)) == []


# --- wrong ----------------------------------------------------------------------------------------


def refused(ran: Ran, code: int, *words: str) -> None:
    assert ran.code == code, ran.err
    assert ran.err.startswith("siltstone: ")
    assert len(ran.err.splitlines()) == 1
    for word in words:
        assert word in ran.err


@pytest.mark.slow
def test_wrong_sources_are_named(command: Command, folder: Path, tmp_path: Path, old: Path) -> None:
    files = tree(tmp_path / "in")
    file, missing = tmp_path / "in" / "c", tmp_path / "missing"
    refused(command("import", "a", str(missing)), FAILED, str(missing), "No such file")
    os.mkfifo(tmp_path / "in" / "pipe")
    refused(command("import", "a", str(tmp_path / "in")), FAILED, "pipe", "not a regular file")
    (tmp_path / "in" / "pipe").unlink()
    refused(command("import", "a", str(file), "--in-place"), FAILED, str(file), "below the folder")
    own = next((folder / "chunks" / "system").rglob("journal-*"))
    refused(command("import", "a", str(own), "--in-place"), FAILED, str(own), "store itself")
    refused(command("import", "a", str(file), "--no-verify"), USAGE, "--in-place")
    refused(command("import", "_system/{path}", str(file)), USAGE, "reserved")
    command("create", "there")
    refused(command("import", "there", str(file)), CONFLICT, "there")
    assert segments(folder) == {"there": b""}
    assert content(tmp_path / "in") == files


@pytest.mark.slow
def test_a_file_is_in_place_once(command: Command, folder: Path, old: Path) -> None:
    files = tree(old)
    command("import", "{path}", str(old / "c"), "--in-place")
    refused(command("import", "again", str(old / "c"), "--in-place"), FAILED, "old/c", "already")
    command("rm", "c")
    refused(command("import", "again", str(old / "c"), "--in-place"), FAILED, "can be released")
    command("adoption", "release", "files")
    assert command("import", "again", str(old / "c"), "--in-place").code == DONE
    assert segments(folder) == {"again": files["c"]}


def changes(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def shrinks(path: Path) -> None:
    path.write_bytes(b"less")


def vanishes(path: Path) -> None:
    path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("act", [changes, shrinks, vanishes])
@pytest.mark.parametrize("flags", [(), ("--in-place",), ("--in-place", "--no-verify")])
def test_a_file_that_changes_meanwhile_is_noticed(
    command: Command,
    folder: Path,
    old: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Path], None],
    flags: tuple[str, ...],
) -> None:
    tree(old)
    group_of = import_files._import_group

    def late(*arguments: object) -> object:
        act(old / "c")
        return group_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(import_files, "_import_group", late)
    ran = command("import", "all", str(old), *flags)
    assert ran.code in (FAILED, DAMAGE)
    assert "c" in ran.err
    assert len(ran.err.splitlines()) == 1
    assert segments(folder) == {}
    assert command("check", "--deep").code == DONE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "closed"
    file.write_bytes(b"x")
    file.chmod(0)
    refused(command("import", "a", str(file)), FAILED, str(file), "Permission denied")


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_named(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path / "in")

    def sick(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("siltstone.migration.source.places.FolderPlace.read_into", sick)
    ran = command("import", "a", str(tmp_path / "in"))
    assert ran.code == FAILED
    assert str(tmp_path / "in") in ran.err
    assert segments(folder) == {}


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tree(tmp_path / "in")
    create = NfsChunkStorage.create_from

    def full(self: NfsChunkStorage, name: str, *rest: object) -> None:
        if name.startswith("import/") and created:
            raise ChunkStorageFullError("no room", chunk=name, operation="create")
        if name.startswith("import/"):
            created.append(name)
        create(self, name, *rest)  # type: ignore[arg-type]

    created: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(NfsChunkStorage, "create_from", full)
        refused(command("import", "{path}", str(tmp_path / "in")), FAILED, "no room")
    assert created
    assert not [path for path in (folder / "chunks" / "import").rglob("*") if path.is_file()]
    assert segments(folder) == {}
    assert command("import", "{path}", str(tmp_path / "in")).code == DONE
    assert segments(folder) == files


# --- out ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--in-place",), ("--in-place", "--no-verify")])
def test_what_came_in_goes_out_as_it_was(
    command: Command, old: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    files = tree(old)
    command("import", "x/{path}.log", str(old), *flags)
    ran = command("export", "x/{path}.log", str(tmp_path / "out" / "new"), "--json")
    assert ran.code == DONE
    assert content(tmp_path / "out" / "new") == files
    assert sum(value["length"] for value in ran.values) == sum(map(len, files.values()))
    some = command("export", "x/c.log", "x/b/2.log", str(tmp_path / "some"))
    assert some.code == DONE
    assert content(tmp_path / "some") == {"x/c.log": files["c"], "x/b/2.log": files["b/2"]}


@pytest.mark.slow
def test_bytes_that_are_not_flushed_and_ranges_go_out_too(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    data = Random(1).randbytes(20 * MIB + 3)
    (tmp_path / "in").write_bytes(data)
    command("append", "a", str(tmp_path / "in"), "--create")
    assert command("export", "a", str(tmp_path / "out")).code == DONE
    assert (tmp_path / "out").read_bytes() == data
    for span, wanted in {"5:": data[5:], ":70": data[:70], "300000:9000001": None}.items():
        target = tmp_path / f"out{span}"
        assert command("export", "a", str(target), "--range", span).code == DONE
        assert target.read_bytes() == (data[300_000:9_000_001] if wanted is None else wanted)
    command("truncate", "a", "1000")
    command("export", "a", str(tmp_path / "rest"))
    assert (tmp_path / "rest").read_bytes() == data[1000:]
    refused(command("export", "a", str(tmp_path / "x"), "--range", "999:2000"), CONFLICT, "range")
    refused(command("export", "a", str(tmp_path / "x"), "--range", f"0:{2**40}"), CONFLICT)
    refused(command("export", "a", str(tmp_path / "x"), "--range", "7"), USAGE, "START:END")
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_files_that_are_there_stay_unless_asked(command: Command, tmp_path: Path) -> None:
    files = tree(tmp_path / "in")
    command("import", "{path}", str(tmp_path / "in"))
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    refused(command("export", "c", str(target)), CONFLICT, str(target), "File exists")
    assert target.read_bytes() == b"mine"
    assert command("export", "c", str(target), "--overwrite").code == DONE
    assert target.read_bytes() == files["c"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "c").write_bytes(b"mine")
    refused(command("export", "{path}", str(tmp_path / "out")), CONFLICT, "File exists")
    assert content(tmp_path / "out") == {"c": b"mine"}, "nothing was written"
    assert command("export", "{path}", str(tmp_path / "out"), "--overwrite").code == DONE
    assert content(tmp_path / "out") == files


@pytest.mark.slow
def test_wrong_exports_are_refused(command: Command, folder: Path, tmp_path: Path) -> None:
    for name in ("../up", "/root", "a//b", "a"):
        command("create", name)
    refused(command("export", "none", str(tmp_path / "x")), NOT_FOUND, "none")
    refused(command("export", "no/{path}", str(tmp_path / "x")), NOT_FOUND, "no/{path}")
    refused(command("export", "{folder}/{path}", str(tmp_path / "x")), USAGE, "{path}")
    refused(command("export", "{path}", str(tmp_path / "x")), USAGE, "no file below a folder")
    refused(command("export", "a", "/root", str(tmp_path / "x")), USAGE, "/root")
    refused(command("export", "a", "a//b", str(tmp_path / "x"), "--range", ":1"), USAGE)
    assert not (tmp_path / "x").exists()
    assert command("export", "../up", str(tmp_path / "x")).code == DONE, "to a file of any name"


def test_damage_leaves_no_file(command: Command, old: Path, tmp_path: Path) -> None:
    tree(old)
    command("import", "{path}", str(old), "--in-place")
    data = bytearray((old / "c").read_bytes())
    data[700_000] ^= 1
    (old / "c").write_bytes(data)
    refused(command("export", "c", str(tmp_path / "out")), DAMAGE, "old/c")
    assert content(tmp_path) == {n: d for n, d in content(tmp_path).items() if "out" not in n}


@pytest.mark.slow
def test_a_full_disk_leaves_no_file(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path / "in")
    command("import", "{path}", str(tmp_path / "in"))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(export_files, "write_stream_durably", failing(full))
    (tmp_path / "out").mkdir()
    refused(command("export", "c", str(tmp_path / "out")), FAILED, "No space left")
    assert content(tmp_path / "out") == {}


@pytest.mark.slow
def test_a_name_begins_no_line_of_what_is_told(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    ran = command("import", "a\nb\x1b[1m", str(tmp_path / "file"))
    assert (ran.code, ran.out) == (DONE, "a\\nb\\x1b[1m: 1 byte of 1 file\n")


def test_an_import_of_no_file_says_so(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = command("import", "a", str(tmp_path / "empty"))
    assert (ran.code, ran.out, ran.err) == (DONE, "", "import: nothing to do: there is no file\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "meant"),
    [
        ("logs/{pth}", "{path}"),
        ("logs/{paths}", "{path}"),
        ("{Path}", "{path}"),
        ("{ path }", "{path}"),
        ("{fodler}/x", "{folder}"),
        ("{filename}", "{name}"),
        ("a{1}/{nmae}", "{name}"),
    ],
)
def test_a_misspelt_placeholder_is_refused(
    command: Command, tmp_path: Path, rule: str, meant: str
) -> None:
    (tmp_path / "a.txt").write_bytes(b"a")
    ran = command("import", rule, str(tmp_path / "a.txt"))
    assert ran.code == 2
    assert f"is no placeholder, did you mean {meant}?" in ran.err
    assert command("ls", "--json").values == []


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["{1}", "{n}", "{tag}", "{game}", "{}", "{user-7}"])
def test_a_tag_is_no_placeholder(command: Command, tmp_path: Path, tag: str) -> None:
    (tmp_path / "a.txt").write_bytes(b"a")
    assert command("import", f"x{tag}", str(tmp_path / "a.txt")).code == 0
    assert [one["name"] for one in command("ls", "--json").values] == [f"x{tag}"]


@pytest.mark.slow
def test_a_segment_goes_to_standard_output(command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"0123456789")
    command("append", "a", str(tmp_path / "in"), "--create")
    ran = command("export", "a", "-")
    assert (ran.code, ran.out, ran.err) == (0, "0123456789", "")
    assert command("export", "a", "-", "--range", "2:5").out == "234"
    assert command("export", "a", "-", "--range", "2:11").code == 4
    assert command("export", "nope", "-").code == 3
    several = (("a", "b", "-"), ("x/{path}", "-"))
    for wrong in (*several, ("a", "-", "--json"), ("a", "-", "--overwrite")):
        assert command("export", *wrong).code == 2
