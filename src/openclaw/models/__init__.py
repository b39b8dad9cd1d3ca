"""Choosing and building a model, and the embedded local one."""
