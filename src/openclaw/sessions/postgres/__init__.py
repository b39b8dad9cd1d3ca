"""Sessions in a PostgreSQL database, which many machines can share."""
