"""The composition root: builds the parts and joins them.

Importing the package is cheap; front ends use `access`, which loads the rest when needed.
"""
