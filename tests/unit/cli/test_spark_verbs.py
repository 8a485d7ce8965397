"""The verbs of ``spark`` on threads of this process."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.cli.spark_commands import compact
from siltstone.container.models.settings import Tuning
from siltstone.pipelines import scrub as scrubbing
from siltstone.store.settings.units import parse_size
from tests.support.collections.stored_objects import paths
from tests.support.command import Command

LOCAL = ("--executor", "local", "--threads", "2")


def test_a_compaction_merges_what_the_optimiser_does() -> None:
    options = {one.name: one.default for one in compact.params}
    assert parse_size(options["small"]) == Tuning().optimiser_small_bytes
    assert options["count_min"] == Tuning().optimiser_chunks_min


@pytest.fixture
def chunks(folder: Path) -> list[Path]:
    """The files of five chunks."""
    with siltstone.open(folder) as store:
        for number in range(5):
            store.create(f"s{number}").append(b"0123456789" * 100)
            store.flush()
    return sorted((folder / "chunks" / "data").rglob("*.chunk"))


def damage(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"X" + path.read_bytes()[1:])


@pytest.mark.slow
def test_a_scrub_tells_what_it_found(command: Command, chunks: list[Path]) -> None:
    ran = command("spark", "scrub", *LOCAL)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("scrub: ")
    damage(chunks[2])
    ran = command("spark", "scrub", *LOCAL)
    assert ran.code == 6
    assert ran.out.startswith("damaged: data/")
    ran = command("spark", "scrub", *LOCAL, "--json")
    assert ran.code == 6
    assert {value["status"] for value in ran.values} == {"ok", "damaged"}
    assert len(ran.values) >= len(chunks)


@pytest.mark.slow
def test_a_scrub_that_was_killed_continues(
    command: Command, chunks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(chunks[0])
    kept = tmp_path / "kept"
    with monkeypatch.context() as patch:
        real = scrubbing._read_all
        left = [3]

        def dying(storage: object, view: memoryview, item: scrubbing.ScrubItem) -> None:
            if not left[0]:
                raise RuntimeError("killed")
            left[0] -= 1
            real(storage, view, item)  # type: ignore[arg-type]

        patch.setattr(scrubbing, "_reads_well", lambda storage, view, item: False)
        patch.setattr(scrubbing, "_read_all", dying)
        patch.setattr(scrubbing, "packed", lambda items, workers: [[item] for item in items])
        ran = command(
            "spark", "scrub", "--executor", "local", "--threads", "1", "--resume", str(kept)
        )
    assert ran.code == 1
    done = [json.loads(line) for line in kept.read_text().splitlines()[1:]]
    assert 0 < len(done) <= 3
    with kept.open("a") as file:
        file.write('{"subject": "cut in tw')
    ran = command("spark", "scrub", *LOCAL, "--resume", str(kept), "--json")
    assert ran.code == 6
    assert not {value["subject"] for value in ran.values} & {line["subject"] for line in done}
    assert not kept.exists()
    assert {str(chunks[0]).endswith(value["subject"]) for value in ran.values} == {True, False}


@pytest.mark.slow
def test_a_file_of_another_job_is_refused(
    command: Command, chunks: list[Path], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_text('{"version": 1, "job": "other"}\n')
    ran = command("spark", "scrub", *LOCAL, "--resume", str(kept))
    assert ran.code == 2
    assert "is of another job" in ran.err
    for other in ("nonsense\n", "somebody's, without an end of line"):
        kept.write_text(other)
        ran = command("spark", "scrub", *LOCAL, "--resume", str(kept))
        assert ran.code == 2
        assert "is not the file of a job" in ran.err
        assert kept.read_text() == other
    kept.write_text('{"version": 1, "jo')  # of a job that died with its first line
    assert command("spark", "scrub", *LOCAL, "--resume", str(kept)).code == 0


@pytest.mark.slow
def test_options_of_spark_are_refused_without_it(command: Command, chunks: list[Path]) -> None:
    ran = command("spark", "scrub", "--executor", "local", "--master", "local[2]")
    assert ran.code == 2
    assert "--master and --conf are for --executor spark" in ran.err


def test_an_unknown_store_is_told(command: Command, tmp_path: Path) -> None:
    ran = command("spark", "scrub", *LOCAL, store=str(tmp_path / "none"))
    assert ran.code == 2
    assert ran.err.count("\n") == 1


@pytest.mark.slow
def test_an_export_is_written_and_verified(
    command: Command, chunks: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ran = command("spark", "export", str(out), "--prefix", "s", "--form", "files", *LOCAL)
    assert (ran.code, ran.err) == (0, "export: 5 ok\n")
    ran = command("spark", "verify", str(out), *LOCAL, "--json")
    assert ran.code == 0
    assert [value["status"] for value in ran.values] == ["ok"] * 5
    damage(next(out.glob("segment=s3/*.bin")))
    ran = command("spark", "verify", str(out), "s2", "s3", *LOCAL)
    assert ran.code == 6
    assert ran.out.startswith("differs: segment=s3/")
    assert ran.err == "verify: 1 differs, 1 ok\n"


@pytest.mark.slow
def test_wrong_choices_of_an_export_are_told(
    command: Command, chunks: list[Path], tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    for wrong, message in (
        (("s1", "--prefix", "s"), "not both"),
        (("--form", "files", "--records", "lines"), "files hold bytes as they are"),
        (("--file-size", "0"), "at least one byte"),
        (("none",), "no such segment"),
    ):
        ran = command("spark", "export", out, *wrong, *LOCAL)
        assert ran.code in {2, 3}
        assert message in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["export", "verify"])
def test_a_place_that_no_export_can_be_in_is_told(
    command: Command, chunks: list[Path], tmp_path: Path, verb: str
) -> None:
    ran = command("spark", verb, "gs://bucket/x", *LOCAL)
    assert ran.code == 2
    assert "to a folder or to s3://, not to gs://" in ran.err
    chunks[0].chmod(0o644)
    wrong = chunks[0] if verb == "export" else tmp_path / "none"
    ran = command("spark", verb, str(wrong), *LOCAL)
    assert ran.code == 2
    assert "is a file" in ran.err or "does not exist" in ran.err


@pytest.mark.slow
def test_a_compaction_merges_and_needs_the_claim(
    command: Command, chunks: list[Path], folder: Path
) -> None:
    with siltstone.open(folder):
        ran = command("spark", "compact", "--min", "2", *LOCAL)
        assert ran.code == 5
    ran = command("spark", "compact", "--min", "2", *LOCAL, "--json")
    assert ran.code == 0
    assert {value["status"] for value in ran.values} == {"ok"}
    with siltstone.open(folder, read_only=True) as store:
        names = {c.chunk for info in store.list() for c in store.segment(info.name).chunks()}
        assert len(names) < len(chunks)
        assert all(store.segment(f"s{n}").read(0, 2000) == b"0123456789" * 100 for n in range(5))
    ran = command("spark", "compact", "--min", "2", *LOCAL)
    assert (ran.code, ran.err) == (0, "compact: nothing to do\n")
    ran = command("spark", "compact", "--chunk-size", "1GiB", *LOCAL)
    assert ran.code == 2
    assert "a new chunk has 1 to 67108864 bytes" in ran.err


@pytest.mark.slow
def test_a_copy_is_made_and_verified(
    command: Command, chunks: list[Path], folder: Path, tmp_path: Path
) -> None:
    other = siltstone.init(tmp_path / "other").parent
    ran = command("copy", str(folder), str(other), "s1", "s2")
    assert (ran.code, ran.err) == (0, "copy: 2 ok\n")
    ran = command("spark", "verify", str(other), "--prefix", "s", *LOCAL)
    assert ran.code == 6
    assert ran.out.count("missing: ") == 3
    with siltstone.open(other) as store:
        store.create("s3").append(b"not a copy")
    ran = command("copy", str(folder), str(other), "--json")
    assert ran.code == 4
    assert sorted(value["status"] for value in ran.values) == [
        "conflict",
        "ok",
        "ok",
        "same",
        "same",
    ]
    with siltstone.open(other):
        assert command("copy", str(folder), str(other)).code == 5


@pytest.mark.slow
def test_what_is_in_place_gets_sums(command: Command, folder: Path, tmp_path: Path) -> None:
    old = folder / "chunks" / "old"
    old.mkdir()
    for name in ("a", "b", "c"):
        (old / f"{name}$header").write_text(f"maxsize=9&0={name}$offset.0&")
        (old / f"{name}$offset.0").write_text(name * 7)
    assert command("migrate", "legacy", str(old), "--in-place").code == 0
    assert len(command("migrate", "verify", str(old), "--json").values) == 3
    assert command("spark", "sums", "a", "--prefix", "b", *LOCAL).code == 2
    ran = command("spark", "sums", "a", *LOCAL, "--json")
    assert [(value["subject"], value["status"]) for value in ran.values] == [
        ("old/a$offset.0", "ok")
    ]
    (old / "b$offset.0").rename(tmp_path / "b")
    ran = command("migrate", "verify", str(old), "--record-sums")
    assert ran.code == 6
    assert ran.out.startswith("differs: b: the layout cannot be compared")
    ran = command("spark", "sums", *LOCAL)
    assert ran.code == 6
    assert ran.out.startswith("missing: old/b$offset.0: ")
    (tmp_path / "b").rename(old / "b$offset.0")
    ran = command("spark", "sums", *LOCAL, "--json")
    assert [value["subject"] for value in ran.values] == ["old/b$offset.0"]
    assert "no sums" not in command("check").out
    (old / "c$offset.0").write_text("C" * 7)
    ran = command("migrate", "verify", str(old))
    assert ran.code == 6
    assert ran.out.startswith("differs: c: ")


@pytest.mark.slow
def test_what_was_imported_is_compared_with_its_files(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    for name, length in {"a": 100_000, "b": 70, "c": 0, "d": 9}.items():
        (old / name).write_bytes(name.encode() * length)
    assert command("import", "x/{path}", str(old)).code == 0
    assert command("import", "all", str(old)).code == 0
    with siltstone.open(folder) as store:
        store.segment("x/b").append(b"more")
        store.segment("all").truncate(60_000)
    for rule in ("x/{path}", "all"):
        ran = command("spark", "verify-import", rule, str(old), *LOCAL, "--json")
        assert (ran.code, {value["status"] for value in ran.values}) == (0, {"ok"})
    assert ran.values[0]["length"] == 100_079 - 60_000
    (old / "b").write_bytes(b"b" * 69 + b"x")
    (old / "d").write_bytes(b"d" * 10)
    (old / "e").write_bytes(b"e")
    ran = command("spark", "verify-import", "x/{path}", str(old), *LOCAL, "--json")
    assert ran.code == 6
    assert {value["subject"]: value["status"] for value in ran.values} == {
        "x/a": "ok",
        "x/b": "differs",
        "x/c": "ok",
        "x/d": "differs",
        "x/e": "missing",
    }
    ran = command("spark", "verify-import", "all", str(old), *LOCAL)
    assert ran.code == 6
    assert "differs: all: it has 100,079 bytes, and its files have 100,081" in ran.out


@pytest.mark.slow
def test_a_scrub_reads_collections_too(command: Command, folder: Path, chunks: list[Path]) -> None:
    assert chunks
    with siltstone.open_collections(folder) as collections:
        made = collections.create("gusts", pyarrow.schema([("n", pyarrow.int64())]), key=["n"])
        made.append(pyarrow.table({"n": range(5_000)}))
    (part,) = paths(folder, "parts")
    ran = command("spark", "scrub", *LOCAL, "--json")
    assert ran.code == 0
    assert [one["subject"] for one in ran.values if "/parts/" in one["subject"]] == [
        part.relative_to(folder / "chunks").as_posix()
    ]
    damage(part)
    ran = command("spark", "scrub", *LOCAL)
    assert (ran.code, ran.out.startswith("damaged: collections/")) == (6, True)
