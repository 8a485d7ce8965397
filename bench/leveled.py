"""Leveled, an engine in Erlang that keeps large values: built from a checkout, in processes.

``SILTSTONE_LEVELED`` names the checkout. It is compiled into the workshop, and left as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.workshop import Workshop

VARIABLE = "SILTSTONE_LEVELED"
PROGRAMS = ("erl", "erlc")
PACKAGES = "erlang-base erlang-dev erlang-crypto erlang-eunit erlang-syntax-tools erlang-tools"
FRONT = Path("src/leveled_bookie.erl")
DEPENDENCIES = Path("_build/default/lib")
"""Where rebar3 puts what a checkout depends on, such as lz4: used if it is there."""

SMALL_BYTES = 100
CHILD = Path(__file__).with_name("leveled_child.erl")
ANSWERS = ('{"compression": ', '{"rate": ')
PROCESSES = 100
"""That put at the same time: each put of theirs is synced by itself."""


class LeveledStore:
    """An open store, in a process of its own."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.compression = str(self._answer()["compression"])
        print(f"leveled compresses: {self.compression}", file=sys.stderr, flush=True)

    def put(self, first: int, total: int, value_bytes: int) -> float:
        """Puts a second of ``total`` values with two index entries, numbered from ``first``."""
        return self._rate("put", first, total, PROCESSES, value_bytes)

    def head(self, total: int, below: int) -> float:
        """Heads a second of random objects."""
        return self._rate("head", total, below)

    def get(self, total: int, below: int, value_bytes: int) -> float:
        """Values a second of random objects."""
        return self._rate("get", total, below, value_bytes)

    def fold(self, total: int) -> float:
        """Heads a second in order; all of them, of which there must be ``total``."""
        return self._rate("fold", total)

    def _rate(self, verb: str, *numbers: int) -> float:
        assert self._child.stdin is not None, "it is a pipe"
        print(verb, *numbers, file=self._child.stdin, flush=True)
        return float(self._answer()["rate"])

    def _answer(self) -> dict[str, Any]:
        """The next answer; what Erlang and Leveled print comes between."""
        assert self._child.stdout is not None, "it is a pipe"
        for line in self._child.stdout:
            if line.startswith(ANSWERS):
                found: dict[str, Any] = json.loads(line)
                return found
            print(line, end="", file=sys.stderr)
        raise RuntimeError(f"leveled ended with {self._child.wait()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leveled:
    """The engine, compiled.

    Attributes:
        modules: the folder of its modules, and of the child.
        libraries: those of its checkout.
    """

    modules: Path
    libraries: Path

    @contextmanager
    def open(self, folder: Path, strategy: str) -> Iterator[LeveledStore]:
        """A store that syncs each put, ``sync``, or none of them, ``none``."""
        folder.mkdir(exist_ok=True)
        child = subprocess.Popen(
            [
                *("erl", "-noshell", "-pa", str(self.modules)),
                *("-run", "leveled_child", "main", strategy, str(folder.resolve())),
            ],
            cwd=self.modules,
            env=_environment(self.libraries),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            try:
                yield LeveledStore(child)
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            raise RuntimeError(f"leveled ended with {child.returncode}")


@contextmanager
def compiled(workshop: Workshop) -> Iterator[Leveled | None]:
    """Leveled, or ``None`` after telling on standard error what is missing.

    Raises:
        ValueError: the variable names something else than a checkout.
        RuntimeError: the checkout does not compile.
    """
    if (reason := _missing()) is not None:
        print(f"NOT MEASURED: leveled: {reason}", file=sys.stderr, flush=True)
        yield None
        return
    checkout = Path(os.environ[VARIABLE]).resolve()
    with workshop.place() as modules:
        yield _compiled(checkout, modules.resolve())


@contextmanager
def leveled_puts(
    leveled: Leveled, folder: Path, value_bytes: int
) -> Iterator[Callable[[int], float]]:
    """A new store that syncs: puts a second of so many new objects."""
    first = 0
    with leveled.open(folder, "sync") as store:

        def rate(total: int) -> float:
            nonlocal first
            first += total
            return store.put(first - total, total, value_bytes)

        yield rate


@contextmanager
def leveled_reads(
    leveled: Leveled | None, folder: Path, few: int, total: int, value_bytes: int
) -> Iterator[list[LeveledStore]]:
    """A store that was closed and opened: ``few`` values, then ones of 100 bytes to ``total``.

    Empty if there is no Leveled.
    """
    if leveled is None:
        yield []
        return
    with leveled.open(folder, "none") as store:
        store.put(0, few, value_bytes)
        store.put(few, total - few, SMALL_BYTES)
    with leveled.open(folder, "none") as store:
        yield [store]


def _missing() -> str | None:
    named = os.environ.get(VARIABLE)
    if not named:
        return f"{VARIABLE} names no checkout of it; see bench/README.md"
    if not (Path(named) / FRONT).is_file():
        raise ValueError(f"{VARIABLE}={named} is no checkout of leveled: it has no {FRONT}")
    programs = [name for name in PROGRAMS if shutil.which(name) is None]
    if programs:
        return f"{', '.join(programs)} is missing; on Debian: apt-get install {PACKAGES}"
    return None


def _compiled(checkout: Path, modules: Path) -> Leveled:
    libraries = checkout / DEPENDENCIES
    sources = checkout / "src"
    grammars = sorted([*sources.glob("*.xrl"), *sources.glob("*.yrl")])
    if grammars:
        _compile(grammars, checkout, modules)
    programs = [*sources.glob("*.erl"), *modules.glob("*.erl"), CHILD]
    _compile(sorted(programs), checkout, modules)
    return Leveled(modules=modules, libraries=libraries)


def _compile(files: Sequence[Path], checkout: Path, modules: Path) -> None:
    done = subprocess.run(
        [
            *("erlc", "-W0", "-o", str(modules), "-I", str(checkout)),
            *("-I", str(checkout / "include"), *map(str, files)),
        ],
        cwd=modules,
        env=_environment(checkout / DEPENDENCIES),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"leveled does not compile:\n{done.stdout}")


def _environment(libraries: Path) -> dict[str, str]:
    return {**os.environ, "ERL_LIBS": str(libraries)}
