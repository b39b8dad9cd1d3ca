"""Finds text that tries to give the agent orders. It informs; it never changes text."""
