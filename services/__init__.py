"""Real servers for tests: fetched once, run on the loopback, gone with the process that asked.

None of this is part of the package ``siltstone``, and nothing in the package imports it. A server
is a process of its own that speaks a public protocol.

A new server needs a module with its program and its class, a line in ``catalogue``, a fixture with
its name in ``tests/conftest.py``, and a row in the table of ``README.md``.
"""
