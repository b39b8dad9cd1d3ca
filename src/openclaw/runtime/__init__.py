"""The composition root: builds the parts and joins them.

Importing the package is cheap; `access` is what front ends use, and loads the rest when it is needed.
"""
