"""Minutes without long-term storage, for real: a server that is down while writers continue.

What fails: every call to the service, for minutes. What must hold: appends continue to the bound,
then they wait and fail by their deadline with nothing appended; when the server is back, all drains
and is exact, as ``tests/support/faults/whole_life.py`` tells.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import MIB
from siltstone.core.errors import BackPressureError
from tests.conftest import NewVersitygw
from tests.support.faults.whole_life import SEGMENTS, Ledger, flush_at_last, new_store, whole_life
from tests.support.services.s3_services import new_bucket, options_of

OUTAGE_S = 180.0
BOUND = 4 * MIB
DEADLINE_S = 3.0
THROTTLE_S = 1.0
RECORD_BYTES = 20_000


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("s3_plugin")
def test_a_server_that_is_away_for_minutes(new_versitygw: NewVersitygw, tmp_path: Path) -> None:
    server = new_versitygw()
    place = tmp_path / "store"
    bucket, raw = new_bucket(server)
    new_store(place, "s3", options_of(server, bucket, read_timeout_s=5))
    tighten(place / "siltstone.yaml")
    with whole_life(place, raw.read) as (store, ledger):
        ledger.append(store, 0)
        flush_at_last(store)
        server.kill()
        written, refused = append_for(OUTAGE_S, store, ledger)
        assert BOUND <= written <= BOUND + len(SEGMENTS) * RECORD_BYTES
        assert refused > OUTAGE_S / (DEADLINE_S + THROTTLE_S) / 2
        server.start()
        flush_at_last(store)
        assert not any(stats.unflushed_bytes for stats in store.stats())
        written, refused = append_for(5, store, ledger)
        assert written > BOUND
        assert refused == 0


def append_for(seconds: float, store: siltstone.Store, ledger: Ledger) -> tuple[int, int]:
    """Append all the time; return the bytes that got in, and how many appends were refused."""
    written = refused = number = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        name = SEGMENTS[number % len(SEGMENTS)]
        data = f"{number:08} ".encode() * (RECORD_BYTES // 9)
        number += 1
        start = time.monotonic()
        try:
            offset = store.segment(name).append(data)
        except BackPressureError:
            refused += 1
            assert DEADLINE_S - 0.1 < time.monotonic() - start < DEADLINE_S + 60
        else:
            assert offset == len(ledger.content[name])
            ledger.content[name] += data
            written += len(data)
    return written, refused


def tighten(settings: Path) -> None:
    """Let appends wait at a small bound, and not for long."""
    text = settings.read_text(encoding="utf-8")
    assert text.count("  storage: 10s\n") == 1
    text = text.replace("  storage: 10s\n", f"  storage: 10s\n  append: {DEADLINE_S:g}s\n")
    settings.write_text(f"{text}back_pressure:\n  bytes: {BOUND}\n", encoding="utf-8")
