"""The prices on the page about collections follow from its table of requests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "collections.md"
SECONDS = 365 * 24 * 3_600


def test_the_prices_of_collections_follow_from_the_requests() -> None:
    costs = PAGE.read_text(encoding="utf-8").partition("## Costs")[2].partition("##")[0]
    rows = [[cell.strip() for cell in row.split("|")[1:4]] for row in costs.splitlines()[4:12]]
    table = {what: (number(requests), number(writes)) for what, requests, writes in rows}
    append = dollars(table["append of up to 4 KiB"]) + dollars(
        table["its share of compactions, rollups and garbage"]
    )
    follower = dollars(table["hour of a follower that waits, with a lease"])
    text = " ".join(costs.split())
    [million, year, waits] = re.findall(
        r"about ([\d.]+) \$, one a second for a year about ([\d.]+) \$, .* waits ([\d.]+) \$", text
    )[0]
    assert float(million) == pytest.approx(append * 1e6, rel=0.02)
    assert float(year) == pytest.approx(append * SECONDS, rel=0.02)
    assert float(waits) == round(follower * 365 * 24)


def number(cell: str) -> float:
    return float(re.findall(r"[\d.]+", cell)[0])


def dollars(cost: tuple[float, float]) -> float:
    """Of requests, and of the writes among them."""
    requests, writes = cost
    return (5 * writes + 0.4 * (requests - writes)) / 1e6
