"""Checks of what a storage says of itself."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields

import pytest

from siltstone.core.chunk_storage import Capabilities, ChunkStorage
from siltstone.core.errors import ChunkError
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, fill

LIMITS = [field.name for field in fields(Capabilities) if field.name.endswith(("_min", "_max"))]


class CapabilityChecks(ChunkSubject):
    """What is declared holds."""

    def test_storage_is_of_the_contract(self, storage: ChunkStorage) -> None:
        assert isinstance(storage, ChunkStorage)

    def test_capabilities_are_constant(self, storage: ChunkStorage) -> None:
        capabilities = storage.capabilities
        assert isinstance(capabilities, Capabilities)
        fill(storage, "a")
        assert storage.capabilities == capabilities
        with pytest.raises(FrozenInstanceError):
            capabilities.append = False  # type: ignore[misc]

    def test_missing_capabilities_are_declared(self, storage: ChunkStorage) -> None:
        optional = ("append", "concat", "seal", "used_space", "free_space")
        lacking = {name for name in optional if not getattr(storage.capabilities, name)}
        assert lacking == self.missing, "name what the service lacks in 'missing'"

    def test_limits_are_possible(self, storage: ChunkStorage) -> None:
        capabilities = storage.capabilities
        assert {name: getattr(capabilities, name) for name in LIMITS} == {
            name: max(1, getattr(capabilities, name)) for name in LIMITS
        }
        assert capabilities.concat_part_bytes_min <= capabilities.concat_part_bytes_max

    def test_capabilities_of_all_clients_are_the_same(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        other = service.open()
        assert other.capabilities == storage.capabilities
        other.close()

    def test_arguments_have_the_names_of_the_contract(self, storage: ChunkStorage) -> None:
        verbs = [name for name in vars(ChunkStorage) if not name.startswith("_")]
        for name in sorted(set(verbs) - {"capabilities"}):
            wanted = list(inspect.signature(getattr(ChunkStorage, name)).parameters.values())[1:]
            given = list(inspect.signature(getattr(storage, name)).parameters.values())
            assert [(one.name, one.default) for one in given] == [
                (one.name, one.default) for one in wanted
            ], name

    def test_named_deviations_are_checks(self) -> None:
        named = {deviation.check.partition("[")[0] for deviation in self.deviations}
        assert {name for name in named if not hasattr(self, name)} == set()

    def test_nothing_shows_a_secret(self, storage: ChunkStorage) -> None:
        if not self.secrets:
            pytest.skip("no secrets are named in 'secrets'")
        shown = [repr(storage), str(storage), repr(storage.capabilities)]
        for call in (lambda: storage.stat("a"), lambda: storage.read_into("a", 0, bytearray(1))):
            with pytest.raises(ChunkError) as caught:
                call()
            shown += [str(caught.value), repr(caught.value), str(caught.value.__cause__)]
        for secret in self.secrets:
            assert not [text for text in shown if secret in text]
