"""Fakes that stand at the seams of a test: servers, models, stores. Importing this loads nothing."""
