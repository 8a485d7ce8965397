"""What an error says about the facts that it has."""

from __future__ import annotations

from siltstone.core.errors import ChunkUnavailableError, SiltstoneError


def test_a_call_that_names_no_chunk_shows_none() -> None:
    error = ChunkUnavailableError("no answer", chunk="", operation="list")
    assert str(error) == "no answer operation=list"
    assert error.chunk == ""


def test_facts_that_are_nothing_are_not_shown_and_zero_is() -> None:
    assert str(SiltstoneError("text", key="", offset=0, end=None)) == "text offset=0"
