from __future__ import annotations

import pytest

from siltstone.store.settings.units import format_size, format_time, parse_size, parse_time


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        (4096, 4096),
        ("4097", 4097),
        ("1B", 1),
        ("64KiB", 65536),
        (" 64 MiB ", 64 * 2**20),
        ("1.5GiB", 3 * 2**29),
        ("2TiB", 2**41),
    ],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "64MB", "64mib", "-1", "1.3B", "MiB", "1e3", True, 1.5, None, [], "9000000TiB"]
)
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(ValueError, match=r"size|whole number"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("15min", 900), ("1h", 3600), ("7d", 604800), ("1.5s", 1.5)],
)
def test_times(text: object, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "31", 30, 1.5, "1m", "-1s", "s", True, None, "99999999d"])
def test_what_is_no_time(text: object) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_time(text)


@pytest.mark.parametrize("text", ["0", "1", "1KiB", "64MiB", "3GiB", "1TiB", "1025"])
def test_a_size_is_written_as_it_is_read(text: str) -> None:
    assert format_size(parse_size(text)) == text


@pytest.mark.parametrize("text", ["0s", "1ms", "30s", "15min", "1h", "7d", "1500ms"])
def test_a_time_is_written_as_it_is_read(text: str) -> None:
    assert format_time(parse_time(text)) == text
