"""Leveled as a peer: what a run says without it, and how it drives it.

A stand-in has the verbs that the child calls, and keeps objects in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bench.leveled import VARIABLE, LeveledStore, compiled, leveled_puts, leveled_reads
from bench.workshop import Workshop

ERLANG = pytest.mark.skipif(shutil.which("erlc") is None, reason="needs Erlang")

STAND_IN = """
-module(leveled_bookie).
-include("stand_in.hrl").
-export([book_start/1, book_put/6, book_head/4, book_get/4, book_headfold/6, book_close/1]).

book_start(Options) ->
    File = proplists:get_value(root_path, Options) ++ "/objects",
    Table = case ets:file2tab(File) of
        {ok, Kept} -> Kept;
        {error, _} -> ets:new(objects, [ordered_set, public])
    end,
    io:format("{what it says itself}~n"),
    {ok, {File, Table}}.

book_put({_, Table}, Bucket, Key, Value, [{add, _, _}, {add, _, _}], ?TAG) ->
    true = ets:insert(Table, {{Bucket, Key}, Value}),
    case binary:last(Key) of
        $7 -> pause;
        _ -> ok
    end.

book_get({_, Table}, Bucket, Key, ?TAG) ->
    case ets:lookup(Table, {Bucket, Key}) of
        [{_, Value}] -> {ok, Value};
        [] -> not_found
    end.

book_head(Store, Bucket, Key, Tag) ->
    book_get(Store, Bucket, Key, Tag).

book_headfold({_, Table}, ?TAG, {Fold, Start}, false, true, false) ->
    Next = fun({{Bucket, Key}, Value}, Found) -> Fold(Bucket, Key, Value, Found) end,
    {async, fun() -> ets:foldl(Next, Start, Table) end}.

book_close({File, Table}) ->
    ets:tab2file(Table, File).
"""


ASKED: Sequence[Callable[[LeveledStore], float]] = (
    lambda store: store.head(1, 1),
    lambda store: store.get(1, 1, 100),
    lambda store: store.fold(1),
)
"""Of an empty store: what each asks for is not there."""


def made_checkout(folder: Path, text: str = STAND_IN) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "src/leveled_bookie.erl").write_text(text)
    (folder / "include/stand_in.hrl").write_text("-define(TAG, o).\n")
    return folder


def made_workshop(tmp_path: Path) -> Workshop:
    (folder := tmp_path / "work").mkdir()
    return Workshop(folder=folder, quick=True)


def test_without_a_checkout_a_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with compiled(made_workshop(tmp_path)) as leveled:
        assert leveled is None
    assert f"NOT MEASURED: leveled: {VARIABLE} names no checkout" in capsys.readouterr().err


def test_without_erlang_a_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(made_checkout(tmp_path / "leveled")))
    monkeypatch.setenv("PATH", str(tmp_path))
    with compiled(made_workshop(tmp_path)) as leveled:
        assert leveled is None
    assert "NOT MEASURED: leveled: erl, erlc" in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with (
        pytest.raises(ValueError, match="no checkout of leveled: it has no src/leveled_bookie"),
        compiled(made_workshop(tmp_path)),
    ):
        raise AssertionError("there is nothing to measure")


@ERLANG
@pytest.mark.slow
def test_a_checkout_is_driven_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = made_checkout(tmp_path / "leveled")
    before = sorted(checkout.rglob("*"))
    monkeypatch.setenv(VARIABLE, str(checkout))
    workshop = made_workshop(tmp_path)
    with compiled(workshop) as leveled, workshop.place() as place:
        assert leveled is not None
        with leveled_puts(leveled, place / "puts", 100) as puts:
            assert min(puts(20), puts(30)) > 0
        with leveled.open(place / "puts", "none") as store:
            assert store.fold(50) > 0
        with leveled_reads(leveled, place / "reads", 20, 50, 1_000) as (store,):
            assert min(store.head(40, 50), store.get(40, 20, 1_000), store.fold(50)) > 0
    assert sorted(checkout.rglob("*")) == before
    assert list(workshop.folder.iterdir()) == []
    told = capsys.readouterr().err
    assert "{what it says itself}" in told
    assert "leveled compresses: native" in told


@ERLANG
@pytest.mark.slow
def test_what_leveled_does_wrong_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(made_checkout(tmp_path / "leveled")))
    workshop = made_workshop(tmp_path)
    with compiled(workshop) as leveled, workshop.place() as place:
        assert leveled is not None
        for ask in ASKED:
            with (
                pytest.raises(RuntimeError, match="leveled ended with 1"),
                leveled.open(place / "empty", "none") as store,
            ):
                ask(store)


@ERLANG
@pytest.mark.slow
def test_a_checkout_that_does_not_compile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(made_checkout(tmp_path / "leveled", "not Erlang")))
    with (
        pytest.raises(RuntimeError, match="leveled does not compile"),
        compiled(made_workshop(tmp_path)),
    ):
        raise AssertionError("there is nothing to measure")
