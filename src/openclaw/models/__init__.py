"""Choosing, building and asking a model."""
