"""Fakes for tests: servers, models, stores. Importing this package loads nothing."""
