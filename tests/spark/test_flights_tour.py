"""The script and the notebook of the flights say what they promise, on some of the flights."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from examples.flights import collection_tour, spark_tour

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TOURS = (spark_tour, collection_tour)
COUNT = 3_000


@pytest.mark.usefixtures("silt")
def test_the_script(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_tour.run(spark, tmp_path, COUNT)
    out = capsys.readouterr().out
    assert f"{COUNT // 2:,} flights at first, then {COUNT:,}" in out
    assert "the answer is the same as before" in out


def test_the_script_of_collections(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collection_tour.run(spark, tmp_path, COUNT)
    assert "The stream has come to the same answer" in capsys.readouterr().out


@pytest.mark.soak
@pytest.mark.usefixtures("silt", "spark")
@pytest.mark.parametrize("tour", TOURS)
def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tour: ModuleType) -> None:
    file = Path(tour.__file__ or "").with_suffix(".ipynb")
    notebook = json.loads(file.read_text(encoding="utf-8"))
    monkeypatch.setenv("FLIGHTS", str(COUNT))
    monkeypatch.setenv("SILTSTONE_KEEP_SESSION", "1")
    monkeypatch.setenv("FLIGHTS_FOLDER", str(tmp_path))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), "outputs are cleared"
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(file), "exec"), names)
    assert "total" in names
    if tour is spark_tour:
        assert names["total"] == COUNT
