"""Whatever bytes a decoder gets, it returns or raises one of two errors, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from siltstone.core.errors import CorruptDataError, FormatError
from tests.architecture.source_tree import ROOT
from tests.fuzz.bytes_to_try import EXAMPLES, almost_record
from tests.fuzz.decoders import Decoder, decoders, sums_that_match
from tests.support.soak import share_of

DECODERS = decoders()
SEEDS = st.integers(0, 2**64)
TRIES = 20
GUIDED_RUNS = 1_000_000
MEMORY_MAX = 256 * 1024
MEMORY_OF_A_BYTE = 200


@pytest.fixture(scope="module", autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def attempt(decoder: Decoder, data: bytes) -> bool:
    """Decode; return whether it was a record."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        decoder(data)
    except (CorruptDataError, FormatError):
        return False
    finally:
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < MEMORY_MAX + MEMORY_OF_A_BYTE * len(data)
    return True


def attempt_many(decoder: Decoder, seed: int) -> None:
    chance = Random(seed)
    for _ in range(TRIES):
        data = almost_record(chance)
        note(data.hex())
        attempt(decoder, data)


@pytest.mark.parametrize("sums", ["real", "matching"])
@pytest.mark.parametrize("name", DECODERS)
def test_only_typed_errors(name: str, sums: str) -> None:
    @settings(max_examples=10)
    @given(SEEDS)
    def run(seed: int) -> None:
        attempt_many(DECODERS[name], seed)

    with sums_that_match() if sums == "matching" else nullcontext():
        run()


@pytest.mark.soak
@pytest.mark.parametrize("name", DECODERS)
def test_only_typed_errors_where_coverage_leads(name: str, tmp_path: Path) -> None:
    if find_spec("atheris") is None:
        pytest.skip("atheris is not installed: there is none for this Python")
    runs = share_of(GUIDED_RUNS)
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(runs), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-4000:]
    assert f"Done {runs} runs" in done.stderr


def test_each_example_is_a_record_of_some_decoder() -> None:
    """Otherwise what is tried above is far from any record."""
    for data in EXAMPLES:
        assert any(attempt(decoder, data) for decoder in DECODERS.values())
