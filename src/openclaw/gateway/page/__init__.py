"""The page: its own routes, and the files in `static/`."""
