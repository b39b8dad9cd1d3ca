"""The `file` store: one SQLite database that many processes of one machine share."""
