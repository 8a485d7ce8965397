"""The checks of the tier-1 log contract, by subject; ``fenced_log_contract`` joins them."""

__all__: list[str] = []
