"""The benchmarks run; what they measure is not judged here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count
from math import inf
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import figure
from bench.figure import MILLISECONDS, PER_SECOND, Figure
from bench.workshop import Workshop

OPTIONAL = {"gcs": "fake-gcs-server", "azure": "azurite", "hdfs": "hdfs", "kafka": "kafka"}
"""They need a server that may be missing, and a plugin that is newer than some checkouts."""
SERVED = {"s3", *OPTIONAL}
"""With a server they take up to a minute."""
IN_SPARK = {name for name in command.PARTS if name.startswith(("silt", "spark", "pipelines"))}
"""They start a JVM of their own."""


LONG = {
    "backup", "caches", "collections", "flushes", "keyspaces", "lives", "mixed", "moves", "peers",
    "populations", "reads", "recovery", "short_lives", "starts", "takeovers", "updates",
}  # fmt: skip
"""They start many processes, or write much whatever their size; each takes some seconds."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(command.PARTS.keys() - SERVED - IN_SPARK - LONG))
def test_every_part_runs(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(LONG))
def test_the_long_parts_run(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(IN_SPARK))
def test_the_parts_in_spark_run(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.soak
@pytest.mark.usefixtures("versitygw", "s3_plugin")
def test_the_part_s3_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_with_plugins("s3", tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.usefixtures("fake_gcs_server", "gcs_plugin")
def test_the_part_gcs_runs_where_its_server_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_with_plugins("gcs", tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.usefixtures("azurite", "azure_plugin")
def test_the_part_azure_runs_where_its_server_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_with_plugins("azure", tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.usefixtures("hdfs", "hdfs_plugin")
def test_the_part_hdfs_runs_where_its_server_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_with_plugins("hdfs", tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.usefixtures("kafka", "kafka_plugin")
def test_the_part_kafka_runs_where_its_broker_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_with_plugins("kafka", tmp_path, monkeypatch)


@pytest.mark.parametrize(("name", "server"), OPTIONAL.items())
def test_a_part_says_which_server_it_needs(
    name: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("SILTSTONE_CACHE", str(tmp_path / "empty"))
    _, run = command.PARTS[name]
    assert run(Workshop(folder=tmp_path, quick=True)) == []
    assert f"python -m services fetch {server}" in capsys.readouterr().err


def check_with_plugins(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processes of a part find plugins where this one does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    folder = tmp_path / "work"
    folder.mkdir()
    check(name, folder)


def check(name: str, tmp_path: Path) -> None:
    workshop = Workshop(folder=tmp_path, quick=True)
    _, run = command.PARTS[name]
    figures = run(workshop)
    assert figures
    for found in figures:
        assert len(found.ratios) == workshop.rounds
        assert found.ratios[0] > 0
    assert list(tmp_path.iterdir()) == []


def test_more_is_better_whatever_the_unit() -> None:
    rate = Figure(what="a", peer="b", unit=PER_SECOND, ours=[10, 30], theirs=[20, 20])
    cost = Figure(what="a", peer="b", unit=MILLISECONDS, ours=[10, 30], theirs=[20, 15])
    assert rate.ratios == [0.5, 1.5]
    assert cost.ratios == [0.5, 2.0]
    nothing = Figure(what="a", peer="b", unit=MILLISECONDS, ours=[0], theirs=[20])
    assert nothing.ratios == [inf]
    assert "inf" in nothing.row


def test_no_side_always_comes_second() -> None:
    clock: Iterator[int] = count()
    first, second = figure.alternate(2, lambda: next(clock), lambda: next(clock))
    assert (first, second) == ([0, 3], [1, 2])


def test_unknown_parts_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["nope"])
    assert "no such part: nope" in capsys.readouterr().err


def test_a_quick_run_writes_no_figures(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["requests", "--quick", "--write"])
    assert "no figures to write" in capsys.readouterr().err
