"""Checks of names: what can be a key is exactly that key, and what cannot is refused."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    Outcome,
)
from siltstone.testing.chunk_checks.subject import (
    ChunkService,
    ChunkSubject,
    names,
    need,
    read,
)

WRONG = (
    "", "/", "//", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a", "a/./b", "a/.",
    "../../etc/passwd", "/etc/passwd", "a\0b", "\0", "x" * 1_025, "é" * 513, "\ud800", "a/\udfff",
)  # fmt: skip

ODD = (
    "a b", " a", "a ", "a+b", "a%20b", "a%2Fb", "%", "%00", "a#b", "a?b=c&d", "a;b", "a:b", "a\\b",
    "a'b", 'a"b', "a*b", "[a]", "{a}", "<a>", "a|b", "a,b", "$a", "@a", "-a", "--", "~", "...",
    "..a", "a..", ".a", "a.", ".tmp/a", "é", "e\u0301", "\u212b", "\u4e2d\u6587/\u5b57",
    "\U0001f600", "A", "a", "aB", "CON", "lost+found.x", "_a", "a/_b/c", "a~", "a.tmp",
    "data/c0/e1/n_2fx/00000000000000000000-0f",
)  # fmt: skip


class NameChecks(ChunkSubject):
    """A name is an exact key of up to 1,024 bytes, and leads nowhere else."""

    @pytest.mark.parametrize("name", WRONG)
    @pytest.mark.parametrize("operation", ["create", "read_into", "stat", "delete"])
    def test_wrong_names_are_refused(
        self, storage: ChunkStorage, service: ChunkService, operation: str, name: str
    ) -> None:
        service.outside_write("a/b", b"x")
        calls: dict[str, Callable[[], object]] = {
            "create": lambda: storage.create(name, [b"x"]),
            "read_into": lambda: storage.read_into(name, 0, bytearray(1)),
            "stat": lambda: storage.stat(name),
            "delete": lambda: storage.delete(name),
        }
        with pytest.raises(ChunkNameError) as caught:
            calls[operation]()
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert list(service.outside_names()) == ["a/b"]

    @pytest.mark.parametrize("name", [b"a", None, 7])
    def test_a_name_is_text(self, storage: ChunkStorage, name: Any) -> None:
        with pytest.raises(TypeError):
            storage.create(name, [b"x"])
        with pytest.raises(TypeError):
            storage.stat(name)

    @pytest.mark.parametrize("name", ODD)
    def test_odd_names_are_exact(
        self, storage: ChunkStorage, service: ChunkService, name: str
    ) -> None:
        storage.create(name, [name.encode()])
        assert service.outside_read(name) == name.encode()
        assert list(service.outside_names()) == [name]
        assert names(storage) == [name]
        assert storage.stat(name).name == name
        assert read(storage, name) == name.encode()
        storage.delete(name)
        assert names(storage) == []

    def test_names_that_look_alike_are_different(self, storage: ChunkStorage) -> None:
        alike = ["a", "A", "a ", "a%20", "a+", "a%2f", "a%2F", "é", "e\u0301"]
        for name in alike:
            storage.create(name, [name.encode()])
        assert {name: read(storage, name) for name in alike} == {
            name: name.encode() for name in alike
        }

    def test_the_longest_name(self, storage: ChunkStorage, service: ChunkService) -> None:
        name = "/".join(["p" * 120] * 8 + ["q" * 56])[: self.name_bytes_max]
        assert len(name) == self.name_bytes_max
        storage.create(name, [b"x"])
        assert storage.stat(name).name == name
        assert names(storage, name) == [name]
        assert service.outside_read(name) == b"x"

    def test_a_name_below_a_missing_folder_is_not_found(self, storage: ChunkStorage) -> None:
        for call in (storage.stat, storage.delete):
            with pytest.raises(ChunkNotFoundError):
                call("no/such/folder/a")

    @pytest.mark.parametrize("name", WRONG[::3])
    @pytest.mark.parametrize("operation", ["write", "seal", "concat to", "concat from"])
    def test_wrong_names_are_refused_by_what_is_optional(
        self, storage: ChunkStorage, service: ChunkService, operation: str, name: str
    ) -> None:
        able = {"write": "append", "seal": "seal"}.get(operation, "concat")
        need(storage, able)
        service.outside_write("a", b"x")
        calls: dict[str, Callable[[], object]] = {
            "write": lambda: storage.write(name, 0, [b"x"]),
            "seal": lambda: storage.seal(name),
            "concat to": lambda: storage.concat(name, [("a", 1)]),
            "concat from": lambda: storage.concat("b", [(name, 1)]),
        }
        with pytest.raises(ChunkNameError) as caught:
            calls[operation]()
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert list(service.outside_names()) == ["a"]

    def test_every_verb_wants_text(self, storage: ChunkStorage) -> None:
        wrong: Any
        for wrong in (b"a", None, 7):
            with pytest.raises(TypeError):
                storage.read_into(wrong, 0, bytearray(1))
            with pytest.raises(TypeError):
                storage.delete(wrong)
            if storage.capabilities.append:
                with pytest.raises(TypeError):
                    storage.write(wrong, 0, [b"x"])

    @pytest.mark.parametrize("names_made", [("d/a", "d"), ("d", "d/a")])
    def test_a_name_that_is_the_folder_of_another_is_exact_or_refused(
        self, storage: ChunkStorage, service: ChunkService, names_made: tuple[str, str]
    ) -> None:
        first, second = names_made
        storage.create(first, [b"first"])
        refusal: ChunkError | None = None
        try:
            storage.create(second, [b"second"])
        except (ChunkNameError, ChunkExistsError) as error:
            refusal = error
        if refusal is None:
            assert service.outside_read(second) == b"second"
            assert names(storage) == ["d", "d/a"]
        else:
            assert refusal.outcome is Outcome.NOT_APPLIED
            assert names(storage) == [first]
        assert read(storage, first) == b"first"

    def test_an_error_of_a_wrong_name_shows_no_control_characters(
        self, storage: ChunkStorage
    ) -> None:
        with pytest.raises(ChunkNameError) as caught:
            storage.create("a\0\n\x1b[31m", [b"x"])
        assert str(caught.value).isprintable()

    def test_many_parts_make_one_name(self, storage: ChunkStorage, service: ChunkService) -> None:
        name = "/".join("p" for _ in range(60))
        storage.create(name, [b"x"])
        assert names(storage, "p/p/p/") == [name]
        assert service.outside_read(name) == b"x"
        with pytest.raises(ChunkNotFoundError):
            storage.stat(name[:-2])
