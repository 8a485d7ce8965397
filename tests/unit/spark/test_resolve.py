"""Planning a read: every segment that an option names has to be among those that are read."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.spark.options import parse_options
from siltstone.spark.resolve import resolve_tasks


@pytest.mark.slow
@pytest.mark.parametrize("option", ["from", "to", "at_length"])
@pytest.mark.parametrize("name", ["p/c", "other", ""])
def test_offsets_of_what_is_not_below_the_prefix_are_refused(
    tmp_path: Path, option: str, name: str
) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        for one in ("p/a", "p/b", "other"):
            store.create(one).append(b"1\n2\n")
    given = {"store": str(tmp_path), "prefix": "p/"}
    (task,) = resolve_tasks(parse_options(given | {option: '{"p/a": 2}'}), 1)
    assert [part.segment for part in task] == ["p/a", "p/b"]
    with pytest.raises(siltstone.SettingsError, match=f"'{option}' names '{name}', which is not"):
        resolve_tasks(parse_options(given | {option: f'{{"p/a": 2, "{name}": 2}}'}), 1)
