"""The tools that are our own, one file for each group."""
