"""The checks of the chunk storage contract, by subject; ``chunk_storage_contract`` joins them."""

from pkgutil import iter_modules

import pytest

__all__: list[str] = []

pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
