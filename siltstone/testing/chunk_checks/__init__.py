"""The checks of the chunk storage contract, by subject; ``chunk_storage_contract`` joins them."""

import pytest

__all__: list[str] = []

pytest.register_assert_rewrite(
    *(
        f"siltstone.testing.chunk_checks.{name}"
        for name in (
            "abilities", "buffers", "closing", "declaring", "deleting", "listing", "model",
            "naming", "outcomes", "processes", "racing", "reading", "stopping", "subject",
            "writing",
        )
    )
)  # fmt: skip
