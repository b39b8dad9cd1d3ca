"""Our own tools, one file for each group."""
