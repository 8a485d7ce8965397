"""Pravega's simplified long-term storage is named wherever it is given by mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone.migration.files.import_plan import plan_files
from siltstone.migration.legacy.names import LegacyLayoutError, naming_of
from siltstone.segments.simplified_layout import is_simplified

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
CHUNK = f"scope/stream/0.#epoch.0.E-1-O-0.{UUID}"
SYSTEM = f"_system/containers/storage_metadata_0.E-1-O-0.{UUID}"
JOURNAL = "_system/containers/_sysjournal.epoch1.container0.file1"
NAMES = (
    CHUNK,
    f"scope/stream/0.#epoch.0.E-12-O-9223372036854775807.{UUID}",
    SYSTEM,
    JOURNAL,
    "_system/containers/_sysjournal.epoch3.container11.snapshot2",
    "_system/containers/_sysjournal.container0.snapshot_info",
    "_system/containers/container_0_epoch",
    f"a/prefix/above/{JOURNAL}",
)
OTHERS = (
    "scope/stream/0.#epoch.0$header",
    "scope/stream/0.#epoch.0$offset.0",
    "_system/containers/metadata_0$header",
    "_sysjournal.epoch1.container0.file1",
    f"name.{UUID}",
    f"name.E-1-O-.{UUID}",
    f".E-1-O-0.{UUID}",
    "data/c0/e00000000000000000001/a/00000000000000000000-0000000000000001.chunk",
    "system/store",
)


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    folder = tmp_path / "pravega"
    for name in (CHUNK, SYSTEM, JOURNAL):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"bytes")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_its_files_are_known_by_their_names(name: str) -> None:
    assert is_simplified(name)


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_not_taken_for_it(name: str) -> None:
    assert not is_simplified(name)


def given_to(layout: Path, tmp_path: Path) -> dict[str, Callable[[], object]]:
    settings = siltstone.init(tmp_path / "store")
    written = settings.read_text("utf-8")
    opened = tmp_path / "store" / "other.yaml"
    opened.write_text(written.replace("./chunks", str(layout)), "utf-8")
    return {
        "migrate legacy": lambda: naming_of([CHUNK, SYSTEM, JOURNAL], str(layout)),
        "migrate legacy, the journal alone": lambda: naming_of([JOURNAL], str(layout)),
        "import of a folder": lambda: plan_files("{path}", [layout]),
        "import of a file": lambda: plan_files("a", [layout / CHUNK]),
        "init": lambda: siltstone.init(tmp_path / "new", options={"path": str(layout)}),
        "open": lambda: siltstone.open(opened),
    }


def test_each_verb_that_gets_it_names_it(layout: Path, tmp_path: Path) -> None:
    before = sorted(path for path in layout.rglob("*") if path.is_file())
    for verb, call in given_to(layout, tmp_path).items():
        with pytest.raises(siltstone.StoreError, match="simplified long-term storage") as caught:
            call()
        assert "docs/migration.md" in str(caught.value), verb
        told = (CHUNK, SYSTEM, JOURNAL)
        assert any(name in str(caught.value) for name in told), verb
    assert sorted(path for path in layout.rglob("*") if path.is_file()) == before
    assert not (tmp_path / "new" / "siltstone.yaml").exists()


def test_what_is_mixed_with_a_legacy_layout_is_told_apart(layout: Path) -> None:
    with pytest.raises(LegacyLayoutError, match="several layouts are mixed"):
        naming_of([CHUNK, "scope/stream/0.#epoch.0$header"], str(layout))
