"""Real servers for tests: fetched once, run on the loopback, gone with the process that asked.

Nothing of this is part of the package ``siltstone``, and nothing in it imports this. A server is a
process of its own that speaks a public protocol.
"""
