"""What the settings file of a store says of collections."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.collections.place import CollectionSettings, collection_settings
from siltstone.core.errors import CollectionError
from siltstone.core.records.collection_choice import encode_choice
from siltstone.store.settings.effective import load_settings

CHOSEN = """
collections:
  part_size: 16MiB
  compaction: off
  poll_max: 2s
  lease: 1min
garbage:
  delay: 1h
"""


def test_without_a_word_of_them_the_defaults_hold(tmp_path: Path) -> None:
    settings = siltstone.init(tmp_path / "store")
    assert collection_settings(load_settings(settings)) == CollectionSettings()


def test_each_setting_of_the_file_is_in_force(tmp_path: Path) -> None:
    settings = siltstone.init(tmp_path / "store")
    settings.write_text(settings.read_text(encoding="utf-8") + CHOSEN, encoding="utf-8")
    assert collection_settings(load_settings(settings)) == CollectionSettings(
        part_bytes=16 * 2**20,
        compacts=False,
        poll_max_s=2.0,
        lease_ms=60_000,
        garbage_delay_ms=3_600_000,
        consensus="objects",
    )


def test_another_consensus_than_that_of_the_store_is_refused(tmp_path: Path) -> None:
    """Two of them would be two truths, so it is compared whenever collections are opened."""
    settings = siltstone.init(tmp_path / "store")
    (tmp_path / "store/chunks/collections").mkdir()
    (tmp_path / "store/chunks/collections/consensus").write_bytes(encode_choice("votes"))
    with pytest.raises(CollectionError, match=r"collections\.consensus .*uses=votes"):
        siltstone.open_collections(settings)
