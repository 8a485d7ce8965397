"""The checks of the contract of consensus, by what they are about."""
