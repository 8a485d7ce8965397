"""The checks of the chunk storage contract, by subject; ``chunk_storage_contract`` joins them."""

__all__: list[str] = []
