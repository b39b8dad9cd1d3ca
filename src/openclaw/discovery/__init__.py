"""Finds the tools that fit a need, without a model call and without the network."""
