"""Names of drafts: they tell for which chunk a draft was made, and are no chunk's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.chunk_arguments import is_chunk_name
from siltstone.core.drafts import DRAFTS, draft_name, is_draft_below, is_reserved

keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300).filter(
    is_chunk_name
)


@given(keys)
def test_a_draft_is_one_part_of_a_path_that_every_file_system_takes(key: str) -> None:
    draft = draft_name(key)
    assert draft.isascii()
    assert len(draft) <= 143
    assert not set(draft) & set("/:\\\0")
    assert is_chunk_name(draft)


@given(keys, st.integers(0, 20))
def test_a_draft_is_below_what_its_chunk_is_below(key: str, end: int) -> None:
    prefix = key[:end]
    if len(prefix.encode()) <= 40:
        assert is_draft_below(draft_name(key), prefix)


@given(keys, keys)
def test_a_draft_is_below_nothing_that_its_chunk_is_not_below(key: str, prefix: str) -> None:
    if not key.startswith(prefix):
        assert not is_draft_below(draft_name(key), prefix)


def test_no_two_drafts_have_one_name() -> None:
    assert len({draft_name("a") for _ in range(1_000)}) == 1_000


@pytest.mark.parametrize("name", ["", "a", "0" * 16, f"{'0' * 15}-a", f"{'0' * 16}-a/b", "x\n"])
def test_what_is_no_draft_is_below_nothing(name: str) -> None:
    assert not is_draft_below(name, "")


def test_only_the_folder_of_drafts_is_reserved() -> None:
    assert is_reserved(DRAFTS)
    assert is_reserved(f"{DRAFTS}/a/b")
    assert not any(map(is_reserved, ("a", f"{DRAFTS}a", f"a/{DRAFTS}", f"{DRAFTS}.a/b", "")))
