"""Options of a read of a collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.core.errors import SettingsError
from siltstone.spark.collection_options import CollectionReadOptions, parse_collection_options
from siltstone.spark.data_source import SegmentSource

NEEDED = {"store": "/data/store", "collection": "gusts"}


def test_what_is_needed() -> None:
    found = parse_collection_options(NEEDED)
    assert found == CollectionReadOptions(store="/data/store", collection="gusts")
    assert parse_collection_options({**NEEDED, "store": "here"}).store == str(Path.cwd() / "here")


def test_all_options_and_their_names_without_case() -> None:
    given = {**NEEDED, "ASOF": " 17 ", "Columns": "b, a", "diffs": "True"}
    found = parse_collection_options(given)
    assert (found.as_of, found.columns, found.diffs) == (17, ("b", "a"), True)
    assert parse_collection_options({**NEEDED, "asOf": str(2**63 - 2)}).as_of == 2**63 - 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": None}, "option 'store' is missing"),
        ({"collection": ""}, "option 'collection' is missing"),
        ({"segment": "s"}, "'collection' and 'segment' exclude each other"),
        ({"segments": '["s"]'}, "'collection' and 'segments' exclude each other"),
        ({"prefix": ""}, "'collection' and 'prefix' exclude each other"),
        ({"from": "3"}, "unknown option: 'from'; known for a collection are store, collection"),
        ({"path": "x"}, "load.. takes no path: say .option"),
        ({"asOf": "-1"}, "option 'asOf' is a whole number from 0 to 9223372036854775806, not '-1'"),
        ({"asOf": str(2**63 - 1)}, "option 'asOf' is a whole number"),
        ({"asOf": "2024-01-01"}, "option 'asOf' is a whole number"),
        ({"columns": ""}, "option 'columns' is one name or several"),
        ({"columns": "a,,b"}, "option 'columns' is one name or several"),
        ({"columns": "a, a"}, "option 'columns' names a column twice"),
        ({"diffs": "yes"}, "option 'diffs' is one of true, false, not 'yes'"),
        ({"owner": "me"}, "cannot be tables"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_opened(
    options: dict[str, str | None], message: str
) -> None:
    given = {name: value for name, value in {**NEEDED, **options}.items() if value is not None}
    with pytest.raises(SettingsError, match=message):
        SegmentSource(given).schema()
