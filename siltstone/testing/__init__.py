"""Test kits for plugin authors and applications: contract suites, fault injection, virtual time."""
